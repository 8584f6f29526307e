//! The reasons why jobs wait. A reason is true, specific, and readable by the job's owner.
//!
//! Reasons are computed on request and never kept, so they cannot be stale.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::node_needs::{list, plural};
use crate::{
    JobId, JobRequest, Machine, NodeNeeds, NodeState, ReservationId, Room, Row, SchedTime,
    Shortfall,
};

/// The most nodes that a reason names. The rest are counted.
pub const MAX_NAMED_NODES: usize = 8;

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PendingReason {
    /// The job starts next, and there is no room for it.
    Resources(Shortage),
    /// Jobs ahead of this job are waiting too.
    Priority {
        /// The jobs ahead.
        ahead: Ahead,
        /// The shortage that the job would have as the first job. `None` if there is room for it
        /// now. This can happen only if no job may pass another.
        shortage: Option<Shortage>,
    },
    /// There is room for the job now, but by its estimate it could delay a job that will get the
    /// next PEs. The policy lets a job pass only if it delays no such job.
    WouldDelay {
        /// The jobs ahead. `None` if there are none; in this case, PEs are promised to jobs behind
        /// this job.
        ahead: Option<Ahead>,
    },
    /// Jobs with shorter estimates wait too, and start first.
    Shorter {
        /// The jobs ahead by the estimates.
        ahead: Ahead,
        /// The shortage that the job would have as the first.
        shortage: Option<Shortage>,
    },
    /// The room that the job needs is idle, but kept for suspended jobs.
    Kept {
        /// The shortage.
        shortage: Shortage,
        /// The suspended job that was stopped first.
        first: JobId,
        /// The number of the other suspended jobs.
        others: usize,
    },
    /// Other jobs are being ended so that this job can start.
    MakingRoom {
        /// One of these jobs.
        first: JobId,
        /// How many more there are.
        others: usize,
    },
    /// The job is suspended. It continues once these jobs have left its PEs.
    Suspended {
        /// One of these jobs.
        first: JobId,
        /// How many more there are.
        others: usize,
    },
    /// There is room for the job, but by its time limit it would still run when a reservation
    /// begins on these nodes.
    Reserved {
        /// The earliest reservation in the way.
        reservation: ReservationId,
        /// When the reservation begins, or began.
        start: SchedTime,
        /// When the reservation ends.
        end: SchedTime,
    },
    /// The job's own reservation has not begun.
    NotBegun {
        /// The reservation.
        reservation: ReservationId,
        /// When the reservation begins.
        start: SchedTime,
    },
}

/// The jobs ahead in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Ahead {
    /// The first job of the queue.
    pub first: JobId,
    /// The number of the other jobs ahead.
    pub others: usize,
}

/// A job's shortage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shortage {
    /// Running jobs hold what the job needs.
    Busy {
        /// The free part of the job's needs.
        shortfall: Shortfall,
        /// The PEs of the nodes that are up, for comparison.
        up_pes: u32,
    },
    /// No row has room and no further row may be opened.
    MatrixFull {
        /// The multiprogramming limit.
        limit: u32,
        /// The row with the smallest shortage.
        closest: Row,
        /// The part of the job's needs that is free in that row.
        shortfall: Shortfall,
    },
    /// The job would not fit even if nothing ran, because nodes are down, away or drained.
    Unavailable {
        /// The part of the job's needs that is up.
        shortfall: Shortfall,
        /// The first [`MAX_NAMED_NODES`] nodes that take no work.
        absent: Vec<AbsentNode>,
        /// The number of the other nodes that take no work.
        more: usize,
    },
}

/// A node that takes no work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AbsentNode {
    /// The name.
    pub name: String,
    /// Down, away or drained.
    pub state: NodeState,
    /// The manager refuses the node. The policies treat the node as drained, although no
    /// administrator has drained it.
    #[serde(default)]
    pub refused: bool,
}

impl PendingReason {
    /// The reason in one word, as `squeue` of Slurm prints it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Priority { .. } | Self::WouldDelay { .. } | Self::Shorter { .. } => "Priority",
            Self::Resources(Shortage::Busy { .. } | Shortage::MatrixFull { .. })
            | Self::Kept { .. }
            | Self::MakingRoom { .. }
            | Self::Suspended { .. } => "Resources",
            Self::Resources(Shortage::Unavailable { .. }) | Self::Reserved { .. } => {
                "ReqNodeNotAvail"
            }
            Self::NotBegun { .. } => "Reservation",
        }
    }
}

impl Shortage {
    /// The shortage of a job that needs nodes which are not up.
    #[must_use]
    pub fn unavailable(machine: &Machine, request: &JobRequest, shortfall: Shortfall) -> Self {
        // If nodes that it names are missing, others do not count.
        let named = matches!(shortfall.unit, Room::Required { .. });
        let absent = |node: &&crate::Node| {
            let counts = if named { request.requires(node) } else { request.may_have(node) };
            node.state() != NodeState::Up && counts
        };
        let nodes = machine.nodes().iter().filter(absent);
        let named = |node: &crate::Node| AbsentNode {
            name: node.name().to_owned(),
            state: node.state(),
            refused: false,
        };
        let absent: Vec<_> = nodes.clone().take(MAX_NAMED_NODES).map(named).collect();
        Self::Unavailable { shortfall, more: nodes.count() - absent.len(), absent }
    }
}

