//! A result that consists of values and tables: the text for users, and the JSON for programs.

use super::table_form::{pairs, table};
use serde::Serialize;
use serde_json::Value;

/// One result.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sheet {
    json: Value,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug, PartialEq)]
enum Block {
    Pairs(Vec<(&'static str, String)>),
    Table { columns: Vec<String>, rows: Vec<Vec<String>> },
    Note(String),
    Verbatim(String),
}

impl Sheet {
    /// An empty result; `json` is all that programs get.
    pub(crate) fn new(json: &impl Serialize) -> Sheet {
        // Cannot fail: results hold no map whose keys are not text.
        Sheet { json: serde_json::to_value(json).unwrap_or_default(), blocks: Vec::new() }
    }

    /// Adds named values; empty ones are not shown.
    #[must_use]
    pub(crate) fn pairs(mut self, pairs: Vec<(&'static str, String)>) -> Sheet {
        self.blocks.push(Block::Pairs(pairs));
        self
    }

    /// Adds a table; columns that begin with `>` are aligned to the right.
    #[must_use]
    pub(crate) fn table<C: Into<String>>(
        mut self,
        columns: impl IntoIterator<Item = C>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Sheet {
        let columns = columns.into_iter().map(Into::into).collect();
        self.blocks.push(Block::Table { columns, rows: rows.into_iter().collect() });
        self
    }

    /// Adds a sentence.
    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Sheet {
        self.blocks.push(Block::Note(note.into()));
        self
    }

    /// Adds text that is shown as it is.
    #[must_use]
    pub(crate) fn verbatim(mut self, text: String) -> Sheet {
        self.blocks.push(Block::Verbatim(text));
        self
    }

    /// For programs.
    pub(super) fn json(&self) -> &Value {
        &self.json
    }

    /// For users: the blocks, separated by empty lines.
    pub(super) fn text(&self) -> String {
        let block = |block: &Block| match block {
            Block::Pairs(values) => pairs(values),
            Block::Table { columns, rows } => {
                let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                table(&columns, rows.iter().cloned())
            }
            Block::Note(note) => format!("{note}\n"),
            Block::Verbatim(text) => text.clone(),
        };
        self.blocks.iter().map(block).collect::<Vec<_>>().join("\n")
    }

    /// For scripts: only the cells of each row, separated by tabs.
    pub(super) fn bare(&self) -> String {
        let line = |cells: Vec<&str>| cells.join("\t") + "\n";
        let block = |block: &Block| -> String {
            match block {
                Block::Pairs(values) => values
                    .iter()
                    .filter(|(_, value)| !value.is_empty())
                    .map(|(name, value)| line(vec![name, value]))
                    .collect(),
                Block::Table { rows, .. } => {
                    rows.iter().map(|row| line(row.iter().map(String::as_str).collect())).collect()
                }
                Block::Note(_) => String::new(),
                Block::Verbatim(text) => text.clone(),
            }
        };
        self.blocks.iter().map(block).collect()
    }
}
