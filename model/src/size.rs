//! The largest machine that still launches fast enough and switches cheaply enough, and its
//! bottleneck.

use crate::input_error::positive;
use crate::predict::{launch_on, strobe_on};
use crate::{
    FanOut, InputError, Launch, Limit, Mib, Network, NodeCount, Profile, Question, Strobe,
};
use serde::Serialize;
use std::fmt;

/// The chunk lengths that are tried on a tree, in bytes: powers of 2 from 16 KiB to 4 MiB.
pub const CHUNK_CHOICES: [u32; 9] =
    [1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22];

/// All of a time slice.
const WHOLE_PERCENT: f64 = 100.0;

/// The requirements on a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Launch a program of this size,
    pub size: Mib,
    /// with this many processes on each node,
    pub processes_per_node: u32,
    /// within this many milliseconds,
    pub launch_ms: f64,
    /// while a time slice of this length in us
    pub quantum_us: f64,
    /// costs at most this many percent of it.
    pub cost_percent: f64,
    /// The largest number of nodes to consider.
    pub most_nodes: NodeCount,
    /// Children of each node; all fan-outs are tried if absent.
    pub fan_out: Option<FanOut>,
    /// Bytes of a chunk; [`CHUNK_CHOICES`] are tried if absent.
    pub chunk_bytes: Option<u32>,
}

/// The largest machine of one kind that meets a [`Goal`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// The kind of machine.
    pub profile: String,
    /// The machine's number of nodes and its settings. `None` if not even one node meets the goal.
    pub largest: Option<Setting>,
    /// The requirement that one more node would break.
    pub limit: SizeLimit,
    /// The machine with one more node, with its best settings. `None` if the goal allows no more
    /// nodes.
    pub beyond: Option<Setting>,
    /// Settings of the goal that this kind of machine does not have. The answer ignores them.
    pub not_applicable: Vec<&'static str>,
}

/// A machine that meets a goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// The nodes.
    pub nodes: NodeCount,
    /// The number of children of each node of the tree, if there is a tree.
    pub fan_out: Option<FanOut>,
    /// Bytes of a chunk, where that matters.
    pub chunk_bytes: Option<u32>,
    /// The launch, in ms.
    pub launch_ms: f64,
    /// The cost of a time slice, in percent.
    pub cost_percent: f64,
}

/// Why a machine cannot be larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "bound", content = "term", rename_all = "kebab-case")]
pub enum SizeLimit {
    /// The launch would take too long. Most of the time is due to this limit.
    Launch(Limit),
    /// No tree meets both requirements. A tree with a sufficiently cheap time slice launches too
    /// slowly, most of the time because of this limit. A tree that launches in time has too
    /// expensive a time slice.
    Both(Limit),
    /// The time slice would cost too much. Most of the cost is due to this limit.
    Quantum(Limit),
    /// Nothing: the machine could be larger, but the goal allows no more nodes.
    Goal,
}

/// The obstacle between a machine and the goal, and the setting that comes closest.
struct Miss {
    limit: SizeLimit,
    nearest: Option<Setting>,
}

/// A tree, or none, with its launch and time slice.
struct Candidate {
    fan_out: Option<FanOut>,
    chunk_bytes: Option<u32>,
    launch: Launch,
    strobe: Strobe,
}

/// Finds the largest machine of one kind that meets the goal.
///
/// # Errors
/// The profile or the goal is invalid, or the time slice is too short even for one node of this
/// kind.
pub fn size(profile: &Profile, goal: &Goal) -> Result<Sizing, InputError> {
    profile.check()?;
    let (goal, not_applicable) = &goal.on(profile);
    goal.check(profile)?;
    for candidate in candidates(profile, goal, NodeCount::ONE) {
        candidate.strobe.cost_of(profile, goal.quantum_us)?;
    }
    let fits = |nodes| best(profile, goal, nodes).is_ok();
    let sizing = |largest: Option<NodeCount>, Miss { limit, nearest }| {
        let best = |nodes| best(profile, goal, nodes).ok();
        let largest = largest.and_then(|nodes| Some(best(nodes)?.setting(goal, nodes)));
        let (profile, not_applicable) = (profile.name.clone(), not_applicable.clone());
        Sizing { profile, largest, limit, beyond: nearest, not_applicable }
    };
    let no_more = Miss { limit: SizeLimit::Goal, nearest: None };
    if fits(goal.most_nodes) {
        return Ok(sizing(Some(goal.most_nodes), no_more));
    }
    if let Err(miss) = best(profile, goal, NodeCount::ONE) {
        return Ok(sizing(None, miss));
    }
    // With any tree, a smaller machine is faster than a larger one. The machines that fit are
    // therefore all machines up to some size.
    let (mut fitting, mut failing) = (NodeCount::ONE, goal.most_nodes);
    while let Some(middle) = fitting.between(failing) {
        if fits(middle) {
            fitting = middle;
        } else {
            failing = middle;
        }
    }
    let miss = best(profile, goal, failing).err().unwrap_or(no_more);
    Ok(sizing(Some(fitting), miss))
}

