//! Why measurements give no parameters.

use crate::InputError;
use thiserror::Error;

/// Why a calibration fails.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CalibrationError {
    /// There are too few different shapes to tell the parameters apart.
    #[error("{samples} measurements of the {what} cannot tell its {parameters} parameters apart")]
    TooFew {
        /// The part of a launch.
        what: &'static str,
        /// The number of measurements.
        samples: usize,
        /// The number of parameters.
        parameters: usize,
    },
    /// The shapes are too much alike.
    #[error("the measurements of the {what} are too much alike to tell its parameters apart")]
    Alike {
        /// The part of a launch.
        what: &'static str,
    },
    /// A measurement is invalid.
    #[error("a measurement is invalid")]
    Sample(#[from] InputError),
}

impl CalibrationError {
    /// Advice to the user.
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
