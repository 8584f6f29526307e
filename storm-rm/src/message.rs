//! The messages between the daemons: [`Command`]s down, [`Report`]s up.
//!
//! Both travel through remote queues (Algorithms 1 to 3), encoded with postcard. Every variant has
//! a row in `docs/protocol.md`.

pub use crate::clients_address::ClientsAddress;
pub use crate::exit_status::ExitStatus;
pub use crate::held_job::{CutLaunch, HeldJob};
pub use crate::node_info::{NodeInfo, NodeReturn, NodeStatus};
pub use crate::node_ranks::NodeRanks;
pub use crate::strobe::{Slices, Strobe};
use crate::{
    ArrayTask, Channel, ContentSum, Coscheduling, FileSpec, Generation, JobId, JobIncarnation,
    JobSlot, JobSpec, LaunchFacts, Owner, PartitionId, Rank, RankClass, RankMap, Row, RowSet,
    StepRef,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use storm_primitives::{NodeId, NodeSet};

/// One heartbeat (Algorithm 4): the Machine Manager's commands at this instant, each with the nodes
/// that it is for. The encoding is in [`heartbeat`].
///
/// [`heartbeat`]: crate::heartbeat
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Counts the heartbeats of one Machine Manager, from 1.
    pub number: u64,
    /// The Machine Manager's clock when it was issued, in nanoseconds.
    pub issued_ns: u64,
    /// The commands; a node skips those for other nodes.
    pub commands: Vec<(NodeSet, Command)>,
}

/// An order of the Machine Manager (paper, Algorithm 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// RECEIVE-FILE-INFO: a file will arrive through `channel`, or is there already.
    ReceiveFile(ReceiveFile),
    /// LAUNCH-JOB: start this node's ranks.
    LaunchJob(Rc<LaunchJob>),
    /// SCHEDULE-PROCESS: the strobe. The jobs of its row run, the others of the partition stop.
    Strobe(Strobe),
    /// A strobe, and the slices after it that nodes begin by their own clocks.
    Slices(Slices),
    /// From now on the job runs in these rows.
    SetRows {
        /// The job.
        job: JobId,
        /// Its rows.
        rows: RowSet,
    },
    /// From now on another mechanism makes the job's ranks run together, since its partition has
    /// another policy.
    Coschedule {
        /// The job.
        job: JobId,
        /// The mechanism that makes its ranks run together.
        coscheduling: Coscheduling,
    },
    /// Sends a signal to every rank; a stopped job is resumed to receive it.
    SignalJob {
        /// The step.
        step: StepRef,
        /// Signal number.
        signal: i32,
    },
    /// Sends a signal to the process of the batch script alone. The processes that it started get
    /// none; a stopped job is resumed to receive it.
    SignalScript {
        /// The step.
        step: StepRef,
        /// Signal number.
        signal: i32,
    },
    /// Kills every process of the job, in whatever state.
    DestroyJob {
        /// The step.
        step: StepRef,
    },
    /// The job is over on all nodes: its directory and state can be removed.
    ReleaseJob {
        /// The step.
        step: StepRef,
    },
    /// Standard input for the ranks that read it.
    Input {
        /// The step.
        step: StepRef,
        /// Bytes; empty at end of file.
        data: Bytes,
        /// Whether this is the end of the input.
        eof: bool,
    },
    /// Input that the node was sent before its Node Manager ended, which may not have reached all
    /// of the ranks.
    InputAgain {
        /// The step.
        step: StepRef,
        /// Where in the job's input the data begin.
        offset: u64,
        /// Bytes; empty at end of file.
        data: Bytes,
        /// Nothing follows.
        eof: bool,
    },
    /// The attached client is behind: stop reading the output of the job's ranks, or continue.
    /// Nothing is lost, since the ranks block when their pipes are full.
    HoldOutput {
        /// The step.
        step: StepRef,
        /// Stop, or continue.
        hold: bool,
    },
    /// Every rank of the job is in the PMI barrier; these pairs were put.
    FenceDone {
        /// The step.
        step: StepRef,
        /// Counts the job's fences, from 1.
        sequence: u64,
        /// All pairs put since the last fence, in order of node.
        puts: Vec<(String, String)>,
    },
    /// The cluster shuts down: end all jobs and leave.
    Shutdown,
    /// The answer to [`Report::Joined`]: these jobs continue under this Machine Manager. The node
    /// kills and forgets all other jobs that it holds.
    Resume {
        /// The jobs.
        jobs: Vec<ResumedJob>,
        /// The next run of a job has this number or a higher one.
        next_run: JobIncarnation,
        /// Where users of the node's host reach the manager; `None` if it lets in no users of other
        /// hosts.
        clients: Option<ClientsAddress>,
    },
    /// The other answer to [`Report::Joined`]: the configuration has more processing elements than
    /// the node offers, so the node leaves.
    RefuseNode {
        /// Processing elements of the node in the configuration.
        configured_pes: u32,
    },
    /// The answer to [`Report::Leaving`]: no slice of these runs is under way on any node, and none
    /// begins before the next Node Manager of the node has sent [`Report::SlicesBack`].
    HandOver {
        /// The runs with a part on the node that communicate in slices.
        runs: Vec<HeldJob>,
    },
}

