//! Everything on a node outside the network, as the node manager sees it.
//!
//! What must be quick or must keep its order returns at once and has its outcome
//! as a [`HostEvent`]; what may take its time is a future.

use crate::{JobKey, JobTask, SwitchAhead, SwitchDone};
use bytes::Bytes;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;
use storm_mpi::segment::NodeEnd;
use storm_primitives::{Instant, NodeId};
use storm_rm::file_transfer::ChunkSink;
use storm_rm::message::{NodeInfo, NodeStatus, RankExit, ReceiveFile, Report, Stream, Strobe};
use storm_rm::{Coscheduling, FileSpec, JobId, JobIncarnation, Owner, Rank, RankClass, RowSet};
use thiserror::Error;

/// The node of one node manager.
pub trait Host: 'static {
    /// A file of the cache while its content comes.
    type Sink: ChunkSink;

    /// What the node says of itself when it joins.
    fn info(&self, node: NodeId) -> NodeInfo;

    /// The name of the node in the cluster's configuration, for people.
    fn name(&self, node: NodeId) -> String {
        node.to_string()
    }

    /// Its load now.
    fn status(&self) -> NodeStatus;

    /// Whether somebody on it wants the node manager to end: when its link is closed, it does not
    /// look for another.
    fn is_asked_to_end(&self) -> bool {
        false
    }

    /// For how long jobs go on without this node manager, should it end; `None` where they end with it,
    /// or somebody wants them to.
    fn keeps_jobs(&self) -> Option<Duration> {
        None
    }

    /// What a former node manager of this node has left running. Asked once, before anything else.
    fn inherit(&self) -> Vec<Inherited> {
        Vec::new()
    }

    /// The first run of a job that this node can have heard of, for the node manager that inherits
    /// what is launched from now on.
    fn remember_first_run(&self, first: Option<JobIncarnation>) {
        let _ = first;
    }

    /// The ranks of the job leave a PMI barrier with these pairs.
    fn remember_fence(&self, job: JobId, sequence: u64, puts: &[(String, String)]) {
        let _ = (job, sequence, puts);
    }

    /// The input of this rank is counted from here on.
    fn count_input_anew(&self, job: JobKey, rank: Rank) {
        let _ = (job, rank);
    }

    /// How much of a stream was read by former node managers.
    fn output_offset(&self, job: JobKey, rank: Rank, stream: Stream) -> u64 {
        let _ = (job, rank, stream);
        0
    }

    /// This node manager ends and leaves its jobs to the next one.
    fn detach(&self) {}

    /// Looks for content in the owner's part of the cache; where it is missing,
    /// makes room and a file to write it to. Content found is kept for a while,
    /// so that the job that it is for finds it.
    ///
    /// # Errors
    /// When there is neither the content nor room for it.
    fn content(
        &self,
        announced: &ReceiveFile,
    ) -> impl Future<Output = io::Result<Content<Self::Sink>>>;

    /// Copies cached content to a path of the node, as its owner.
    ///
    /// # Errors
    /// The reason, for the user.
    fn place(
        &self,
        owner: Owner,
        file: &FileSpec,
    ) -> impl Future<Output = Result<(), LaunchRefused>>;

    /// Prepares the start of a job: its directory with its files, the processes
    /// that will become its ranks.
    ///
    /// # Errors
    /// [`LaunchRefused`]; then nothing is left behind.
    fn prepare(&self, task: &Rc<JobTask>) -> impl Future<Output = Result<(), LaunchRefused>>;

    /// Starts the ranks of a prepared job. Each tells by an event how its start
    /// went. With `stopped`, they execute nothing before the job is resumed.
    fn launch(&self, task: &Rc<JobTask>, stopped: bool);

    /// What a modelled node takes to take up a heartbeat. A live one does it in
    /// the time that it takes anyway.
    fn attend(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// The context switch: stops, then resumes. Returns at once; jobs that are
    /// not known, or over, are skipped. Problems are logged. `strobe` is what
    /// ordered it, when a strobe did.
    fn switch(&self, strobe: Option<&Strobe>, stop: &[JobKey], resume: &[JobKey]);

    /// Orders switches of times to come, in the order of time: each is done when it is due as
    /// [`switch`](Host::switch) would do it, without the node manager, and several that are late
    /// as one. What was ordered before is withdrawn. `now` is the time by the node manager's clock.
    /// Whether it will be done: otherwise nothing is ordered.
    fn switch_ahead(&self, now: Instant, plan: Vec<SwitchAhead>) -> bool;

    /// Withdraws what is ordered and not done. The switches that were done since the last time
    /// that this was asked, in order; none is done once this returns.
    fn withdraw_ahead(&self) -> Vec<SwitchDone>;

    /// The job runs in these rows from now on. It stops and resumes nothing.
    fn set_rows(&self, job: JobKey, rows: RowSet);

    /// The ranks of the job come to run together in this way from now on; how they do from
    /// their start, their task says. Nothing to do where operating systems alone see to it.
    fn coschedule(&self, job: JobKey, coscheduling: Coscheduling) {
        let _ = (job, coscheduling);
    }

    /// What the ranks of a job are taken for here, where flexible coscheduling looks at what they do;
    /// [`HostEvent::Classified`] says when to ask.
    fn classes(&self, job: JobKey) -> Vec<RankClass> {
        let _ = job;
        Vec::new()
    }

    /// Sends a signal to every rank of a job; one that is stopped acts on it when
    /// it is resumed (SIGKILL: at once).
    fn signal(&self, job: JobKey, signal: i32);

    /// These jobs may go on for `term` from now. One of which this is not said again in time is ended
    /// without the node manager, which may be stopped by then: [`HostEvent::LeaseOver`] tells of it, also
    /// where this is said too late. Those of which it is never said go on.
    fn renew_leases(&self, jobs: &[JobKey], term: Duration);

    /// Kills every process of a job, stopped or not.
    fn destroy(&self, job: JobKey);

    /// Every rank has ended: kills what they left running.
    fn end(&self, job: JobKey);

    /// Removes the job's directory and forgets the job.
    fn forget(&self, job: JobKey);

    /// The next output of a rank, at most `limit` bytes; `None` when there will
    /// be no more. Nothing is read from the rank while nobody asks.
    fn read_output(
        &self,
        job: JobKey,
        rank: Rank,
        stream: Stream,
        limit: usize,
    ) -> impl Future<Output = Option<Bytes>>;

    /// Waits until the output of all ranks of a launched job is in the files that they share, or cannot
    /// be, for which it says why.
    fn files_written(&self, job: JobKey) -> impl Future<Output = Result<(), String>> {
        let _ = job;
        std::future::ready(Ok(()))
    }

    /// Hands input to a rank, waiting until it is taken. Input to a rank that
    /// does not read any more is lost.
    fn write_input(&self, job: JobKey, rank: Rank, data: Bytes) -> impl Future<Output = ()>;

    /// The rank's input has ended.
    fn close_input(&self, job: JobKey, rank: Rank);

    /// Sends a PMI line, without its newline, to a rank.
    fn pmi_reply(&self, job: JobKey, rank: Rank, line: &str);

    /// Gives a rank that asked over PMI the memory that it shares with the node manager. A modelled
    /// rank never asks.
    fn hand_over(&self, _job: JobKey, _rank: Rank, _segment: &NodeEnd) {}

    /// The rings of a rank's end of such memory, at this end of its bell; several at once are one. A
    /// modelled rank never rings.
    fn rings(&self, _bell: OwnedFd) -> impl futures_util::Stream<Item = ()> {
        futures_util::stream::pending()
    }

    /// Closes the PMI connection of a rank that broke the protocol.
    fn close_pmi(&self, job: JobKey, rank: Rank);

    /// The next thing that happened.
    fn next_event(&self) -> impl Future<Output = HostEvent>;

    /// All jobs are over: ends what serves them and cleans up.
    fn leave(&self) -> impl Future<Output = ()>;
}

