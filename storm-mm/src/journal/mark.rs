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
    /// Set for an entry that belongs to no job: it replaces the previous one of its kind.
    pub(super) of_no_job: Option<OfNoJob>,
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

/// The subject of an entry that belongs to no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OfNoJob {
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
            of_no_job: None,
            replaces: None,
            environment_bytes: 0,
        };
        let replaces = |what| Mark { replaces: Some(what), ..mark };
        let of_no_job = |what| Mark { of_no_job: Some(what), ..mark };
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
            JobEventKind::PartitionsSet { .. } => of_no_job(OfNoJob::Partitions),
            JobEventKind::PartitionsConfigured { .. } => of_no_job(OfNoJob::Configured),
            JobEventKind::UsageNoted { .. } => of_no_job(OfNoJob::Usage),
            JobEventKind::ReservationsSet { .. } => of_no_job(OfNoJob::Reservations),
            JobEventKind::NodesDrained { .. } => of_no_job(OfNoJob::Nodes),
            JobEventKind::NodesNumbered { .. } => of_no_job(OfNoJob::Numbers),
        }
    }
}
