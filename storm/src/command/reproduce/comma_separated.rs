//! Numbers as CSV, for other programs to draw.

use super::Reproduced;
use csv::{Error, Writer};

/// The numbers of a table or figure.
pub(super) fn rows(one: &Reproduced) -> Result<Vec<u8>, Error> {
    let header = ["quantity", "ours", "paper", "error_percent", "unit", "by", "basis", "source"];
    let optional = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    written(
        header,
        one.what.rows.iter().map(|row| {
            [
                row.quantity.clone(),
                optional(row.ours),
                optional(row.paper),
                optional(row.error_percent),
                row.unit.to_owned(),
                row.by.to_string(),
                row.basis.to_string(),
                row.source.to_owned(),
            ]
        }),
    )
}

/// The bounds of all tables and figures.
pub(super) fn bounds(reproduced: &[Reproduced]) -> Result<Vec<u8>, Error> {
    let each = reproduced.iter().flat_map(|one| {
        one.what.bounds.iter().map(|bound| {
            let exhibit = one.what.exhibit.to_string();
            let (name, wanted) = (bound.name.clone(), bound.wanted.clone());
            [exhibit, name, wanted, bound.found.clone(), bound.verdict.to_string()]
        })
    });
    written(["exhibit", "bound", "wanted", "found", "verdict"], each)
}

fn written<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    records: impl Iterator<Item = [String; COLUMNS]>,
) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record(header)?;
    for record in records {
        writer.write_record(&record)?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}
