//! The server's answers, and the events of a job that a client follows.

use super::{
    ApiError, ClusterStatus, Explanation, ForgottenJobs, JobDetail, JobState, JobView,
    LaunchBreakdown, NodeView, PartitionView, PriorityView, Prospect, ReservationView, ShareView,
    base64_bytes,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use storm_rm::message::Stream;
use storm_rm::{ContentHash, JobId, JobIncarnation, Rank};

/// An answer or an event: each variant is the `reply` of one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The request was carried out.
    Ok,
    /// The request failed.
    Error {
        /// Why.
        error: ApiError,
    },
    /// Send these files, then wait.
    NeedFiles {
        /// Their hashes.
        hashes: Vec<ContentHash>,
    },
    /// The job is in the journal: it will not be forgotten.
    Submitted {
        /// Its number.
        job: JobId,
    },
    /// The fate of a job that is not submitted.
    Prospect {
        /// The prospect.
        prospect: Prospect,
    },
    /// The events of the job follow.
    Attached {
        /// The job.
        job: JobId,
        /// Its state now.
        state: JobState,
        /// Its latest run; 0 if it never started.
        #[serde(default)]
        run: JobIncarnation,
        /// Whether nodes of it are away and may rejoin, so that output of its ranks is delayed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        away: bool,
    },
    /// A listing, or a part of it.
    Jobs {
        /// The jobs.
        jobs: Vec<JobView>,
        /// Whether another line continues the listing. For a wait: whether jobs are left that have
        /// not ended.
        #[serde(default)]
        more: bool,
    },
    /// To a client that waits, before the first listing: the jobs about which no record is left.
    Forgotten {
        /// One entry per array.
        arrays: Vec<ForgottenJobs>,
    },
    /// One job.
    Job {
        /// The job.
        job: Box<JobDetail>,
    },
    /// The script of a job.
    Script {
        /// The job.
        job: JobId,
        /// The name of its file.
        name: String,
        /// Its bytes, at most [`MAX_SCRIPT_BYTES`](super::MAX_SCRIPT_BYTES).
        #[serde(with = "base64_bytes", default)]
        data: Bytes,
    },
    /// Why a job does not run.
    Explanation {
        /// The explanation.
        explanation: Box<Explanation>,
    },
    /// The outcome for each job that was to be ended.
    Cancelled {
        /// One entry per requested job, in order.
        jobs: Vec<CancelOutcome>,
    },
    /// The outcome for each job that was to be held or released.
    Altered {
        /// One entry per requested job, in order.
        jobs: Vec<CancelOutcome>,
    },
    /// The nodes.
    Nodes {
        /// In order of their number.
        nodes: Vec<NodeView>,
    },
    /// The partitions.
    Partitions {
        /// In order of the configuration.
        partitions: Vec<PartitionView>,
    },
    /// The reservations.
    Reservations {
        /// In the order in which they begin.
        reservations: Vec<ReservationView>,
    },
    /// The priorities of jobs that wait, the highest first.
    Priorities {
        /// The jobs.
        jobs: Vec<PriorityView>,
        /// How many jobs of lower priorities are left out.
        #[serde(default)]
        left: u32,
    },
    /// The accounts and their users.
    Shares {
        /// The tree, each account before its members.
        shares: Vec<ShareView>,
    },
    /// The cluster.
    Status {
        /// Its state.
        status: Box<ClusterStatus>,
    },
    /// Event: a step has its elements, or waits for them. Its state, its output and its end follow
    /// under the same number of a request, as those of a job do.
    Step {
        /// The job.
        job: JobId,
        /// The number of the step; absent while it waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<u32>,
        /// The nodes of the step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_list: Option<String>,
        /// Why it waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Event: the job entered a state.
    State {
        /// The job.
        job: JobId,
        /// The state.
        state: JobState,
        /// Its latest run; 0 if it never started.
        #[serde(default)]
        run: JobIncarnation,
        /// Whether nodes of it are away and may rejoin, so that output of its ranks is delayed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        away: bool,
        /// The reason, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Where it runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node_list: Option<String>,
    },
    /// Event: a rank wrote.
    Output {
        /// The job.
        job: JobId,
        /// Which run of it; 0 if the manager does not report it.
        #[serde(default)]
        run: JobIncarnation,
        /// The rank.
        rank: Rank,
        /// The stream that it wrote to.
        stream: Stream,
        /// Where in the stream the data begins. After a restart of a manager and a node, the client
        /// may receive data again that it already has.
        #[serde(default)]
        offset: u64,
        /// The bytes.
        #[serde(with = "base64_bytes")]
        data: Bytes,
    },
    /// Event: the job is over. The last one.
    Ended {
        /// The job.
        job: JobId,
        /// How it ended.
        state: JobState,
        /// Highest status of its ranks as a shell gives it.
        exit_code: u8,
        /// The reason, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// How long each part of its launch took; absent if it never started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        breakdown: Option<LaunchBreakdown>,
    },
}

impl Reply {
    /// The space that the reply takes in a client's buffer, roughly, in bytes.
    pub(super) fn weight_bytes(&self) -> usize {
        const LINE: usize = 256;
        match self {
            Reply::Output { data, .. } | Reply::Script { data, .. } => LINE + data.len() * 4 / 3,
            Reply::Jobs { jobs, .. } => {
                LINE + jobs.iter().map(JobView::weight_bytes).sum::<usize>()
            }
            Reply::Forgotten { arrays } => LINE * (1 + arrays.len()),
            Reply::Priorities { jobs, .. } => LINE * (1 + jobs.len()),
            Reply::Shares { shares } => LINE * (1 + shares.len()),
            Reply::Cancelled { jobs } | Reply::Altered { jobs } => LINE * (1 + jobs.len()),
            Reply::Nodes { nodes } => LINE * (1 + nodes.len()),
            Reply::Reservations { reservations } => {
                let lines = |view: &ReservationView| 1 + view.users.len();
                LINE * (1 + reservations.iter().map(lines).sum::<usize>())
            }
            Reply::Job { job } => {
                let steps = 2 * job.view.steps.len();
                LINE * (4 + job.ranks.len() + job.log.len() + steps)
            }
            Reply::Error { error } => LINE + error.text_bytes(),
            Reply::Explanation { explanation } => {
                let Explanation { details, held_by, reserved, .. } = &**explanation;
                LINE * (1 + details.len() + held_by.len() + reserved.len())
            }
            Reply::Ok
            | Reply::NeedFiles { .. }
            | Reply::Submitted { .. }
            | Reply::Prospect { .. }
            | Reply::Attached { .. }
            | Reply::Step { .. }
            | Reply::Partitions { .. }
            | Reply::Status { .. }
            | Reply::State { .. }
            | Reply::Ended { .. } => LINE,
        }
    }
}

/// The outcome of the request to end, hold or release one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelOutcome {
    /// The job.
    pub job: JobId,
    /// Why the request failed; absent if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
}

/// A reply with the number of the request that it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplyLine {
    /// The number of the request; 0 for a reply that answers no single request.
    #[serde(default)]
    pub id: u64,
    /// The reply.
    #[serde(flatten)]
    pub reply: Reply,
}
