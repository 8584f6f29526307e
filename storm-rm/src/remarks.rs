//! The user's remarks about a job. They decide nothing.

use serde::{Deserialize, Serialize};

/// The remarks. By default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remarks {
    /// A comment (Slurm `--comment`).
    pub comment: Option<String>,
    /// A key under which the user counts the job (Slurm `--wckey`).
    pub wckey: Option<String>,
}

impl Remarks {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Remarks::default()
    }
}
