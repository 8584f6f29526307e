//! The facts about an entry of the journal that decide how long the entry stays. The decision is
//! that of [`Retention`](super::retention::Retention).

use super::Entry;
use crate::job::JobEventKind;
use storm_rm::{ArraySpec, JobId, JobIncarnation};

/// The facts about an entry that decide how long it stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) job: JobId,
    /// The run that it begins.
    pub(super) run: Option<JobIncarnation>,
    /// The user of the job or array that it begins.
    pub(super) user: Option<u32>,
    /// Whether it is the last entry of its job.
    pub(super) ends: bool,
    /// The number of jobs of the array that it begins; their numbers follow its own.
    pub(super) array: u64,
    /// Set for an entry of the cluster: it replaces the previous one of its kind.
    pub(super) of_cluster: Option<OfCluster>,
    /// Set for an entry that gives the whole state of something of its job: it replaces the
    /// previous one.
    pub(super) replaces: Option<OfJob>,
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
    fn from((job, event): &Entry) -> Mark {
        let mark = Mark {
            job: *job,
            run: None,
            user: None,
            ends: false,
            array: 0,
            of_cluster: None,
            replaces: None,
            environment_bytes: 0,
        };
        let replaces = |what| Mark { replaces: Some(what), ..mark };
        let of_cluster = |what| Mark { of_cluster: Some(what), ..mark };
        match &event.kind {
            JobEventKind::Placed { incarnation, .. } => Mark { run: Some(*incarnation), ..mark },
            JobEventKind::Ended { .. } => Mark { ends: true, ..mark },
            JobEventKind::ArraySubmitted { spec, .. } => {
                let array = spec.needs.array.as_ref();
                let indices = array.and_then(|array| array.indices(ArraySpec::MAX_TASKS).ok());
                let array = indices.map_or(0, |indices| indices.len() as u64);
                let (user, environment_bytes) = (Some(spec.owner.uid), spec.env.text_bytes());
                Mark { user, array, environment_bytes, ..mark }
            }
            JobEventKind::Submitted { spec, .. } => {
                let (user, environment_bytes) = (Some(spec.owner.uid), spec.env.text_bytes());
                Mark { user, environment_bytes, ..mark }
            }
            JobEventKind::Started { .. }
            | JobEventKind::Ending { .. }
            | JobEventKind::Requeued { .. }
            | JobEventKind::Ran { .. }
            | JobEventKind::DependencyEnded { .. }
            | JobEventKind::DependencyNoted { .. }
            | JobEventKind::Classed { .. }
            | JobEventKind::InReservation { .. }
            | JobEventKind::OnColumns { .. }
            | JobEventKind::OnElements { .. }
            | JobEventKind::UnderPolicy { .. }
            | JobEventKind::Moved { .. } => mark,
            JobEventKind::Held { .. } | JobEventKind::Released { .. } => replaces(OfJob::Hold),
            JobEventKind::Suspended { .. } | JobEventKind::Resumed { .. } => replaces(OfJob::Stop),
            JobEventKind::PartitionsSet { .. } => of_cluster(OfCluster::Partitions),
            JobEventKind::PartitionsConfigured { .. } => of_cluster(OfCluster::Configured),
            JobEventKind::UsageNoted { .. } => of_cluster(OfCluster::Usage),
            JobEventKind::ReservationsSet { .. } => of_cluster(OfCluster::Reservations),
            JobEventKind::NodesDrained { .. } => of_cluster(OfCluster::Nodes),
            JobEventKind::NodesNumbered { .. } => of_cluster(OfCluster::Numbers),
        }
    }
}