/// The candidate with the shortest launch among those that meet the goal. If none meets it, the
/// obstacle that all candidates share.
fn best(profile: &Profile, goal: &Goal, nodes: NodeCount) -> Result<Candidate, Miss> {
    let all = candidates(profile, goal, nodes);
    let lost = |candidate: &Candidate| candidate.strobe.lost_us();
    let cheapest = all.iter().min_by(|a, b| lost(a).total_cmp(&lost(b)));
    // At least one fan-out and one chunk exist.
    let quantum = Miss {
        limit: SizeLimit::Quantum(cheapest.map_or(Limit::Switch, |one| one.strobe.limit())),
        nearest: cheapest.map(|one| one.setting(goal, nodes)),
    };
    let is_in_time = |one: &Candidate| one.launch.total_ms <= goal.launch_ms;
    let some_are_in_time = all.iter().any(is_in_time);
    let affordable =
        all.into_iter().filter(|one| goal.cost_percent_of(&one.strobe) <= goal.cost_percent);
    let fastest = affordable.min_by(|a, b| a.launch.total_ms.total_cmp(&b.launch.total_ms));
    match fastest {
        None => Err(quantum),
        Some(one) if is_in_time(&one) => Ok(one),
        Some(one) => {
            let limit = one.launch.limit();
            let limit = match some_are_in_time {
                true => SizeLimit::Both(limit),
                false => SizeLimit::Launch(limit),
            };
            Err(Miss { limit, nearest: Some(one.setting(goal, nodes)) })
        }
    }
}

impl Candidate {
    fn setting(&self, goal: &Goal, nodes: NodeCount) -> Setting {
        let Candidate { fan_out, chunk_bytes, launch, strobe } = self;
        let cost_percent = goal.cost_percent_of(strobe);
        let (fan_out, chunk_bytes, launch_ms) = (*fan_out, *chunk_bytes, launch.total_ms);
        Setting { nodes, fan_out, chunk_bytes, launch_ms, cost_percent }
    }
}

/// All trees and chunks to choose from.
fn candidates(profile: &Profile, goal: &Goal, nodes: NodeCount) -> Vec<Candidate> {
    let candidate = |fan_out, chunk_bytes| {
        let question = goal.question(nodes, fan_out, chunk_bytes);
        Candidate {
            fan_out,
            chunk_bytes,
            launch: launch_on(profile, &question, fan_out),
            strobe: strobe_on(profile, nodes, fan_out),
        }
    };
    match &profile.network {
        Network::Multicast(_) | Network::SharedHost(_) => vec![candidate(None, None)],
        Network::Tree(_) => {
            let fan_outs: Vec<FanOut> = match goal.fan_out {
                Some(fan_out) => vec![fan_out],
                None => FanOut::candidates(nodes).collect(),
            };
            let chunks = match goal.chunk_bytes {
                Some(bytes) => vec![bytes],
                None => CHUNK_CHOICES.to_vec(),
            };
            let pairs = fan_outs
                .into_iter()
                .flat_map(|fan_out| chunks.iter().map(move |&chunk| (fan_out, chunk)));
            pairs.map(|(fan_out, chunk)| candidate(Some(fan_out), Some(chunk))).collect()
        }
    }
}

impl Goal {
    /// The goal without the settings that a machine of this kind does not have, and the names of
    /// those settings.
    fn on(&self, profile: &Profile) -> (Goal, Vec<&'static str>) {
        match &profile.network {
            Network::Tree(_) => (*self, Vec::new()),
            Network::Multicast(_) | Network::SharedHost(_) => {
                let given = [self.fan_out.map(|_| "fan-out"), self.chunk_bytes.map(|_| "chunk")];
                let goal = Goal { fan_out: None, chunk_bytes: None, ..*self };
                (goal, given.into_iter().flatten().collect())
            }
        }
    }

    fn check(&self, profile: &Profile) -> Result<(), InputError> {
        positive("the time for a launch", "ms", self.launch_ms)?;
        positive("the time slice", "us", self.quantum_us)?;
        let cost_percent = positive("the cost of a time slice", "%", self.cost_percent)?;
        if cost_percent > WHOLE_PERCENT {
            return Err(InputError::OutOfRange {
                name: "the cost of a time slice",
                value: cost_percent,
                unit: "%",
                wanted: "at most 100: it is a part of the slice",
            });
        }
        self.question(NodeCount::ONE, self.fan_out, self.chunk_bytes).check(profile)
    }

    /// The launch that has to be fast enough, on `nodes` nodes.
    pub fn question(
        &self,
        nodes: NodeCount,
        fan_out: Option<FanOut>,
        chunk_bytes: Option<u32>,
    ) -> Question {
        Question {
            nodes,
            processes_per_node: self.processes_per_node,
            size: self.size,
            fan_out,
            chunk_bytes,
            cable: None,
            quantum_us: None,
        }
    }

    fn cost_percent_of(&self, strobe: &Strobe) -> f64 {
        strobe.lost_us() / self.quantum_us * 100.0
    }
}

impl fmt::Display for SizeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeLimit::Launch(limit) => write!(f, "launch: {limit}"),
            SizeLimit::Both(_) => f.write_str("launch and time slice: no tree meets both"),
            SizeLimit::Quantum(limit) => write!(f, "time slice: {limit}"),
            SizeLimit::Goal => f.write_str("none up to the size asked for"),
        }
    }
}
