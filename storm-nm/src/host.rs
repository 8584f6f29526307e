//! Everything on a node outside the network, as the node manager sees it.
//!
//! A method that must be quick or keep its order returns at once, and its outcome is a
//! [`HostEvent`]. A method that may take time is a future.

use crate::{JobKey, JobTask, SwitchAhead, SwitchDone};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;
use storm_mpi::segment::NodeEnd;
use storm_primitives::{Instant, NodeId};
use storm_rm::file_transfer::ChunkSink;
use storm_rm::message::{
    ClientsAddress, CutLaunch, NodeInfo, NodeStatus, RankExit, ReceiveFile, Report, Stream, Strobe,
};
use storm_rm::{Coscheduling, FileSpec, Owner, Rank, RankClass, RowSet, StepRef};
use thiserror::Error;

/// The processes of a job that a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The ranks and the processes of their process groups.
    All,
    /// The process of the batch script.
    Script,
}

/// The node of one node manager.
pub trait Host: 'static {
    /// A file of the cache while its content arrives.
    type Sink: ChunkSink;

    /// The node's description of itself when it joins.
    fn info(&self, node: NodeId) -> NodeInfo;

    /// The name of the node in the cluster's configuration, for people.
    fn name(&self, node: NodeId) -> String {
        node.to_string()
    }

    /// The node's present load.
    fn status(&self) -> NodeStatus;

    /// Receives, at each join, the address where users of other hosts reach the Machine Manager.
    fn clients_connect_at(&self, clients: Option<ClientsAddress>) {
        let _ = clients;
    }

    /// Whether somebody on the host has requested the end of the node manager. If so, the node
    /// manager does not search for another link when its link is closed.
    fn is_asked_to_end(&self) -> bool {
        false
    }

    /// How long jobs continue if this node manager ends; `None` if they end with it, or somebody
    /// wants them to.
    fn keeps_jobs(&self) -> Option<Duration> {
        None
    }

    /// The jobs that a former node manager of this node left running. Called once, before any other
    /// method.
    fn inherit(&self) -> Vec<Inherited> {
        Vec::new()
    }

    /// Remembers that the ranks of the job leave a PMI barrier with these pairs.
    fn remember_fence(&self, step: StepRef, sequence: u64, puts: &[(String, String)]) {
        let _ = (step, sequence, puts);
    }

    /// Number of bytes of a stream that former node managers read.
    fn output_offset(&self, job: JobKey, rank: Rank, stream: Stream) -> u64 {
        let _ = (job, rank, stream);
        0
    }

    /// Output of a job that may not have reached the Machine Manager, in the order in which it was
    /// read; `None` if none is kept.
    fn kept_output(&self, job: JobKey) -> Option<Vec<Report>> {
        let _ = job;
        None
    }

    /// Prepares for the end of this node manager, which leaves its jobs to the next node manager.
    fn detach(&self) {}

    /// Searches the owner's part of the cache for content. If the content is missing, makes room
    /// and a file for the content. Content that is found stays for a while, so that its job finds
    /// the content.
    ///
    /// # Errors
    /// There is neither the content nor room for it.
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

    /// Prepares the start of a job: its directory with its files, and the processes that will
    /// become its ranks.
    ///
    /// # Errors
    /// [`LaunchRefused`]. Nothing is left behind.
    fn prepare(&self, task: &Rc<JobTask>) -> impl Future<Output = Result<(), LaunchRefused>>;

    /// Starts the ranks of a prepared job. An event for each reports how its start went. With
    /// `stopped`, they execute nothing until the job is resumed.
    fn launch(&self, task: &Rc<JobTask>, stopped: bool);

    /// The time that a modelled node needs to take up a heartbeat. A live node needs its real time
    /// anyway.
    fn attend(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// The context switch: stops jobs, then resumes jobs. Returns at once. Jobs that are unknown or
    /// over are skipped. Problems are logged. `strobe` is the strobe that ordered it, if any.
    fn switch(&self, strobe: Option<&Strobe>, stop: &[JobKey], resume: &[JobKey]);

    /// Orders future switches, in order of time, and withdraws earlier orders. When a switch is
    /// due, the host does it like [`switch`](Host::switch), without the node manager. Several late
    /// switches become one. `now` is the time by the node manager's clock. Returns false if the
    /// host cannot do so and nothing is ordered.
    fn switch_ahead(&self, now: Instant, plan: Vec<SwitchAhead>) -> bool;

    /// Withdraws ordered switches that are not done. Returns the switches done since the last call,
    /// in order. No ordered switch is done after the return.
    fn withdraw_ahead(&self) -> Vec<SwitchDone>;

    /// Notes the rows of the job from now on. Stops and resumes nothing.
    fn set_rows(&self, job: JobKey, rows: RowSet);

    /// Changes how the ranks of the job are coscheduled; the initial way is in their task. Does
    /// nothing if only operating systems coschedule.
    fn coschedule(&self, job: JobKey, coscheduling: Coscheduling) {
        let _ = (job, coscheduling);
    }

    /// The classes of a job's ranks here, under flexible coscheduling. [`HostEvent::Classified`]
    /// reports when to call this method.
    fn classes(&self, job: JobKey) -> Vec<RankClass> {
        let _ = job;
        Vec::new()
    }

    /// Sends a signal to ranks of a job. A stopped rank acts on it when it is resumed, and on
    /// SIGKILL at once.
    fn signal(&self, job: JobKey, signal: i32, whom: Whom);

    /// Lets these jobs continue for `term` from now. A job whose lease is not renewed in time is
    /// ended without the node manager, which may be stopped by then. [`HostEvent::LeaseOver`]
    /// reports the end of the lease, even if a renewal arrives too late. Jobs without a lease
    /// continue.
    fn renew_leases(&self, jobs: &[JobKey], term: Duration);

    /// Kills every process of a job, stopped or not.
    fn destroy(&self, job: JobKey);

    /// Kills processes that the ranks left behind, after every rank has ended.
    fn end(&self, job: JobKey);

    /// Removes the job's directory and forgets the job.
    fn forget(&self, job: JobKey);

    /// The next output of a rank, at most `limit` bytes; `None` if there will be no more. The
    /// rank's pipe is read only when this is called.
    fn read_output(
        &self,
        job: JobKey,
        rank: Rank,
        stream: Stream,
        limit: usize,
    ) -> impl Future<Output = Option<Bytes>>;

    /// Waits until the output of all ranks of a launched job is in the files that they share. If
    /// the output cannot be written, returns the reason, for the user.
    fn files_written(&self, job: JobKey) -> impl Future<Output = Result<(), String>> {
        let _ = job;
        std::future::ready(Ok(()))
    }

    /// Hands input to a rank, and waits until it is taken. Input to a rank that reads no more is
    /// lost.
    fn write_input(&self, job: JobKey, rank: Rank, data: Bytes) -> impl Future<Output = ()>;

    /// Ends the rank's input.
    fn close_input(&self, job: JobKey, rank: Rank);

    /// Sends a PMI line, without its newline, to a rank.
    fn pmi_reply(&self, job: JobKey, rank: Rank, line: &str);

    /// Gives a rank that requested it over PMI the memory that the rank shares with the node
    /// manager. A modelled rank never requests it.
    fn hand_over(&self, _job: JobKey, _rank: Rank, _segment: &NodeEnd) {}

    /// Notes that the job ends with this node manager, which holds the messages of its ranks. A
    /// modelled rank has none.
    fn ends_with_manager(&self, _job: JobKey) {}

    /// Leaves the state of the job's slices to the next node manager, with the segments of its
    /// ranks. After this the job continues without this node manager.
    ///
    /// # Errors
    /// The keeper cannot be given all of it.
    fn leave_slices(
        &self,
        _job: JobKey,
        _saved: &[u8],
        _segments: &[(Rank, &NodeEnd)],
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether the keeper has been given everything that was left of the job.
    fn is_left(&self, _job: JobKey) -> bool {
        true
    }

    /// Completes when somebody on the host requests the end of this node manager alone, and waits
    /// for [`may_leave`](Self::may_leave).
    fn asked_to_leave(&self) -> impl Future<Output = ()> {
        std::future::pending()
    }

    /// The link may be closed now.
    fn may_leave(&self) {}

    /// The rings of a rank at its end of that memory's bell; several rings at once are one. A
    /// modelled rank never rings.
    fn rings(&self, _bell: OwnedFd) -> impl futures_util::Stream<Item = ()> {
        futures_util::stream::pending()
    }

    /// Closes the PMI connection of a rank that broke the protocol.
    fn close_pmi(&self, job: JobKey, rank: Rank);

    /// The next event.
    fn next_event(&self) -> impl Future<Output = HostEvent>;

    /// Ends the helpers of jobs and cleans up, after all jobs are over.
    fn leave(&self) -> impl Future<Output = ()>;
}

/// The state of a job's slices that a former node manager handed over.
#[derive(Debug)]
pub struct SlicesLeft {
    /// The state.
    pub saved: Vec<u8>,
    /// The segments of its ranks.
    pub segments: BTreeMap<storm_mpi::Rank, NodeEnd>,
}

/// A job that a former node manager left.
#[derive(Debug)]
pub struct Inherited {
    /// The task of its launch.
    pub task: Rc<JobTask>,
    /// Whether the job is stopped.
    pub stopped: bool,
    /// The events on the PMI connections of its ranks, in order.
    pub pmi: Vec<PmiStep>,
    /// Ranks that wait for the answer to a request: their last request in `pmi`, or this line.
    pub open_requests: Vec<(Rank, Option<String>)>,
    /// The positions in the input of its ranks.
    pub inputs: Vec<InheritedInput>,
    /// Reports of output that may not have reached the Machine Manager, in order.
    pub outputs: Vec<Report>,
    /// The state of its slices, if the former node manager handed it over.
    pub slices: Option<SlicesLeft>,
    /// Why the job cannot continue; `None` if it can.
    pub flaw: Option<Flaw>,
}

/// Why a job that a former node manager left cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Not all its ranks here were started and made known to the keeper.
    LaunchCut(CutLaunch),
    /// Another reason, for the user.
    Unserviceable(String),
}

