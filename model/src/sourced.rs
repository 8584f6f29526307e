//! A parameter of a machine with its source.

use serde::{Deserialize, Serialize};

/// A value with its source. The name of its field ends in its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced {
    /// The value.
    pub value: f64,
    /// The lower end of the value's 95 % confidence interval, if it was fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Section or table of the paper, standard, measurement, or assumption.
    pub source: String,
}

impl Sourced {
    /// A value without a fit.
    pub fn new(value: f64, source: &str) -> Sourced {
        Sourced { value, low: None, high: None, source: source.to_owned() }
    }
}
