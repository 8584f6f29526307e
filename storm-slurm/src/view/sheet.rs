//! Tables of named columns with a width each, as sacctmgr and sshare print them.

use super::column::padded;
use super::sacct::Form;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetColumn {
    /// Its head.
    pub head: String,
    /// Its width; below 0 the text is at the left.
    pub width: i32,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    /// The columns.
    pub columns: Vec<SheetColumn>,
    /// The rows, with a text for each column.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    /// The table, with its heads if they are asked for.
    pub fn text(&self, heads: bool, form: &Form) -> String {
        let mut text = String::new();
        if heads {
            let names: Vec<String> = self.columns.iter().map(|one| one.head.clone()).collect();
            text += &self.line(&names, form, false);
            if *form == Form::Columns {
                let dashes = self.columns.iter().map(|one| "-".repeat(width(one.width)));
                text += &self.line(&dashes.collect::<Vec<_>>(), form, false);
            }
        }
        text.extend(self.rows.iter().map(|row| self.line(row, form, true)));
        text
    }

    /// The heads of all columns, four on a line.
    pub fn names(&self) -> String {
        let name = |column: &SheetColumn| format!("{:<17}", column.head);
        let line = |columns: &[SheetColumn]| columns.iter().map(name).collect::<Vec<_>>().join(" ");
        self.columns.chunks(4).map(line).collect::<Vec<_>>().join("\n")
    }

    /// Only these columns, in this order: `account%30,user`.
    ///
    /// # Errors
    /// The name of a column that there is not.
    pub fn only(&self, format: &str) -> Result<Sheet, String> {
        let mut chosen = Vec::new();
        for part in format.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, width) = match part.split_once('%') {
                Some((name, width)) => (name, width.parse::<i32>().ok()),
                None => (part, None),
            };
            let is_named = |column: &SheetColumn| column.head.eq_ignore_ascii_case(name);
            let at = self.columns.iter().position(is_named).ok_or_else(|| name.to_owned())?;
            let width = width.unwrap_or(self.columns[at].width);
            chosen.push((at, SheetColumn { width, ..self.columns[at].clone() }));
        }
        let row = |row: &Vec<String>| chosen.iter().map(|(at, _)| row[*at].clone()).collect();
        let rows = self.rows.iter().map(row).collect();
        Ok(Sheet { columns: chosen.iter().map(|(_, column)| column.clone()).collect(), rows })
    }

    fn line(&self, texts: &[String], form: &Form, marks: bool) -> String {
        let cells = self.columns.iter().zip(texts);
        let mut line = match form {
            Form::Columns => cells.map(|(column, text)| fitted(column, text, marks)).collect(),
            Form::Parsable { delimiter, trailing } => {
                let texts: Vec<String> = cells.map(|(_, text)| padded(text, 0, false)).collect();
                let end = if *trailing { delimiter.as_str() } else { "" };
                texts.join(delimiter) + end
            }
        };
        line.push('\n');
        line
    }
}

fn width(width: i32) -> usize {
    // No column is wider than this: a user's number must not take the memory of the host.
    const WIDEST: u32 = 10_000;
    width.unsigned_abs().min(WIDEST) as usize
}

/// The text in its column, and a blank. A plus marks a value that is cut off.
fn fitted(column: &SheetColumn, text: &str, marks: bool) -> String {
    let (width, right) = (width(column.width), column.width >= 0);
    let cell = match text.chars().count() > width && marks && width > 0 {
        true => padded(text, width - 1, right) + "+",
        false => padded(text, width.max(1), right),
    };
    cell + " "
}
