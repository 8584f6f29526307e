//! The experiments of the paper's section 4 on simulated machines. Each function runs one
//! experiment and returns its measurements. The caller prints or compares them.
//!
//! The paper's values are in `reproduction`, not here.

mod barrier;
mod gang;
mod launch;

pub use barrier::{BarrierPoint, barrier};
pub use gang::{GangPoint, GangSetup, gang};
pub use launch::{LaunchPoint, LaunchSetup, launch};

use crate::RunError;
use crate::scenario::ScenarioError;
use thiserror::Error;

/// Why an experiment gave nothing.
#[derive(Debug, Error)]
pub enum FigureError {
    /// The machine cannot be built.
    #[error("the machine of the experiment cannot be built")]
    Scenario(#[from] ScenarioError),
    /// The run failed.
    #[error("the experiment failed")]
    Run(#[from] RunError),
    /// The model refuses the machine.
    #[error("the model refuses the machine of the experiment")]
    Model(#[from] storm_model::InputError),
    /// The job ended without having been launched.
    #[error("the job was never launched: it ended {0}")]
    NeverLaunched(String),
}

impl From<crate::MachineError> for FigureError {
    fn from(error: crate::MachineError) -> FigureError {
        FigureError::Scenario(error.into())
    }
}
