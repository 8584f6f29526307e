//! What the node manager's core hears.

use crate::{HostEvent, JobKey, LaunchRefused};
use std::collections::BTreeSet;
use storm_rm::Rank;
use storm_rm::message::{Command, Stream, Strobe};

/// One thing that happened, from above or from the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A command of a heartbeat for this node.
    Command(Command),
    /// The preparations of a job are done.
    Prepared {
        /// The job.
        job: JobKey,
        /// Whether it can be launched.
        outcome: Result<(), LaunchRefused>,
    },
    /// A slice begins by this node's clock.
    SliceBegins(Strobe),
    /// A slice of communication begins, and all ranks of these jobs here wait for messages that have not
    /// come.
    Waiting {
        /// The jobs.
        jobs: BTreeSet<JobKey>,
    },
    /// News from the host.
    Host(HostEvent),
    /// All output of a stream has been handed on.
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
    /// A job cannot go on here.
    Unserviceable {
        /// The job.
        job: JobKey,
        /// Why, for the user.
        reason: String,
    },
    /// The Machine Manager is gone, or this node was cut off from it. What runs goes
    /// on; what waits for a strobe waits.
    ManagerLost,
    /// There has been no Machine Manager for so long that the next one may have given up
    /// this node, and may run elsewhere what asked for it.
    GivenUp,
    /// The cluster is lost, or this node is of no more use to it: all jobs end.
    Leave,
}
