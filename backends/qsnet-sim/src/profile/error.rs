//! Errors of a profile.

use storm_model::BUILTIN_NAMES;
use thiserror::Error;

/// Why a profile cannot be used.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The text, the name, or a value is wrong.
    #[error(transparent)]
    Profile(#[from] storm_model::ProfileError),
    /// The next interruption would begin before the present one ends.
    #[error(
        "simulation.host.noise-us is {noise_us} us: it must be less than \
         simulation.host.noise-period-ms, {period_ms} ms"
    )]
    Noise {
        /// The noise given.
        noise_us: f64,
        /// The period given.
        period_ms: f64,
    },
    /// A cluster of one host has no network to simulate.
    #[error("the machine {name:?} is one host that its nodes share: it has no network")]
    SharedHost {
        /// The machine.
        name: String,
    },
}

impl From<Box<toml::de::Error>> for ProfileError {
    fn from(error: Box<toml::de::Error>) -> ProfileError {
        storm_model::ProfileError::from(error).into()
    }
}

impl ProfileError {
    /// Advice to the user.
    pub fn hint(&self) -> String {
        match self {
            ProfileError::Profile(error) => error.hint(),
            ProfileError::Noise { .. } => {
                "give a shorter noise-us, or a period of 0 for no noise".to_owned()
            }
            ProfileError::SharedHost { .. } => {
                format!("give a machine with a network, as {} has one", BUILTIN_NAMES[0])
            }
        }
    }
}
