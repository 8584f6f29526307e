//! The form of tables: columns with a header and without lines, so that `awk` works.

use super::written::safe;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A table of these columns; those that begin with `>` are aligned to the right.
pub(super) fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|name| name.trim_start_matches('>')));
    for row in rows {
        table.add_row(row.iter().map(|cell| safe(cell)));
    }
    let last = columns.len().saturating_sub(1);
    for (index, name) in columns.iter().enumerate() {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((0, if index == last { 0 } else { 2 }));
            if name.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// `name  value` lines, the names padded to the same width.
pub(super) fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    pairs
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name:width$}  {}\n", safe(value)))
        .collect()
}
