//! One of our numbers, compared with the paper's.

use serde::Serialize;
use std::fmt;

/// The source of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// The analytic model.
    Model,
    /// The whole machine in virtual time.
    Simulation,
    /// Daemons and processes of the host that this runs on.
    Live,
    /// Not ours: the paper quotes it.
    Paper,
}

/// How much a number proves when it is compared with the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The number follows from parameters that the paper gives elsewhere.
    Predicted,
    /// A parameter was fitted to this number: agreement proves nothing.
    Calibrated,
    /// The number was measured on this host, which is not the paper's machine.
    Measured,
    /// The number is the paper's own, from the literature.
    Quoted,
}

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The quantity.
    pub quantity: String,
    /// Our number, if there is one.
    pub ours: Option<f64>,
    /// The paper's number; `None` if its text and tables have none.
    pub paper: Option<f64>,
    /// The difference from the paper's number, in percent of that number.
    pub error_percent: Option<f64>,
    /// The unit of both numbers; empty for a ratio.
    pub unit: &'static str,
    /// The source of our number.
    pub by: Method,
    /// How much our number proves.
    pub basis: Basis,
    /// The place in the paper that gives the number. Empty if the paper gives none.
    pub source: &'static str,
}

impl Row {
    /// A number of the analytic model.
    pub fn model(quantity: impl Into<String>, ours: f64, unit: &'static str) -> Row {
        Row::new(quantity.into(), Some(ours), unit, Method::Model, Basis::Predicted)
    }

    /// A number of a simulated machine.
    pub fn simulated(quantity: impl Into<String>, ours: f64, unit: &'static str) -> Row {
        Row::new(quantity.into(), Some(ours), unit, Method::Simulation, Basis::Predicted)
    }

    /// A number that was measured on this host.
    pub fn live(quantity: impl Into<String>, ours: f64, unit: &'static str) -> Row {
        Row::new(quantity.into(), Some(ours), unit, Method::Live, Basis::Measured)
    }

    /// A number that the paper has from the literature.
    pub fn quoted(quantity: impl Into<String>, unit: &'static str) -> Row {
        Row::new(quantity.into(), None, unit, Method::Paper, Basis::Quoted)
    }

    fn new(
        quantity: String,
        ours: Option<f64>,
        unit: &'static str,
        by: Method,
        basis: Basis,
    ) -> Row {
        Row { quantity, ours, paper: None, error_percent: None, unit, by, basis, source: "" }
    }

    /// Adds the paper's number.
    #[must_use]
    pub fn with_paper(mut self, paper: f64, source: &'static str) -> Row {
        self.error_percent = self.ours.map(|ours| (ours / paper - 1.0) * 100.0);
        (self.paper, self.source) = (Some(paper), source);
        self
    }

    /// Marks the number as calibrated: a parameter was fitted to it.
    #[must_use]
    pub fn calibrated(self) -> Row {
        self.calibrated_if(true)
    }

    /// Marks the number as calibrated if `fitted`.
    #[must_use]
    pub fn calibrated_if(mut self, fitted: bool) -> Row {
        if fitted {
            self.basis = Basis::Calibrated;
        }
        self
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Model => "model",
            Method::Simulation => "simulation",
            Method::Live => "live, this host",
            Method::Paper => "",
        })
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Basis::Predicted => "predicted",
            Basis::Calibrated => "calibrated",
            Basis::Measured => "measured",
            Basis::Quoted => "quoted",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_a_part_of_the_papers_number() {
        let row = Row::model("launch", 99.0, "ms").with_paper(110.0, "section 4.2.1");
        assert!((row.error_percent.expect("both are there") + 10.0).abs() < 1e-9);
        assert_eq!(row.basis, Basis::Predicted);
        assert_eq!(Row::quoted("RMS", "ms").with_paper(30_000.0, "Table 6").error_percent, None);
    }
}