/// A job that a former node manager left.
#[derive(Clone, Debug)]
pub struct Inherited {
    /// What that one was told to launch.
    pub task: Rc<JobTask>,
    /// The first run that it could have heard of.
    pub first_run: JobIncarnation,
    /// The job is stopped.
    pub stopped: bool,
    /// What happened on the PMI connections of its ranks, in order.
    pub pmi: Vec<PmiStep>,
    /// Ranks that wait for the answer to a request: the last of theirs that is among `pmi`, or this line.
    pub open_requests: Vec<(Rank, Option<String>)>,
    /// Where the input of its ranks is.
    pub inputs: Vec<InheritedInput>,
    /// Reports of output that may not have reached the Machine Manager, in order.
    pub outputs: Vec<Report>,
    /// Why it cannot go on, if so.
    pub flaw: Option<String>,
}

/// How much input a rank was handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InheritedInput {
    /// The rank.
    pub rank: Rank,
    /// So many bytes.
    pub taken_bytes: u64,
}

/// Something that happened on the PMI connections of a job's ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmiStep {
    /// A rank sent a line.
    Line {
        /// The rank.
        rank: Rank,
        /// The line, without its newline.
        line: String,
    },
    /// A barrier of all ranks of the job was over.
    FenceDone {
        /// Its number.
        sequence: u64,
        /// What the ranks of all nodes had put.
        puts: Vec<(String, String)>,
    },
}

