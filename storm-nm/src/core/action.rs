//! The actions that the node manager's core orders.

use crate::{JobKey, JobTask, Whom};
use bytes::Bytes;
use std::rc::Rc;
use storm_rm::message::{ReceiveFile, Report, Slices, Strobe};
use storm_rm::termination::{LocalPart, Urgency};
use storm_rm::{Coscheduling, JobIncarnation, JobSlot, PartitionId, Rank, RowSet};

/// An action. Actions are done in the given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Receive a file, or report that it is here already.
    Receive(ReceiveFile),
    /// Refuse a file.
    RefuseFile {
        /// The announcement.
        info: ReceiveFile,
        /// The reason, for the user.
        reason: String,
    },
    /// Prepare the start of a job.
    Prepare(Rc<JobTask>),
    /// Start its ranks.
    Launch {
        /// The job.
        task: Rc<JobTask>,
        /// Whether they execute nothing until resumed.
        stopped: bool,
    },
    /// Note when the slices after this slice begin, in place of earlier such slices.
    Follow {
        /// The partition of the slices.
        partition: PartitionId,
        /// The slices; `None` to wait for the next strobe.
        slices: Option<Slices>,
    },
    /// Stop and resume jobs, at once.
    Switch {
        /// The strobe that orders the switch, if any. A strobe is recorded even if no job is
        /// switched.
        strobe: Option<Strobe>,
        /// Jobs to stop.
        stop: Vec<JobKey>,
        /// Jobs to resume, afterwards.
        resume: Vec<JobKey>,
    },
    /// Signal the ranks of a job.
    Signal {
        /// The job.
        job: JobKey,
        /// Signal number.
        signal: i32,
        /// The processes that it is for.
        whom: Whom,
    },
    /// Report `SignalGraceOver` after the configured time.
    GrantSignalGrace {
        /// The job.
        job: JobKey,
    },
    /// Kill every process of a job.
    Destroy {
        /// The job.
        job: JobKey,
    },
    /// Kill the processes that the ranks of a job left behind.
    End {
        /// The job.
        job: JobKey,
    },
    /// Remove the job's directory and forget it.
    Forget {
        /// The job.
        job: JobKey,
    },
    /// Hand input to ranks.
    Input {
        /// The job.
        job: JobKey,
        /// The ranks that read it.
        ranks: Vec<Rank>,
        /// Offset of the data in the job's input, if ranks may already have had a part of it.
        offset: Option<u64>,
        /// The input.
        data: Bytes,
        /// Whether the input ends here.
        eof: bool,
    },
    /// The Machine Manager requests how much of the job's input these ranks have taken.
    TellInput {
        /// The job.
        job: JobKey,
        /// The ranks that read it.
        ranks: Vec<Rank>,
    },
    /// The rank has ended: discard its waiting and future input.
    DropInput {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
    },
    /// Stop reading the output of the ranks, or continue. At the end of a job it continues without
    /// an order.
    HoldOutput {
        /// The job.
        job: JobKey,
        /// Stop if true, else continue.
        hold: bool,
    },
    /// The job runs in these rows from now on. The resulting stops and resumes follow.
    Rows {
        /// The job.
        job: JobKey,
        /// Its rows.
        rows: RowSet,
    },
    /// From now on the ranks of the job are coscheduled in this way.
    Coschedule {
        /// The job.
        job: JobKey,
        /// The way of coscheduling.
        coscheduling: Coscheduling,
    },
    /// Send a PMI line to a rank.
    PmiReply {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
        /// The line.
        line: String,
    },
    /// A rank has ended early in a job whose bytes the nodes move, so its peers must not wait for
    /// it.
    RankGone {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
    },
    /// Close the PMI connection of a rank.
    ClosePmi {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
    },
    /// Set the flag that all ranks run.
    MarkStarted {
        /// The place of the flag.
        slot: JobSlot,
        /// The value of the flag.
        incarnation: JobIncarnation,
    },
    /// ANNOUNCE-TERMINATION (Algorithm 9).
    Announce {
        /// This node's part of the job.
        part: LocalPart,
        /// The report to send with it.
        report: Report,
    },
    /// Report to the Machine Manager.
    Post {
        /// The report.
        report: Report,
        /// How soon it must leave.
        urgency: Urgency,
    },
    /// End; the jobs have been ordered to end.
    Leave,
}
