//! How much of its job's place a step asks for.

use crate::Memory;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The size of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSize {
    /// Number of processes, at least 1.
    pub procs: u32,
    /// Exactly this many nodes of the place, each with a process, when given.
    pub nodes: Option<u32>,
    /// Processing elements of each process, at least 1.
    pub elements_each: u32,
    /// Memory. Without a demand the step has the share that belongs to its elements.
    pub memory: Memory,
    /// How the step shares the place with the other steps.
    pub share: Share,
    /// The most time for which it runs, when given. The time of a stopped place does not count.
    pub time_limit: Option<Duration>,
}

/// How a step shares its job's place with the job's other steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// The elements that it asks for are its own.
    #[default]
    Exact,
    /// All that the place has of its nodes is its own.
    WholeNodes,
    /// It takes nothing from the other steps, and needs nothing that is free.
    Overlap,
}

impl StepSize {
    /// Processes of one element each, which share nothing and have no demand on memory.
    pub fn of_procs(procs: u32) -> StepSize {
        StepSize {
            procs,
            nodes: None,
            elements_each: 1,
            memory: Memory::Unstated,
            share: Share::Exact,
            time_limit: None,
        }
    }
}
