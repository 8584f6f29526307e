//! The paper's tables and figures, reproduced. Numbers of the model and of simulated machines are
//! compared with the paper's. Each comparison tells how much it proves, and has bounds that must
//! hold.
//!
//! A number is *predicted* if its parameters come from elsewhere in the paper, and *calibrated* if
//! a parameter was fitted to the same table or figure.
//!
//! This module does not write files, draw, or measure real daemons.

mod bandwidth;
mod barrier;
mod bound;
mod chart;
mod exhibit;
mod laboratory;
mod launch;
mod paper;
mod rivals;
mod row;
mod runtime;

pub use bound::{Bound, Verdict};
pub use chart::{Axis, Chart, Curve};
pub use exhibit::{Exhibit, UnknownExhibit};
pub use laboratory::{Effort, Laboratory};
pub use row::{Basis, Method, Row};

use crate::figures::FigureError;
use serde::Serialize;

/// The reproduction of one table or figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reproduction {
    /// Which.
    pub exhibit: Exhibit,
    /// The title.
    pub title: &'static str,
    /// The numbers.
    pub rows: Vec<Row>,
    /// Bounds that must hold of the rows.
    pub bounds: Vec<Bound>,
    /// Notes on the rows.
    pub notes: Vec<String>,
    /// The chart; most tables have none.
    pub chart: Option<Chart>,
}

/// Computes and simulates a table or figure.
///
/// # Errors
/// [`FigureError`]: an experiment failed.
pub fn reproduce(
    exhibit: Exhibit,
    laboratory: &mut Laboratory<'_>,
) -> Result<Reproduction, FigureError> {
    match exhibit {
        Exhibit::Table3 => Ok(bandwidth::table3()),
        Exhibit::Table4 => rivals::table4(laboratory),
        Exhibit::Table5 => Ok(rivals::table5()),
        Exhibit::Table6 => runtime::table6(laboratory),
        Exhibit::Fig2a => launch::fig2a(laboratory),
        Exhibit::Fig2b => launch::fig2b(laboratory),
        Exhibit::Fig2c => launch::fig2c(laboratory),
        Exhibit::Fig2d => launch::fig2d(laboratory),
        Exhibit::Fig3 => runtime::fig3(laboratory),
        Exhibit::Fig4 => runtime::fig4(laboratory),
        Exhibit::Fig5 => runtime::fig5(laboratory),
        Exhibit::Fig7 => barrier::fig7(laboratory),
        Exhibit::Fig8 => launch::fig8(laboratory),
        Exhibit::Fig9 => Ok(rivals::fig9()),
    }
}

impl Reproduction {
    fn new(exhibit: Exhibit, rows: Vec<Row>) -> Reproduction {
        let (bounds, notes) = (Vec::new(), Vec::new());
        Reproduction { exhibit, title: exhibit.title(), rows, bounds, notes, chart: None }
    }

    fn bounded(mut self, bounds: impl IntoIterator<Item = Bound>) -> Reproduction {
        self.bounds.extend(bounds);
        self
    }

    /// Marks all numbers of `by` as calibrated, because a parameter was fitted to this table or
    /// figure. Numbers at points that were not fitted are marked as well.
    fn fitted(mut self, by: Method) -> Reproduction {
        for row in self.rows.iter_mut().filter(|row| row.by == by) {
            row.basis = Basis::Calibrated;
        }
        self
    }

    fn drawn(mut self, chart: Chart) -> Reproduction {
        self.chart = Some(chart);
        self
    }

    fn note(mut self, note: &str) -> Reproduction {
        self.notes.push(note.to_owned());
        self
    }
}

/// Milliseconds with their fraction.
fn ms(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
