//! The class that flexible coscheduling gives a process, as nodes report it. Source: Frachtenberg,
//! Feitelson, Petrini, Fernandez, IPDPS 2003 and IEEE TPDS 16(11), 2005; A5 of the policy
//! reference.

use crate::Rank;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The class of a process.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum ProcessClass {
    /// CS: communicates often and hardly waits when its peers run at the same time. Has its slot to
    /// itself.
    #[default]
    #[serde(rename = "CS")]
    NeedsCoscheduling,
    /// F, frustrated: communicates often and still waits long, because the load is unbalanced. Runs
    /// first in its slot and gives up the processor while it waits.
    #[serde(rename = "F")]
    Frustrated,
    /// DC, don't care: communicates seldom. Runs whenever no other process has precedence.
    #[serde(rename = "DC")]
    DontCare,
}

impl ProcessClass {
    /// All of them.
    pub const ALL: [ProcessClass; 3] =
        [ProcessClass::NeedsCoscheduling, ProcessClass::Frustrated, ProcessClass::DontCare];
}

impl fmt::Display for ProcessClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ProcessClass::NeedsCoscheduling => "CS",
            ProcessClass::Frustrated => "F",
            ProcessClass::DontCare => "DC",
        })
    }
}

/// The source of a report about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Witness {
    /// Its message-passing library.
    Library,
    /// The operating system: how much the process uses its processor, and how often it sleeps.
    System,
}

/// The behaviour of a process in its last window of slots of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFigures {
    /// The source of the figures.
    pub witness: Witness,
    /// Communications in which it could have waited; reported by the system: how often it slept.
    pub operations: u32,
    /// Mean processor time between two of them, in microseconds; all of its time if there were
    /// none.
    pub compute_us: u32,
    /// Mean wait in each, in microseconds.
    pub wait_us: u32,
    /// Percentage of its slots in which it used its processor.
    pub cpu_percent: u8,
}

/// A rank and its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankClass {
    /// The rank.
    pub rank: Rank,
    /// Its class.
    pub class: ProcessClass,
    /// How long it has had the class, in milliseconds.
    pub for_ms: u32,
    /// The figures of its last judgement; `None` before its first window is over.
    pub figures: Option<ProcessFigures>,
}
