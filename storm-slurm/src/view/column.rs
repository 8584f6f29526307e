//! Columns that a user asks for, and the lines that they make.

use super::{Field, Show};

/// The columns of a listing, of records of type `R`.
#[derive(Debug)]
pub struct Layout<R: 'static> {
    prefix: String,
    columns: Vec<Column<R>>,
}

#[derive(Debug)]
struct Column<R: 'static> {
    cell: Cell<R>,
    /// 0 is as wide as the text.
    width: usize,
    right: bool,
    suffix: String,
}

#[derive(Debug)]
enum Cell<R: 'static> {
    Field(&'static Field<R>),
    /// Part of a format that names no field; printed as it is.
    Literal(String),
}

/// Part of a format that names no field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField(pub String);

/// The width of a field of `-O` without a width.
const NAMED_WIDTH: usize = 20;

impl<R> Layout<R> {
    /// Reads the format of `-o`: `%[[.]size]type[suffix]`, for each field. The fields that do not
    /// exist are printed as they are, and returned.
    pub fn of_letters(format: &str, fields: &'static [Field<R>]) -> (Layout<R>, Vec<UnknownField>) {
        let mut parts = format.split('%');
        let prefix = parts.next().unwrap_or_default().to_owned();
        let (mut columns, mut unknown) = (Vec::new(), Vec::new());
        for part in parts.filter(|part| !part.is_empty()) {
            if let Some(suffix) = part.strip_prefix("all") {
                columns.extend(all_letters(fields, suffix));
                continue;
            }
            match lettered(part, fields) {
                Ok(column) => columns.push(column),
                Err(field) => {
                    unknown.push(field);
                    columns.push(Column::literal(format!("%{part}")));
                }
            }
        }
        (Layout { prefix, columns }, unknown)
    }

    /// Reads the format of `-O`: `type[:[.][size][suffix]]`, separated by commas. The fields that
    /// do not exist are left out, and returned.
    pub fn of_names(format: &str, fields: &'static [Field<R>]) -> (Layout<R>, Vec<UnknownField>) {
        let (mut columns, mut unknown) = (Vec::new(), Vec::new());
        for part in format.split(',').filter(|part| !part.is_empty()) {
            let (name, rest) = match part.split_once(':') {
                Some((name, rest)) => (name, Some(rest)),
                None => (part, None),
            };
            let found = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
            let Some(field) = found else {
                unknown.push(UnknownField(name.to_owned()));
                continue;
            };
            let size = match rest {
                Some(rest) => Size::of(rest),
                None => Size { right: false, width: NAMED_WIDTH, rest: "" },
            };
            columns.push(Column {
                cell: Cell::Field(field),
                width: size.width,
                right: size.right,
                suffix: size.rest.to_owned(),
            });
        }
        (Layout { prefix: String::new(), columns }, unknown)
    }

    /// The line of heads, with its line feed.
    pub fn heads(&self) -> String {
        self.line(|field| field.head.to_owned())
    }

    /// The line of a record, with its line feed.
    pub fn row(&self, record: &R, show: &Show) -> String {
        self.line(|field| (field.value)(record, show))
    }

    /// Whether a column shows the field of this name.
    pub fn shows(&self, name: &str) -> bool {
        self.fields().any(|field| field.name == name)
    }

    /// The fields that are shown, in order.
    pub fn fields(&self) -> impl Iterator<Item = &'static Field<R>> + '_ {
        self.columns.iter().filter_map(|column| match &column.cell {
            Cell::Field(field) => Some(*field),
            Cell::Literal(_) => None,
        })
    }

    fn line(&self, text: impl Fn(&'static Field<R>) -> String) -> String {
        let mut line = self.prefix.clone();
        for column in &self.columns {
            match &column.cell {
                Cell::Field(field) => {
                    line.push_str(&padded(&text(field), column.width, column.right));
                }
                Cell::Literal(literal) => line.push_str(literal),
            }
            line.push_str(&column.suffix);
        }
        line.push('\n');
        line
    }
}

impl<R> Column<R> {
    fn literal(text: String) -> Column<R> {
        Column { cell: Cell::Literal(text), width: 0, right: false, suffix: String::new() }
    }
}

/// Every field that has a letter, small letters first, with a bar between each two.
fn all_letters<R>(fields: &'static [Field<R>], suffix: &str) -> Vec<Column<R>> {
    let mut lettered: Vec<(char, &'static Field<R>)> =
        fields.iter().filter_map(|field| Some((field.letter?, field))).collect();
    lettered.sort_by_key(|(letter, _)| (letter.is_ascii_uppercase(), *letter));
    let last = lettered.len().saturating_sub(1);
    let column = |(at, (_, field)): (usize, (char, &'static Field<R>))| Column {
        cell: Cell::Field(field),
        width: 0,
        right: false,
        suffix: if at == last { suffix.to_owned() } else { "|".to_owned() },
    };
    lettered.into_iter().enumerate().map(column).collect()
}

fn lettered<R>(part: &str, fields: &'static [Field<R>]) -> Result<Column<R>, UnknownField> {
    let size = Size::of(part);
    let mut rest = size.rest.chars();
    let letter = rest.next();
    let field = fields.iter().find(|field| letter.is_some() && field.letter == letter);
    let field = field.ok_or_else(|| UnknownField(letter.map_or_else(String::new, String::from)))?;
    Ok(Column {
        cell: Cell::Field(field),
        width: size.width,
        right: size.right,
        suffix: rest.collect(),
    })
}

/// `[.][digits]`, and what follows.
struct Size<'a> {
    right: bool,
    width: usize,
    rest: &'a str,
}

impl Size<'_> {
    /// No column is wider than this: a user's number must not take the memory of the host.
    const WIDEST: usize = 10_000;

    fn of(text: &str) -> Size<'_> {
        let (right, text) = match text.strip_prefix('.') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (width, rest) = text.split_at(digits);
        let width = match width.parse() {
            Ok(width) => usize::min(width, Self::WIDEST),
            Err(_) if width.is_empty() => 0,
            Err(_) => Self::WIDEST,
        };
        Size { right, width, rest }
    }
}

