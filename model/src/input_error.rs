//! Input that makes no sense: what is wrong, why, and what to try.

use thiserror::Error;

/// A value that the model refuses.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum InputError {
    /// No machine.
    #[error("a machine of 0 nodes launches nothing")]
    NoNodes,
    /// More nodes than the model is meant for.
    #[error("{nodes} nodes are more than the {max} up to which the model counts exactly")]
    TooManyNodes {
        /// As asked for.
        nodes: u64,
        /// The bound.
        max: u64,
    },
    /// A number that is not finite, or outside of what it can be.
    #[error("{name} is {value} {unit}: it must be {wanted}")]
    OutOfRange {
        /// What it is.
        name: &'static str,
        /// As given.
        value: f64,
        /// Its unit.
        unit: &'static str,
        /// What it can be.
        wanted: &'static str,
    },
}

impl InputError {
    /// What to try instead.
    pub fn hint(&self) -> String {
        match self {
            InputError::NoNodes => "give at least 1 node".to_owned(),
            InputError::TooManyNodes { max, .. } => format!("give at most {max} nodes"),
            InputError::OutOfRange { name, unit, wanted, .. } => {
                format!("give {name} in {unit}, {wanted}")
            }
        }
    }
}

/// `value` if it is finite and not negative.
pub(crate) fn not_negative(
    name: &'static str,
    unit: &'static str,
    value: f64,
) -> Result<f64, InputError> {
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(InputError::OutOfRange { name, value, unit, wanted: "finite and not negative" })
    }
}

/// `value` if it is finite and more than zero.
pub(crate) fn positive(
    name: &'static str,
    unit: &'static str,
    value: f64,
) -> Result<f64, InputError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(InputError::OutOfRange { name, value, unit, wanted: "finite and more than 0" })
    }
}