impl PendingReason {
    /// Marks the nodes that the manager refuses, by their names.
    pub fn mark_refused(&mut self, is_refused: impl Fn(&str) -> bool) {
        let shortage = match self {
            Self::Resources(shortage) | Self::Kept { shortage, .. } => Some(shortage),
            Self::Priority { shortage, .. } | Self::Shorter { shortage, .. } => shortage.as_mut(),
            Self::WouldDelay { .. }
            | Self::MakingRoom { .. }
            | Self::Suspended { .. }
            | Self::Reserved { .. }
            | Self::NotBegun { .. } => None,
        };
        if let Some(Shortage::Unavailable { absent, .. }) = shortage {
            absent.iter_mut().for_each(|node| node.refused = is_refused(&node.name));
        }
    }

    /// The shortage that keeps the job from starting, or would if the job were the first.
    #[must_use]
    pub fn shortage(&self) -> Option<&Shortage> {
        match self {
            Self::Resources(shortage) | Self::Kept { shortage, .. } => Some(shortage),
            Self::Priority { shortage, .. } | Self::Shorter { shortage, .. } => shortage.as_ref(),
            Self::WouldDelay { .. }
            | Self::MakingRoom { .. }
            | Self::Suspended { .. }
            | Self::Reserved { .. }
            | Self::NotBegun { .. } => None,
        }
    }

    /// The reservation that keeps the job from its nodes.
    #[must_use]
    pub fn reservation_in_the_way(&self) -> Option<ReservationId> {
        match self {
            Self::Reserved { reservation, .. } => Some(*reservation),
            Self::Resources(_)
            | Self::Priority { .. }
            | Self::WouldDelay { .. }
            | Self::Shorter { .. }
            | Self::Kept { .. }
            | Self::MakingRoom { .. }
            | Self::Suspended { .. }
            | Self::NotBegun { .. } => None,
        }
    }

    /// The reason in words. `name` gives the name of a job.
    #[must_use]
    pub fn text(&self, name: &dyn Fn(JobId) -> String) -> String {
        let jobs = |first: &JobId, others: &usize| and_others(&name(*first), *others);
        match self {
            Self::Resources(shortage) => shortage.to_string(),
            Self::Priority { ahead, shortage: Some(shortage) } => {
                format!("{shortage}; {}", ahead.text(name))
            }
            Self::Priority { ahead, shortage: None } => {
                let ahead = ahead.text(name);
                format!("there is room for it now, but {ahead}, and no job passes another")
            }
            Self::WouldDelay { ahead: Some(ahead) } => format!(
                "there is room for it now, but as long as it may run it could delay a job that \
                 has the next PEs; {}",
                ahead.text(name)
            ),
            Self::WouldDelay { ahead: None } => "there is room for it now, but as long as it may \
                 run it would delay a job that has been promised PEs"
                .to_owned(),
            Self::Kept { shortage, first, others } => {
                format!("{shortage}; idle ones are kept for suspended {}", jobs(first, others))
            }
            Self::MakingRoom { first, others } => {
                let verb = if *others == 0 { "is" } else { "are" };
                format!("{} {verb} being ended to make room for it", jobs(first, others))
            }
            Self::Suspended { first, others } => {
                let verb = if *others == 0 { "has" } else { "have" };
                format!("{} {verb} its processing elements", jobs(first, others))
            }
            Self::Reserved { reservation, start, end } => format!(
                "by its time limit it would reach into reservation {reservation}, which has the \
                 nodes from {start} to {end}"
            ),
            Self::NotBegun { reservation, start } => {
                format!("its reservation {reservation} begins at {start}")
            }
            Self::Shorter { ahead, shortage: Some(shortage) } => {
                format!("{shortage}; {} by shorter time limits", ahead.text(name))
            }
            Self::Shorter { ahead, shortage: None } => {
                let ahead = ahead.text(name);
                format!("there is room for it now, but {ahead} by shorter time limits")
            }
        }
    }
}

impl fmt::Display for PendingReason {
    /// Writes the reason with the numbers of the jobs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&|job| job.to_string()))
    }
}

/// One job by name, and the number of the others.
fn and_others(first: &str, others: usize) -> String {
    match others {
        0 => format!("job {first}"),
        1 => format!("job {first} and 1 other"),
        others => format!("job {first} and {others} others"),
    }
}