/// The text in a column of this width, cut off if it is longer. Control characters of users' texts
/// do not reach the terminal.
pub(super) fn padded(text: &str, width: usize, right: bool) -> String {
    let safe = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let text: String = match width {
        0 => return text.chars().map(safe).collect(),
        width => text.chars().take(width).map(safe).collect(),
    };
    if right { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

#[cfg(test)]
mod tests {
    use super::super::field::{both, named};
    use super::*;
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    struct Record;

    const FIELDS: &[Field<Record>] = &[
        both('i', "jobid", "JOBID", |_, _| "1234".to_owned()),
        both('j', "name", "NAME", |_, _| "sleeper".to_owned()),
        named("long", "LONG", |_, _| "é\u{1b}".to_owned()),
    ];

    fn show() -> Show {
        Show::new(TimeZone::UTC, Timestamp::UNIX_EPOCH, "c")
    }

    fn letters(format: &str) -> (String, String, Vec<String>) {
        let (layout, unknown) = Layout::of_letters(format, FIELDS);
        let unknown = unknown.into_iter().map(|UnknownField(field)| field).collect();
        (layout.heads(), layout.row(&Record, &show()), unknown)
    }

    fn names(format: &str) -> (String, String) {
        let (layout, _) = Layout::of_names(format, FIELDS);
        (layout.heads(), layout.row(&Record, &show()))
    }

    /// The lines are those of squeue 22.05.
    #[test]
    fn formats_of_letters_are_read_as_by_squeue() {
        for (format, heads, row) in [
            ("%.7i|%3j", "  JOBID|NAM\n", "   1234|sle\n"),
            ("%.3i %10j!", "JOB NAME      !\n", "123 sleeper   !\n"),
            ("hello", "hello\n", "hello\n"),
            ("%", "\n", "\n"),
            ("<%i%%j>", "<JOBIDNAME>\n", "<1234sleeper>\n"),
            ("%.i", "JOBID\n", "1234\n"),
            ("%all", "JOBID|NAME\n", "1234|sleeper\n"),
            (r#""%i","%j""#, "\"JOBID\",\"NAME\"\n", "\"1234\",\"sleeper\"\n"),
        ] {
            assert_eq!(letters(format), (heads.to_owned(), row.to_owned(), Vec::new()));
        }
    }

    #[test]
    fn a_field_that_does_not_exist_is_named_and_printed_as_it_is() {
        let (heads, row, unknown) = letters("%i %-8j|");
        assert_eq!((heads.as_str(), row.as_str()), ("JOBID %-8j|\n", "1234 %-8j|\n"));
        assert_eq!(unknown, ["-"]);
        assert_eq!(letters("%5").2, [""]);
        let (_, unknown) = Layout::of_names("bogus,jobid", FIELDS);
        assert_eq!(unknown, [UnknownField("bogus".to_owned())]);
    }

    #[test]
    fn formats_of_names_are_read_as_by_squeue() {
        for (format, heads, row) in [
            (
                "jobid,name",
                "JOBID               NAME                \n",
                "1234                sleeper             \n",
            ),
            ("JobID:|,Name:;", "JOBID|NAME;\n", "1234|sleeper;\n"),
            ("jobid:.6xyz,name:3", " JOBIDxyzNAM\n", "  1234xyzsle\n"),
            ("jobid:\u{1f},name:0", "JOBID\u{1f}NAME\n", "1234\u{1f}sleeper\n"),
            ("jobid:", "JOBID\n", "1234\n"),
            ("long:2", "LO\n", "é\u{fffd}\n"),
        ] {
            assert_eq!(names(format), (heads.to_owned(), row.to_owned()));
        }
    }

    #[test]
    fn a_huge_width_takes_no_memory() {
        let (heads, ..) = letters("%99999999999999999999i");
        assert_eq!(heads.len(), Size::WIDEST + 1);
    }
}
