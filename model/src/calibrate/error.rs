//! Why measurements give no parameters.

use crate::InputError;
use thiserror::Error;

/// See the variants.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CalibrationError {
    /// Fewer shapes than it takes to tell the parameters apart.
    #[error("{samples} measurements of the {what} cannot tell its {parameters} parameters apart")]
    TooFew {
        /// Of what.
        what: &'static str,
        /// How many there are.
        samples: usize,
        /// How many parameters.
        parameters: usize,
    },
    /// The shapes are too much alike.
    #[error("the measurements of the {what} are too much alike to tell its parameters apart")]
    Alike {
        /// Of what.
        what: &'static str,
    },
    /// A measurement that is no measurement.
    #[error("a measurement makes no sense")]
    Sample(#[from] InputError),
}

impl CalibrationError {
    /// What to try.
    pub fn hint(&self) -> String {
        match self {
            CalibrationError::TooFew { .. } | CalibrationError::Alike { .. } => {
                "measure at least three numbers of nodes and two sizes: --nodes 2,3,6,12,24,56 --sizes 1MB,12MB"
                    .to_owned()
            }
            CalibrationError::Sample(error) => error.hint(),
        }
    }
}