impl Ahead {
    fn text(&self, name: &dyn Fn(JobId) -> String) -> String {
        let verb = if self.others == 0 { "is" } else { "are" };
        format!("{} {verb} ahead in the queue", and_others(&name(self.first), self.others))
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { shortfall, up_pes } => write_busy(f, *shortfall, *up_pes),
            Self::MatrixFull { limit, closest, shortfall } => {
                let Shortfall { unit, needed, have } = *shortfall;
                let rows = plural(*limit, "", "row");
                write!(f, "the matrix is full at {rows} (multiprogramming limit), ")?;
                write!(f, "and the roomiest, row {closest}, has ")?;
                match unit {
                    Room::Pes if needed == 1 => f.write_str("no free PE"),
                    Room::Pes => write!(f, "{have} of the {needed} free PEs needed"),
                    Room::Required { .. } => {
                        let each = unit.of_each("free ");
                        write!(f, "{have} of the {needed} nodes that the job names with {each}")
                    }
                    Room::NodesOf { .. } | Room::NodesWith { .. } if needed == 1 => {
                        write!(f, "no node with {}", unit.of_each("free "))
                    }
                    Room::NodesOf { .. } | Room::NodesWith { .. } => {
                        write!(
                            f,
                            "{have} of the {needed} nodes with {} needed",
                            unit.of_each("free ")
                        )
                    }
                    Room::ProcsWith { .. } => {
                        let each = unit.of_each("free ");
                        write!(f, "room for {have} of {needed} processes on nodes with {each}")
                    }
                }
            }
            Self::Unavailable { shortfall, absent, more } => {
                write_absent(f, absent, *more)?;
                let Shortfall { unit, needed, have } = *shortfall;
                match unit {
                    Room::Pes if needed == 1 => f.write_str(": no PE is up"),
                    Room::Pes => write!(f, ": {have} of the {needed} PEs asked for are up"),
                    Room::Required { .. } => {
                        let nodes = plural(needed, "", "node");
                        write!(f, ": {have} of the {nodes} that the job names can run it")
                    }
                    Room::NodesOf { .. } | Room::NodesWith { .. } if needed == 1 => {
                        write!(f, ": no node with {} is up", unit.of_each(""))
                    }
                    Room::NodesOf { .. } | Room::NodesWith { .. } => {
                        write!(
                            f,
                            ": {have} of the {needed} nodes with {} needed are up",
                            unit.of_each("")
                        )
                    }
                    Room::ProcsWith { .. } => {
                        let each = unit.of_each("");
                        write!(
                            f,
                            ": those with {each} that are up have room for {have} of {needed} processes"
                        )
                    }
                }
            }
        }
    }
}

impl Room {
    /// The part of each node. `free` is "free " or empty.
    fn of_each(self, free: &str) -> String {
        match self {
            Self::Pes => plural(1, free, "PE"),
            Self::NodesOf { ranks } => plural(ranks, free, "PE"),
            Self::NodesWith { ranks, needs } => needs.for_ranks(ranks, free),
            // The text says already that the job names the nodes.
            Self::Required { ranks, needs } => {
                NodeNeeds { names: false, ..needs }.for_ranks(ranks, free)
            }
            Self::ProcsWith { needs } => needs.for_procs(free),
        }
    }
}

fn write_busy(f: &mut fmt::Formatter<'_>, shortfall: Shortfall, up_pes: u32) -> fmt::Result {
    let Shortfall { unit, needed, have } = shortfall;
    let missing = needed.saturating_sub(have);
    let each = unit.of_each("free ");
    let needed =
        if needed == 1 { "1 is needed".to_owned() } else { format!("{needed} are needed") };
    match unit {
        Room::Pes => {
            let more = plural(missing, "more free ", "PE");
            write!(f, "waits for {more}: {have} of {up_pes} are free, {needed}")
        }
        Room::Required { .. } => {
            let more = plural(missing, "more ", "node");
            write!(f, "waits for {more} that it names, with {each}: there are {have}, {needed}")
        }
        Room::NodesOf { .. } | Room::NodesWith { .. } => {
            let more = plural(missing, "more ", "node");
            write!(f, "waits for {more} with {each}: there are {have}, {needed}")
        }
        Room::ProcsWith { .. } => {
            let more = plural(missing, "more ", "process");
            write!(f, "waits for room for {more} on nodes with {each}: ")?;
            write!(f, "there is room for {have}, {needed}")
        }
    }
}

/// Writes, for example, "n3 and n9 are down and n4 is drained".
fn write_absent(f: &mut fmt::Formatter<'_>, absent: &[AbsentNode], more: usize) -> fmt::Result {
    let mut groups = Vec::new();
    let kinds = [
        (NodeState::Down, false, "down"),
        (NodeState::Away, false, "away"),
        (NodeState::Drained, false, "drained"),
        (NodeState::Down, true, "refused"),
        (NodeState::Away, true, "refused"),
        (NodeState::Drained, true, "refused"),
    ];
    for (state, refused, word) in kinds {
        let names: Vec<String> = absent
            .iter()
            .filter(|node| node.state == state && node.refused == refused)
            .map(|node| node.name.clone())
            .collect();
        let verb = if names.len() == 1 { "is" } else { "are" };
        if !names.is_empty() {
            groups.push(format!("{} {verb} {word}", list(&names)));
        }
    }
    match more {
        0 => {}
        1 => groups.push("1 more node is unavailable".to_owned()),
        more => groups.push(format!("{more} more nodes are unavailable")),
    }
    f.write_str(&groups.join(", "))
}
