//! The events that the node manager's core takes.

use crate::{HostEvent, JobKey, LaunchRefused};
use std::collections::BTreeSet;
use storm_rm::Rank;
use storm_rm::message::{Command, CutLaunch, Stream, Strobe};

/// An event, from the Machine Manager or from the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A command of a heartbeat for this node.
    Command(Command),
    /// The preparation of a job is done.
    Prepared {
        /// The job.
        job: JobKey,
        /// Whether it can be launched.
        outcome: Result<(), LaunchRefused>,
    },
    /// A slice begins by this node's clock.
    SliceBegins(Strobe),
    /// A slice of communication begins, and all ranks of these jobs here wait for messages that
    /// have not arrived.
    Waiting {
        /// The jobs.
        jobs: BTreeSet<JobKey>,
    },
    /// An event of the host.
    Host(HostEvent),
    /// A stream's output has all been passed on.
    StreamEnded {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
        /// The stream.
        stream: Stream,
    },
    /// A stopped job has had its time to act on a signal.
    SignalGraceOver {
        /// The job.
        job: JobKey,
    },
    /// A job cannot continue here.
    Unserviceable {
        /// The job.
        job: JobKey,
        /// The reason, for the user.
        reason: String,
    },
    /// A job that a former node manager left is not whole here, so it cannot continue.
    LaunchCut {
        /// The job.
        job: JobKey,
        /// The missing parts of the job.
        cut: CutLaunch,
    },
    /// The Machine Manager is gone, or this node was cut off from it. Running jobs continue; those
    /// that wait for a strobe wait.
    ManagerLost,
    /// The Machine Manager has been gone for so long that the next manager may have given up this
    /// node. The next manager may then run elsewhere the jobs that requested requeueing.
    GivenUp,
    /// The cluster is lost, or this node is useless to it: all jobs end.
    Leave,
}
