//! The table of sacct: columns, heads, and the forms for programs.

use super::{SACCT_FIELDS, SacctField, SacctRow, UnitChoice};
use crate::view::Show;
use crate::view::column::padded;

/// The columns of sacct.
#[derive(Debug)]
pub struct SacctLayout(Vec<Column>);

#[derive(Debug)]
struct Column {
    field: &'static SacctField,
    width: usize,
    left: bool,
}

/// A name that is no field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid field requested: \"{0}\"")]
pub struct UnknownSacctField(pub String);

/// How the table is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// In columns, for people.
    Columns,
    /// With a separator between fields, and after the last if `trailing`.
    Parsable {
        /// The separator.
        delimiter: String,
        /// Whether it follows the last field too.
        trailing: bool,
    },
}

impl SacctLayout {
    /// Reads names of fields with a width each: `jobid%-20,state`. `all` is every field.
    ///
    /// # Errors
    /// A name is no field.
    pub fn of(format: &str) -> Result<SacctLayout, UnknownSacctField> {
        let mut columns = Vec::new();
        for part in format.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, width) = match part.split_once('%') {
                Some((name, width)) => (name, width.parse::<i32>().ok()),
                None => (part, None),
            };
            if name.eq_ignore_ascii_case("all") {
                columns.extend(SACCT_FIELDS.iter().map(|field| Column::of(field, None)));
                continue;
            }
            // Slurm takes the first name that begins so.
            let exact = SACCT_FIELDS.iter().find(|field| field.name.eq_ignore_ascii_case(name));
            let begins = |field: &&SacctField| {
                field.name.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name))
            };
            let field = exact.or_else(|| SACCT_FIELDS.iter().find(begins));
            let field = field.ok_or_else(|| UnknownSacctField(name.to_owned()))?;
            columns.push(Column::of(field, width));
        }
        Ok(SacctLayout(columns))
    }

    /// The heads: one line for programs, two for people.
    pub fn heads(&self, form: &Form) -> String {
        match form {
            Form::Columns => {
                // A head that is too long is cut off without a plus.
                let name = |column: &Column| match column.width {
                    0 => String::new(),
                    width => padded(column.field.name, width, !column.left),
                };
                let dashes = |column: &Column| "-".repeat(column.width);
                self.line(name) + &self.line(dashes)
            }
            Form::Parsable { delimiter, trailing } => {
                let names = self.0.iter().map(|column| column.field.name.to_owned());
                separated(names, delimiter, *trailing)
            }
        }
    }

    /// The line of a row.
    pub fn row(&self, row: &SacctRow, show: &Show, unit: UnitChoice, form: &Form) -> String {
        let text = |column: &Column| (column.field.value)(row, show, unit);
        match form {
            Form::Columns => self.line(|column| fitted(&text(column), column.width, column.left)),
            Form::Parsable { delimiter, trailing } => {
                let texts = self.0.iter().map(|column| padded(&text(column), 0, false));
                separated(texts, delimiter, *trailing)
            }
        }
    }

    /// Whether a column shows one of these fields.
    pub fn shows(&self, names: &[&str]) -> bool {
        self.0.iter().any(|column| names.contains(&column.field.name))
    }

    fn line(&self, text: impl Fn(&Column) -> String) -> String {
        let mut line = String::new();
        for column in &self.0 {
            line.push_str(&text(column));
            line.push(' ');
        }
        line.push('\n');
        line
    }
}

impl Column {
    /// No column is wider than this: a user's number must not take the memory of the host.
    const WIDEST: u32 = 10_000;

    fn of(field: &'static SacctField, width: Option<i32>) -> Column {
        // A width given without a sign puts the text at the right, as sacct does.
        let signed = width.unwrap_or(field.width);
        let size = signed.unsigned_abs().min(Self::WIDEST);
        Column { field, width: size as usize, left: signed < 0 }
    }
}

/// The text in its column. A plus marks one that is cut off.
fn fitted(text: &str, width: usize, left: bool) -> String {
    match text.chars().count() > width {
        _ if width == 0 => String::new(),
        true => padded(text, width - 1, !left) + "+",
        false => padded(text, width, !left),
    }
}

fn separated(texts: impl Iterator<Item = String>, delimiter: &str, trailing: bool) -> String {
    let mut line = texts.collect::<Vec<_>>().join(delimiter);
    if trailing {
        line.push_str(delimiter);
    }
    line.push('\n');
    line
}