/// A job that continues under another Machine Manager than the Machine Manager that launched it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumedJob {
    /// The step.
    pub step: StepRef,
    /// Which run of it.
    pub incarnation: JobIncarnation,
    /// Where its flags lie in global memory from now on.
    pub slot: JobSlot,
    /// The partition whose strobes schedule the job.
    pub partition: PartitionId,
    /// The rows it runs in.
    pub rows: RowSet,
    /// The row active now.
    pub active_row: Row,
    /// The mechanism that makes its ranks run together.
    pub coscheduling: Coscheduling,
    /// Whether to hold its output, since its client may reconnect.
    pub hold_output: bool,
}

/// The announcement of a file (paper, Algorithm 5, RECEIVE-FILE-INFO).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveFile {
    /// The chunk queue that carries it.
    pub channel: Channel,
    /// The use of the channel.
    pub generation: Generation,
    /// The file.
    pub file: FileSpec,
    /// The user whose cache it belongs to.
    pub owner: Owner,
    /// Bytes per chunk; the last may be shorter.
    pub chunk_bytes: u32,
    /// The content's checksum, if the sender has verified the content's hash. Without it, the nodes
    /// verify the hash.
    pub sum: Option<ContentSum>,
}

/// The start of a job (paper, Algorithm 5, LAUNCH-JOB).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchJob {
    /// The step.
    pub step: StepRef,
    /// Which run of it.
    pub incarnation: JobIncarnation,
    /// Which run of the job has the place. The first step has the same number.
    pub place: JobIncarnation,
    /// Where its flags lie in global memory.
    pub slot: JobSlot,
    /// Which job of an array it is.
    pub task: Option<ArrayTask>,
    /// The specification of the job.
    pub spec: Rc<JobSpec>,
    /// The processes for which every node has room; [`step_ranks`](Self::step_ranks) start.
    pub ranks: RankMap,
    /// The partition whose strobes schedule the job.
    pub partition: PartitionId,
    /// The rows it runs in.
    pub rows: RowSet,
    /// The row active now: a job of another row starts stopped.
    pub active_row: Row,
    /// The mechanism that makes its ranks run together.
    pub coscheduling: Coscheduling,
    /// The node that announces the end of its ranks at once (Algorithm 9).
    pub announcer: NodeId,
    /// The folded node list, for messages and for `STORM_NODELIST`.
    pub node_list: String,
    /// Whether the nodes move its ranks' messages, in slices (buffered coscheduling).
    pub buffered: bool,
    /// Whether to hold its output, since its client may reconnect.
    pub hold_output: bool,
    /// The facts that its processes learn about it.
    pub facts: LaunchFacts,
}

