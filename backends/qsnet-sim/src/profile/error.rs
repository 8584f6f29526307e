//! What can be wrong with a profile.

use storm_model::{BUILTIN_NAMES, InputError};
use thiserror::Error;

/// See the variants.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// No profile of this name is built in.
    #[error("there is no machine profile {0:?}")]
    Unknown(String),
    /// Not TOML, or not with the keys of a profile.
    #[error("not a profile of a simulated machine: {0}")]
    Unreadable(#[from] Box<toml::de::Error>),
    /// The part that it has in common with the analytic model is wrong.
    #[error("the part of the analytic model is wrong")]
    Model(#[from] storm_model::ProfileError),
    /// Neither or both of `model` and `[machine]`.
    #[error("a profile names a `model` or describes a `[machine]`, one of the two")]
    OneMachine,
    /// A value makes no sense.
    #[error(transparent)]
    Value(#[from] InputError),
    /// A value that is out of its range.
    #[error("{name} is {value}: it must be {wanted}")]
    OutOfRange {
        /// The key.
        name: &'static str,
        /// As given.
        value: f64,
        /// What it can be.
        wanted: &'static str,
    },
    /// A cluster of one host has no network to simulate.
    #[error("the machine {name:?} is one host that its nodes share: it has no network")]
    SharedHost {
        /// The machine.
        name: String,
    },
}

impl ProfileError {
    /// What to try.
    pub fn hint(&self) -> String {
        match self {
            ProfileError::Unknown(_) => {
                format!("one of {}, or the path of a file", BUILTIN_NAMES.join(", "))
            }
            ProfileError::Unreadable(_) => {
                "start from a profile that is built in; every value is { value, source }".to_owned()
            }
            ProfileError::Model(error) => error.hint(),
            ProfileError::OneMachine => {
                format!("write for example `model = {:?}`", BUILTIN_NAMES[0])
            }
            ProfileError::Value(error) => error.hint(),
            ProfileError::OutOfRange { name, wanted, .. } => format!("give {name} {wanted}"),
            ProfileError::SharedHost { .. } => {
                "give a machine with [machine.network.multicast] or [machine.network.tree]"
                    .to_owned()
            }
        }
    }
}
