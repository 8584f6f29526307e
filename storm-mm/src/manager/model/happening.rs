//! The events of random histories.

use super::world::{NODES, PES};
use proptest::prelude::*;
use storm_rm::{Share, StepSize};

/// The next event; its numbers choose among the present jobs and nodes.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    Submit {
        procs: u32,
        nodes: Option<u32>,
        shipped: bool,
        requeue: bool,
        limited: bool,
        /// Whether the job is a script, which has ranks on its first node only.
        script: bool,
        /// The job's quality of service, of [`super::preempting::urgencies`].
        qos: usize,
    },
    Cancel(usize),
    /// A job with needs other than elements; bits choose some of them.
    SubmitNeedy {
        procs: u32,
        needs: u8,
        after: usize,
        tasks: u32,
    },
    Hold {
        pick: usize,
        admin: bool,
    },
    Release {
        pick: usize,
        admin: bool,
    },
    /// A job is requeued, stopped, continued or changed.
    Change {
        pick: usize,
        what: u8,
    },
    SetSched(&'static str),
    SetQuantum(u64),
    NodeDown(u32),
    NodeUp(u32),
    /// The Node Manager of a node ends, and the next one takes its jobs over, perhaps without those
    /// that were being launched.
    NodeReturns {
        node: u32,
        forgets: bool,
    },
    /// The keeper of a node's processes dies; the node is lost only later.
    ProcessesLost(u32),
    Staged {
        pick: usize,
        fails: bool,
    },
    Started(usize),
    Unstarted(usize),
    PartOver {
        pick: usize,
        code: u8,
    },
    RankKilled(usize),
    RankLeft(usize),
    LaunchFailed(usize),
    JobFailed(usize),
    Terminated(usize),
    /// A script asks for a step. Few numbers, so that some are asked for twice.
    AskStep {
        pick: usize,
        ask: u64,
        size: StepSize,
        shipped: bool,
    },
    LeaveStep {
        pick: usize,
        ask: u64,
    },
    StepStaged {
        pick: usize,
        fails: bool,
    },
    CancelStep(usize),
    Edge,
    Timer,
    /// The manager is killed and restarted. Nodes of one set of bits die meanwhile; nodes of
    /// another set had not received launches that were under way. Nodes of the third set get other
    /// Node Managers, which find nothing of such launches.
    Restart {
        dead: u32,
        deaf: u32,
        replaced: u32,
    },
    /// A report about a run that is over, or from a node that has no part of the run.
    Stale {
        job: u64,
        incarnation: u64,
        node: u32,
    },
}

pub(super) fn happening() -> impl Strategy<Value = Happening> {
    let pick = any::<prop::sample::Index>().prop_map(|index| index.index(64));
    let node = 1..=NODES;
    prop_oneof![
        6 => (1..=NODES * PES, prop::option::weighted(0.2, 1..=NODES), any::<[bool; 4]>(), 0..8_usize).prop_map(
            |(procs, nodes, [shipped, requeue, limited, script], qos)| {
                Happening::Submit { procs, nodes, shipped, requeue, limited, script, qos }
            }
        ),
        2 => pick.clone().prop_map(Happening::Cancel),
        3 => (1..=NODES, any::<u8>(), pick.clone(), 0..5_u32).prop_map(
            |(procs, needs, after, tasks)| Happening::SubmitNeedy { procs, needs, after, tasks }
        ),
        2 => (pick.clone(), any::<bool>()).prop_map(|(pick, admin)| Happening::Hold { pick, admin }),
        2 => (pick.clone(), any::<bool>()).prop_map(|(pick, admin)| Happening::Release { pick, admin }),
        3 => (pick.clone(), 0..6_u8).prop_map(|(pick, what)| Happening::Change { pick, what }),
        1 => prop::sample::select(vec!["fcfs", "gang", "local", "bcs", "fcs"]).prop_map(Happening::SetSched),
        1 => (1..100_u64).prop_map(Happening::SetQuantum),
        1 => node.clone().prop_map(Happening::NodeDown),
        2 => node.clone().prop_map(Happening::NodeUp),
        2 => (node.clone(), any::<bool>())
            .prop_map(|(node, forgets)| Happening::NodeReturns { node, forgets }),
        1 => node.clone().prop_map(Happening::ProcessesLost),
        4 => (pick.clone(), prop::bool::weighted(0.1))
            .prop_map(|(pick, fails)| Happening::Staged { pick, fails }),
        4 => pick.clone().prop_map(Happening::Started),
        2 => pick.clone().prop_map(Happening::Unstarted),
        8 => (pick.clone(), 0..2_u8).prop_map(|(pick, code)| Happening::PartOver { pick, code }),
        1 => pick.clone().prop_map(Happening::RankKilled),
        1 => pick.clone().prop_map(Happening::RankLeft),
        1 => pick.clone().prop_map(Happening::LaunchFailed),
        1 => pick.clone().prop_map(Happening::JobFailed),
        2 => pick.clone().prop_map(Happening::Terminated),
        8 => (pick.clone(), 0..40_u64, step_size(), prop::bool::weighted(0.3)).prop_map(
            |(pick, ask, size, shipped)| Happening::AskStep { pick, ask, size, shipped }
        ),
        1 => (pick.clone(), 0..40_u64).prop_map(|(pick, ask)| Happening::LeaveStep { pick, ask }),
        3 => (pick.clone(), prop::bool::weighted(0.1))
            .prop_map(|(pick, fails)| Happening::StepStaged { pick, fails }),
        2 => pick.prop_map(Happening::CancelStep),
        6 => Just(Happening::Edge),
        2 => Just(Happening::Timer),
        1 => (prop::option::weighted(0.3, any::<u32>()), any::<u32>(), any::<u32>()).prop_map(
            |(dead, deaf, replaced)| {
                Happening::Restart { dead: dead.unwrap_or_default(), deaf, replaced }
            }
        ),
        1 => (1..20_u64, 0..20_u64, node)
            .prop_map(|(job, incarnation, node)| Happening::Stale { job, incarnation, node }),
    ]
}

fn step_size() -> impl Strategy<Value = StepSize> {
    let share = prop_oneof![
        4 => Just(Share::Exact), 1 => Just(Share::WholeNodes), 1 => Just(Share::Overlap)
    ];
    (1..5_u32, prop::option::weighted(0.2, 1..=NODES), 1..3_u32, share).prop_map(
        |(procs, nodes, elements_each, share)| StepSize {
            nodes,
            elements_each,
            share,
            ..StepSize::of_procs(procs)
        },
    )
}

/// The policy with which a history begins.
pub(super) fn sched() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("gang"), 2 => Just("fcfs"), 2 => Just("backfill"), 1 => Just("conservative"), 1 => Just("sjf")]
}