/// How much input a rank was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InheritedInput {
    /// The rank.
    pub rank: Rank,
    /// Number of bytes.
    pub taken_bytes: u64,
}

/// An event on the PMI connections of a job's ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PmiStep {
    /// A rank sent a line.
    Line {
        /// The rank.
        rank: Rank,
        /// The line, without its newline.
        line: String,
    },
    /// A barrier of all ranks of the job ended.
    FenceDone {
        /// Its number.
        sequence: u64,
        /// The pairs that the ranks of all nodes had put.
        puts: Vec<(String, String)>,
    },
}

/// The cache's answer about a file.
#[derive(Debug)]
pub enum Content<S> {
    /// The content is there, and was checked.
    Present,
    /// The content is missing, and may be written here.
    Missing(S),
}

/// An event of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The rank's program executes.
    Launched {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
    },
    /// The rank never executed. There are no further events about it.
    LaunchFailed {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
        /// The error and its cause.
        refused: LaunchRefused,
    },
    /// The rank's process ended.
    Exited {
        /// The job.
        job: JobKey,
        /// Its exit status, and the resources that it used.
        exit: RankExit,
    },
    /// The kernel killed a process of the job, a rank or a child of a rank, for too much memory.
    /// The ends of ranks are reported as well.
    OverMemory {
        /// The job.
        job: JobKey,
        /// The job's memory limit on this node, in bytes.
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
    /// The class of some of its ranks has changed.
    Classified {
        /// The job.
        job: JobKey,
    },
    /// The job's lease has run out ([`Host::renew_leases`]), and its processes are dead or about to
    /// be. The ends of ranks are reported as well.
    LeaseOver {
        /// The job.
        job: JobKey,
    },
    /// The node can run no processes any more.
    Lost,
}

/// Why a file or a rank cannot be placed here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct LaunchRefused {
    /// The error and its cause, without the node's name.
    pub reason: String,
    /// A shell's exit status: 127 if the program does not exist, else 126.
    pub exit_code: u8,
}

impl LaunchRefused {
    /// Exit status of a program that exists and cannot be executed.
    pub const NOT_EXECUTABLE: u8 = 126;
    /// Exit status of a program that does not exist.
    pub const NOT_FOUND: u8 = 127;

    /// A refusal for a reason other than a missing program.
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
