//! A field that a user may put into a column.

use super::Show;

/// A field of a record of type `R`.
#[derive(Debug)]
pub struct Field<R> {
    /// The letter of `-o`, where there is one.
    pub letter: Option<char>,
    /// The name of `-O`, in lower case.
    pub name: &'static str,
    /// The head of its column.
    pub head: &'static str,
    /// The text for a record.
    pub value: fn(&R, &Show) -> String,
    /// Values that are printed whole in a column that is too narrow.
    pub whole: Whole,
}

/// Values that Slurm does not cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// Nothing.
    Nothing,
    /// The head: that of lists of nodes.
    Head,
    /// The text: spans of time.
    Value,
}

/// The same field, of which this is printed whole.
pub(super) const fn whole<R>(whole: Whole, field: Field<R>) -> Field<R> {
    let Field { letter, name, head, value, .. } = field;
    Field { letter, name, head, value, whole }
}

/// The names of fields for `-O`, four on a line (`--helpformat`).
pub fn help_format<R>(fields: &[Field<R>]) -> String {
    let line = |fields: &[Field<R>]| {
        fields.iter().map(|field| format!("{:<20}", field.name)).collect::<String>() + "\n"
    };
    fields.chunks(4).map(line).collect()
}

/// A field with a letter and a name.
pub(super) const fn both<R>(
    letter: char,
    name: &'static str,
    head: &'static str,
    value: fn(&R, &Show) -> String,
) -> Field<R> {
    Field { letter: Some(letter), name, head, value, whole: Whole::Nothing }
}

/// A field with a name only.
pub(super) const fn named<R>(
    name: &'static str,
    head: &'static str,
    value: fn(&R, &Show) -> String,
) -> Field<R> {
    Field { letter: None, name, head, value, whole: Whole::Nothing }
}