/// What the cache has to say of a file.
#[derive(Debug)]
pub enum Content<S> {
    /// The content is there, checked.
    Present,
    /// It is missing; it may be written here.
    Missing(S),
}

/// News from the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The rank's program executes.
    Launched {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
    },
    /// The rank never executed. Nothing else will be said of it.
    LaunchFailed {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
        /// What failed and why.
        refused: LaunchRefused,
    },
    /// The rank's process ended.
    Exited {
        /// The job.
        job: JobKey,
        /// How it ended, and what it used.
        exit: RankExit,
    },
    /// The kernel killed a process of the job, a rank or a child of one, for too much
    /// memory. The ends of ranks are told besides.
    OverMemory {
        /// The job.
        job: JobKey,
        /// What the job may have on this node, in bytes.
        limit_bytes: u64,
    },
    /// A line that the rank sent over PMI, without its newline.
    Pmi {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
        /// The line.
        line: String,
    },
    /// Some of its ranks are taken for something else than before.
    Classified {
        /// The job.
        job: JobKey,
    },
    /// Its lease has run out ([`Host::renew_leases`]), and its processes are dead or about to be. The
    /// ends of ranks are told besides.
    LeaseOver {
        /// The job.
        job: JobKey,
    },
    /// The node can run no process any more.
    Lost,
}

/// Why a file or a rank has no place here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct LaunchRefused {
    /// What failed and why, without the node's name.
    pub reason: String,
    /// As a shell gives it: 127 where the program does not exist, else 126.
    pub exit_code: u8,
}

impl LaunchRefused {
    /// Exit status of a program that exists and cannot be executed.
    pub const NOT_EXECUTABLE: u8 = 126;
    /// Exit status of a program that does not exist.
    pub const NOT_FOUND: u8 = 127;

    /// A refusal that has nothing to do with the program's existence.
    pub fn because(error: &(dyn std::error::Error + 'static)) -> LaunchRefused {
        let mut reason = crate::reason::explain(error);
        if let Some(limit) =
            crate::reason::descriptor_limit(error).filter(|it| !reason.contains(it))
        {
            reason = format!("{reason} ({limit})");
        }
        LaunchRefused { reason, exit_code: Self::NOT_EXECUTABLE }
    }
}