/// A report from a Node Manager. Several reports travel in one item of its queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The first report after joining.
    Joined(NodeInfo),
    /// A file could not be received or put in its place.
    FileFailed {
        /// The channel of the transfer.
        channel: Channel,
        /// The use of the channel.
        generation: Generation,
        /// The failure and its reason, for the user.
        reason: String,
    },
    /// Some rank could not be started.
    LaunchFailed {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
        /// The rank.
        rank: Rank,
        /// The failure and its reason, for the user.
        reason: String,
        /// Exit status for the job, as a shell would give: 126 or 127.
        exit_code: u8,
    },
    /// Output of a rank, for the attached client.
    Output {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
        /// The rank.
        rank: Rank,
        /// Which stream.
        stream: Stream,
        /// Where in the stream the data begins. A node that continues after its Node Manager ended
        /// may repeat output of the former Node Manager.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// All ranks of the job on this node have ended (Algorithm 9).
    Terminated {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
        /// How each ended.
        ranks: Vec<RankExit>,
    },
    /// All ranks of this node are in the PMI barrier.
    Fence {
        /// The step.
        step: StepRef,
        /// Counts the job's fences, from 1.
        sequence: u64,
        /// Pairs put on this node since the last fence.
        puts: Vec<(String, String)>,
    },
    /// A rank called abort: the whole job ends with this code.
    Aborted {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
        /// The rank.
        rank: Rank,
        /// The exit code that it requested.
        exit_code: i32,
    },
    /// A rank ended abnormally while others still run.
    RankFailed {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
        /// How it ended.
        exit: RankExit,
        /// Whether it had joined its peers through PMI and did not finalize, so that they may wait
        /// for it.
        joined: bool,
    },
    /// The load of the node, at intervals.
    Status(NodeStatus),
    /// The node cannot continue its part of the job, and kills it: the ranks of other nodes would
    /// wait for it.
    JobFailed {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
        /// Why, for the user.
        reason: String,
    },
    /// A process of the job took more memory than the job has on the node. The node kills its part
    /// of the job.
    OverMemory {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
        /// The node and the limit, for the user.
        reason: String,
    },
    /// Every rank of the node that reads input has taken `taken_bytes`, or has ended and needs no
    /// more ([`input_flow`](crate::input_flow)).
    InputTaken {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
        /// Bytes since the beginning.
        taken_bytes: u64,
    },
    /// The keeper and the processes of all jobs on the node are dead. The node is about to leave,
    /// and reports no end of any of them.
    ProcessesLost,
    /// A rank that used PMI ended without having finalized: no barrier of the job can open any
    /// more. Sent once per node.
    RankLeft {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
        /// The rank.
        rank: Rank,
    },
    /// The runs that a node holds. It is sent before [`Report::Joined`] by a node that was cut off
    /// or lost its Machine Manager, and has kept its jobs. The list is sent in pieces; a single
    /// empty piece means that the node holds nothing. A node that sends no piece has begun anew.
    Holds {
        /// Runs of jobs with ranks that run here, or whose end was not acknowledged.
        jobs: Vec<HeldJob>,
        /// The first run that this Node Manager can have received, if a manager has sent it this
        /// number. Runs that former Node Managers of the node received do not count.
        first_run: Option<JobIncarnation>,
    },
    /// All ranks of the announcer execute. Before this report, a launch causes no traffic.
    Started {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
    },
    /// The classes of the job's ranks under flexible coscheduling.
    Classes {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
        /// Each rank of the node that has not ended.
        ranks: Vec<RankClass>,
    },
    /// The Node Manager stood still for so long that its keeper ended the node's ranks of the job.
    /// Otherwise the job could have been running elsewhere at the same time. No other report of
    /// their end follows.
    LeaseOver {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
    },
    /// The node holds a part of the job that its former Node Manager did not leave whole, and kills
    /// it. If the job's ranks never all executed, the job can be launched again.
    LaunchCut {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
        /// The defect of the part.
        cut: CutLaunch,
    },
    /// A piece of a report that is longer than an item of the node's queue. The pieces of a report
    /// follow each other without another report in between.
    Part {
        /// The piece of the encoded report.
        bytes: Bytes,
        /// No piece follows.
        last: bool,
    },
    /// A rank of the node has requested the memory by which the node moves its messages in slices.
    /// From now on the job ends with a Node Manager that does not hand it over. Sent once per node.
    InSlices {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
    },
    /// The Node Manager was asked to end, and moves messages of jobs in slices. It waits a while
    /// for [`Command::HandOver`].
    Leaving,
    /// This Node Manager has the state that the former one handed over, and can continue the job's
    /// slices. Sent before [`Report::Joined`].
    SlicesBack {
        /// The step.
        step: StepRef,
        /// Which run of it.
        incarnation: JobIncarnation,
    },
}

/// The longest report, all its parts together: the Machine Manager keeps at most this much for a
/// node. The ends of 1,024 ranks are 43 KiB, and 1,024 ranks may put 4 KiB each before a PMI
/// barrier.
pub const MAX_REPORT_BYTES: usize = 4 << 20;

/// A stream of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a rank ended and what it used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankExit {
    /// The rank.
    pub rank: Rank,
    /// How it ended.
    pub status: ExitStatus,
    /// User CPU time in microseconds.
    pub user_us: u64,
    /// System CPU time in microseconds.
    pub system_us: u64,
    /// Largest resident set in KiB.
    pub max_rss_kib: u64,
}
