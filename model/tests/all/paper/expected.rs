//! Reads the expected values. If they are missing, a test reports so.

/// Rows of a file of comma-separated values, with the names of its columns.
pub(crate) struct Expected {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// One row.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    columns: &'a [String],
    cells: &'a [String],
}

impl Expected {
    /// The file. `None`, with a visible notice, when it is missing.
    pub(crate) fn read(name: &str) -> Option<Expected> {
        storm_reference::read(&format!("expected/{name}")).map(|text| Expected::parse(&text))
    }

    fn parse(text: &str) -> Expected {
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect());
        let columns = lines.next().expect("a header");
        Expected { columns, rows: lines.collect() }
    }

    /// All rows; there is at least one.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        assert!(!self.rows.is_empty());
        self.rows.iter().map(|cells| Row { columns: &self.columns, cells })
    }
}

impl Row<'_> {
    /// A cell as it is written.
    pub(crate) fn text(&self, column: &str) -> &str {
        let at = self.columns.iter().position(|name| name == column);
        &self.cells[at.unwrap_or_else(|| panic!("no column {column}"))]
    }

    /// A cell as a number.
    pub(crate) fn number(&self, column: &str) -> f64 {
        let text = self.text(column);
        text.parse().unwrap_or_else(|_| panic!("{column} is {text}"))
    }
}

/// Fails if `value` differs from `expected` by more than the fraction `part`.
pub(crate) fn assert_within(what: &str, value: f64, expected: f64, part: f64) {
    let error = (value - expected).abs();
    assert!(error <= part * expected.abs(), "{what}: {value} where {expected} is expected");
}
