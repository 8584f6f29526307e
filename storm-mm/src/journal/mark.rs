//! The facts about an entry of the journal that decide how long the entry stays. The decision is
//! that of [`Retention`](super::retention::Retention).

use super::Entry;
use crate::cluster::ClusterEventKind;
use crate::job::{JobEvent, JobEventKind, StepEvent};
use jiff::Timestamp;
use storm_primitives::NodeId;
use storm_rm::{ArraySpec, JobId, JobIncarnation};

/// The facts about an entry that decide how long it stays.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    /// The facts about an entry of a job.
    Job(JobMark),
    /// The subject of an entry of the cluster. The entry replaces the previous entry of this
    /// subject.
    Cluster(OfCluster),
}

/// The facts about an entry of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobMark {
    pub(super) job: JobId,
    /// The time of its event.
    pub(super) at: Timestamp,
    /// The run that it begins.
    pub(super) run: Option<JobIncarnation>,
    /// The user of the job or array that it begins.
    pub(super) user: Option<u32>,
    /// Whether it is the last entry of its job.
    pub(super) ends: bool,
    /// The number of jobs of the array that it begins; their numbers follow its own.
    pub(super) array: u64,
    /// Set for an entry that gives the whole state of something of its job: it replaces the
    /// previous one.
    pub(super) replaces: Option<OfJob>,
    /// Whether it notes an event of a job that its job depends on.
    pub(super) is_note: bool,
    /// Whether the notes before it are no longer needed: its job has another dependency.
    pub(super) voids_notes: bool,
    /// The step that it ends: no other entry of the step is needed.
    pub(super) ends_step: Option<u32>,
    /// The length of the environment in the entry.
    pub(super) environment_bytes: usize,
}

/// A state of a job that each such entry gives whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OfJob {
    /// Whether it is held.
    Hold,
    /// Whether it is suspended for another job.
    Stop,
    /// Whether an administrator has stopped it.
    AdminStop,
    /// Its terms.
    Terms,
    /// The request of a step.
    StepBegan(u32),
    /// The start of a step.
    StepStarted(u32),
    /// Why a step is being ended.
    StepEnding(u32),
    /// The end of a step's part on a lost node.
    StepPartOver(u32, NodeId),
}

/// The subject of an entry of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OfCluster {
    Partitions,
    Configured,
    Nodes,
    Usage,
    Reservations,
    Numbers,
}

impl From<&Entry> for Mark {
    fn from(entry: &Entry) -> Mark {
        match entry {
            Entry::Job(job, event) => Mark::Job(JobMark::new(*job, event)),
            Entry::Cluster(event) => Mark::Cluster(OfCluster::from(&event.kind)),
        }
    }
}

impl JobMark {
    fn new(job: JobId, JobEvent { at, kind }: &JobEvent) -> JobMark {
        let mark = JobMark {
            job,
            at: *at,
            run: None,
            user: None,
            ends: false,
            array: 0,
            replaces: None,
            is_note: false,
            voids_notes: false,
            ends_step: None,
            environment_bytes: 0,
        };
        let replaces = |what| JobMark { replaces: Some(what), ..mark };
        match kind {
            JobEventKind::Placed { incarnation, .. } => JobMark { run: Some(*incarnation), ..mark },
            JobEventKind::Ended { .. } => JobMark { ends: true, ..mark },
            JobEventKind::ArraySubmitted { spec, .. } => {
                let array = spec.needs.array.as_ref();
                let indices = array.and_then(|array| array.indices(ArraySpec::MAX_TASKS).ok());
                let array = indices.map_or(0, |indices| indices.len() as u64);
                let (user, environment_bytes) = (Some(spec.owner.uid), spec.step.env.text_bytes());
                JobMark { user, array, environment_bytes, ..mark }
            }
            JobEventKind::Submitted { spec, .. } => {
                let (user, environment_bytes) = (Some(spec.owner.uid), spec.step.env.text_bytes());
                JobMark { user, environment_bytes, ..mark }
            }
            JobEventKind::Started { .. }
            | JobEventKind::Ending { .. }
            | JobEventKind::Requeued { .. }
            | JobEventKind::Ran { .. }
            | JobEventKind::InReservation { .. }
            | JobEventKind::OnElements { .. }
            | JobEventKind::PartOver { .. }
            | JobEventKind::FirstOver { .. }
            | JobEventKind::SignalledEarly { .. }
            | JobEventKind::UnderPolicy { .. }
            | JobEventKind::Moved { .. } => mark,
            JobEventKind::Held { .. } | JobEventKind::Released { .. } => replaces(OfJob::Hold),
            JobEventKind::Suspended { .. } | JobEventKind::Resumed { .. } => replaces(OfJob::Stop),
            JobEventKind::StoppedBy { .. } | JobEventKind::ContinuedBy { .. } => {
                replaces(OfJob::AdminStop)
            }
            JobEventKind::DependencyEnded { .. } | JobEventKind::DependencyNoted { .. } => {
                JobMark { is_note: true, ..mark }
            }
            JobEventKind::Changed { waits_anew, .. } => {
                JobMark { voids_notes: *waits_anew, ..replaces(OfJob::Terms) }
            }
            JobEventKind::Step { number, event } => match event {
                StepEvent::Began { run, .. } => {
                    JobMark { run: Some(*run), ..replaces(OfJob::StepBegan(*number)) }
                }
                StepEvent::Started => replaces(OfJob::StepStarted(*number)),
                StepEvent::Ending { .. } => replaces(OfJob::StepEnding(*number)),
                StepEvent::PartOver { node, .. } => replaces(OfJob::StepPartOver(*number, *node)),
                StepEvent::Ended { latest_run, .. } => {
                    JobMark { run: Some(*latest_run), ends_step: Some(*number), ..mark }
                }
            },
        }
    }
}

impl From<&ClusterEventKind> for OfCluster {
    fn from(kind: &ClusterEventKind) -> OfCluster {
        match kind {
            ClusterEventKind::PartitionsSet { .. } => OfCluster::Partitions,
            ClusterEventKind::PartitionsConfigured { .. } => OfCluster::Configured,
            ClusterEventKind::UsageNoted { .. } => OfCluster::Usage,
            ClusterEventKind::ReservationsSet { .. } => OfCluster::Reservations,
            ClusterEventKind::NodesDrained { .. } => OfCluster::Nodes,
            ClusterEventKind::NodesNumbered { .. } => OfCluster::Numbers,
        }
    }
}
