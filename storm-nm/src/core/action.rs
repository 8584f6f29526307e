//! What the node manager's core wants done.

use crate::{JobKey, JobTask};
use bytes::Bytes;
use std::rc::Rc;
use storm_rm::message::{ReceiveFile, Report, Slices, Strobe};
use storm_rm::termination::{LocalPart, Urgency};
use storm_rm::{Coscheduling, JobIncarnation, JobSlot, PartitionId, Rank, RowSet};

/// One thing to do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Receive a file, or say that it is there.
    Receive(ReceiveFile),
    /// Refuse a file.
    RefuseFile {
        /// The announcement.
        info: ReceiveFile,
        /// Why, for the user.
        reason: String,
    },
    /// Prepare the start of a job.
    Prepare(Rc<JobTask>),
    /// Start its ranks.
    Launch {
        /// The job.
        task: Rc<JobTask>,
        /// They execute nothing until resumed.
        stopped: bool,
    },
    /// Say when the slices after this one begin, and not any more when those before would.
    Follow {
        /// The partition whose slices they are.
        partition: PartitionId,
        /// The slices; `None` when the next strobe is to be waited for.
        slices: Option<Slices>,
    },
    /// Stop and resume jobs, at once.
    Switch {
        /// The strobe that asks for it, if one does: it is recorded, also where
        /// nothing has to be switched.
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
    },
    /// Say `SignalGraceOver` after the configured time.
    GrantSignalGrace {
        /// The job.
        job: JobKey,
    },
    /// Kill every process of a job.
    Destroy {
        /// The job.
        job: JobKey,
    },
    /// Kill what the ranks of a job left.
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
        /// Where in the job's input it begins, if ranks may have had some of it.
        offset: Option<u64>,
        /// What to hand over.
        data: Bytes,
        /// Nothing follows.
        eof: bool,
    },
    /// Another Machine Manager counts the job's input anew, or this one wants to know what ranks have
    /// taken of what it has sent.
    CountInput {
        /// The job.
        job: JobKey,
        /// The ranks that read it.
        ranks: Vec<Rank>,
        /// What was sent before counts.
        known: bool,
    },
    /// The rank is gone: discard its input, what is here and what comes.
    DropInput {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
    },
    /// Stop reading the output of the ranks, or go on. The end of a job goes on
    /// without being told.
    HoldOutput {
        /// The job.
        job: JobKey,
        /// Stop, or go on.
        hold: bool,
    },
    /// The job runs in these rows from now on: what is to be stopped or resumed
    /// for it follows.
    Rows {
        /// The job.
        job: JobKey,
        /// Its rows.
        rows: RowSet,
    },
    /// The ranks of the job come to run together in this way from now on.
    Coschedule {
        /// The job.
        job: JobKey,
        /// Who sees to it.
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
    /// A rank of a job whose bytes the nodes move is gone before its time: its peers must not wait for
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
    /// Set the flag that says that all ranks run.
    MarkStarted {
        /// Where.
        slot: JobSlot,
        /// To what.
        incarnation: JobIncarnation,
    },
    /// ANNOUNCE-TERMINATION (Algorithm 9).
    Announce {
        /// This node's part of the job.
        part: LocalPart,
        /// The report that goes with it.
        report: Report,
    },
    /// Report to the Machine Manager.
    Post {
        /// The report.
        report: Report,
        /// How soon it must leave.
        urgency: Urgency,
    },
    /// End: the jobs have been told to.
    Leave,
}
