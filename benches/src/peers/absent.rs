//! A peer that is missing or cannot be measured.

use anyhow::Result;
use serde::Serialize;

/// Why a peer has no figures.
#[derive(Clone, Debug, Serialize)]
pub struct Absent {
    /// The name.
    pub name: &'static str,
    /// The missing or failed part.
    pub not_measured: String,
}

/// The peer, or the reason why it is missing. The reason is also printed at once.
pub fn available<T>(name: &'static str, started: Result<T>) -> Result<T, Absent> {
    started.map_err(|error| {
        let absent = Absent { name, not_measured: format!("{error:#}") };
        eprintln!("{name} IS NOT MEASURED: {}", absent.not_measured);
        absent
    })
}
