//! The requests that a client may make.

use super::{
    ApiError, ErrorCode, JobChange, JobState, Part, ReservationRequest, Service, base64_bytes,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use storm_rm::{
    ContentHash, JobId, JobIncarnation, JobSpec, StepAsk, StepLayout, StepSize, StepSpec,
};

/// A request to the manager's core: each variant is the `request` of one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ManagerRequest {
    /// Run this job. Answered [`Submitted`](super::Reply::Submitted). When the core sees the
    /// request, all its files are in the spool.
    Submit {
        /// The job; its `owner` is replaced by the peer.
        spec: Box<JobSpec>,
        /// Whether its events follow until it has ended.
        #[serde(default)]
        attach: bool,
        /// The account that is charged, and the job's urgency.
        #[serde(default)]
        service: Service,
        /// The name of the reservation whose nodes the job waits for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reservation: Option<String>,
    },
    /// Tell what would become of this job, without its submission.
    TryOut {
        /// The job, as in `submit`.
        spec: Box<JobSpec>,
        /// The account that would be charged, and the job's urgency.
        #[serde(default)]
        service: Service,
        /// The name of the reservation whose nodes the job would wait for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reservation: Option<String>,
    },
    /// Follow a job: answered [`Attached`](super::Reply::Attached); then its events follow until it
    /// has ended.
    Attach {
        /// The job.
        job: JobId,
    },
    /// Wait for jobs to end. Answered [`Jobs`](super::Reply::Jobs) as jobs end; the last answer has
    /// `more` false.
    Wait {
        /// The jobs; the number of an array stands for all of its jobs.
        jobs: Vec<JobId>,
    },
    /// Run a step in the place of a job. Answered [`Step`](super::Reply::Step) when it has its
    /// elements, and before if it must wait for them. Then its events follow until it has ended.
    /// The step ends if its client leaves. For the job's owner.
    RunStep {
        /// The job.
        job: JobId,
        /// The run of the job.
        run: JobIncarnation,
        /// A random number. The same number again attaches to the step that it made before.
        ask: StepAsk,
        /// The elements and the memory that the step needs.
        size: StepSize,
        /// The nodes of the place on which it may run.
        #[serde(default)]
        layout: StepLayout,
        /// The program and its surroundings.
        spec: Box<StepSpec>,
    },
    /// End a step. Answered `ok`, also if it is over.
    EndStep {
        /// The job.
        job: JobId,
        /// The number by which the step was asked for.
        ask: StepAsk,
    },
    /// Standard input for the job. The `ok` is sent when there is room for more.
    Input {
        /// The job.
        job: JobId,
        /// The bytes.
        #[serde(with = "base64_bytes", default)]
        data: Bytes,
        /// Whether this is the end of the input.
        #[serde(default)]
        eof: bool,
        /// Where the bytes begin in the input of this run, if they were sent before. A manager that
        /// ended may not have passed them on. Bytes that have arrived are not taken twice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resent_from: Option<u64>,
        /// The step whose input it is, by the number by which it was asked for; the first step when
        /// it is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ask: Option<StepAsk>,
    },
    /// The jobs that the manager has in memory.
    Jobs(JobFilter),
    /// Everything about one job.
    Show {
        /// The job.
        job: JobId,
    },
    /// The text of the job's script. For its owner and for administrators.
    Script {
        /// The job.
        job: JobId,
    },
    /// Why the job does not run.
    Explain {
        /// The job.
        job: JobId,
    },
    /// End jobs, or send them a signal.
    Cancel {
        /// The jobs.
        jobs: Vec<JobId>,
        /// Send this signal to every process instead of ending the job.
        #[serde(default)]
        signal: Option<i32>,
        /// Only the jobs that are in one of these states by then; all that have not ended, if
        /// empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        states: Vec<JobState>,
    },
    /// Keep jobs that wait from starting, until they are released.
    Hold {
        /// The jobs.
        jobs: Vec<JobId>,
    },
    /// Release held jobs.
    Release {
        /// The jobs.
        jobs: Vec<JobId>,
    },
    /// Have running jobs wait again.
    Requeue {
        /// The jobs.
        jobs: Vec<JobId>,
        /// Until they are released.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hold: bool,
    },
    /// Stop the processes of running jobs. For administrators.
    Suspend {
        /// The jobs.
        jobs: Vec<JobId>,
    },
    /// Let the processes of suspended jobs continue. For administrators.
    ResumeJobs {
        /// The jobs.
        jobs: Vec<JobId>,
    },
    /// Change jobs that have not ended.
    Update {
        /// The jobs.
        jobs: Vec<JobId>,
        /// The changes.
        change: JobChange,
    },
    /// The nodes.
    Nodes,
    /// Have nodes take no further jobs. For administrators.
    Drain {
        /// The nodes, folded: `n[1-4]`.
        nodes: String,
        /// Why, for people.
        reason: String,
    },
    /// Have drained nodes take jobs again. For administrators.
    Resume {
        /// The nodes, folded.
        nodes: String,
    },
    /// The partitions.
    Partitions,
    /// Change a partition at run time. For administrators.
    SetPartition {
        /// Its name.
        partition: String,
        /// The new policy.
        #[serde(default)]
        sched: Option<String>,
        /// The new length of its slices, in microseconds.
        #[serde(default)]
        quantum_us: Option<u64>,
    },
    /// Give a partition its configured settings back. For administrators.
    ResetPartition {
        /// Its name.
        partition: String,
        /// Reset its policy.
        #[serde(default)]
        sched: bool,
        /// Reset its quantum.
        #[serde(default)]
        quantum: bool,
    },
    /// The reservations that are not over.
    Reservations,
    /// Reserve nodes. For administrators; answered [`Reservations`](super::Reply::Reservations)
    /// with the new reservation.
    Reserve(ReservationRequest),
    /// Delete a reservation. For administrators.
    Unreserve {
        /// Its name.
        name: String,
    },
    /// Jobs that have ended, the latest first.
    History(HistoryQuery),
    /// The priorities of jobs that wait.
    Priority {
        /// The jobs; all jobs when the list is empty.
        #[serde(default)]
        jobs: Vec<JobId>,
    },
    /// The accounts and their users, with their shares and their usage.
    Shares,
    /// The cluster as a whole.
    Status,
    /// End all jobs and the cluster. For the manager's own user and root.
    Shutdown,
}

impl ManagerRequest {
    /// The name of every request, for messages.
    pub const NAMES: &[&str] = &[
        "submit",
        "try-out",
        "attach",
        "wait",
        "run-step",
        "end-step",
        "input",
        "jobs",
        "show",
        "script",
        "explain",
        "cancel",
        "hold",
        "release",
        "requeue",
        "suspend",
        "resume-jobs",
        "update",
        "nodes",
        "drain",
        "resume",
        "partitions",
        "set-partition",
        "reset-partition",
        "reservations",
        "reserve",
        "unreserve",
        "history",
        "priority",
        "shares",
        "status",
        "shutdown",
        ContentHeader::NAME,
    ];

    /// The same request with each job named once. A client that repeats an array's number does not
    /// cause the work for the array again.
    pub fn once_each(mut self) -> ManagerRequest {
        if let ManagerRequest::Cancel { jobs, .. }
        | ManagerRequest::Hold { jobs }
        | ManagerRequest::Priority { jobs }
        | ManagerRequest::Release { jobs }
        | ManagerRequest::Requeue { jobs, .. }
        | ManagerRequest::Suspend { jobs }
        | ManagerRequest::ResumeJobs { jobs }
        | ManagerRequest::Update { jobs, .. }
        | ManagerRequest::Wait { jobs } = &mut self
        {
            let mut named = BTreeSet::new();
            jobs.retain(|job| named.insert(*job));
        }
        self
    }

    /// The number of jobs, users and states that the request lists.
    fn named(&self) -> usize {
        match self {
            ManagerRequest::Jobs(filter) => {
                filter.jobs.len() + filter.uids.len() + filter.users.len() + filter.states.len()
            }
            ManagerRequest::History(query) => {
                query.jobs.len() + query.uids.len() + query.users.len()
            }
            ManagerRequest::Cancel { jobs, states, .. } => jobs.len() + states.len(),
            ManagerRequest::Hold { jobs }
            | ManagerRequest::Priority { jobs }
            | ManagerRequest::Release { jobs }
            | ManagerRequest::Requeue { jobs, .. }
            | ManagerRequest::Suspend { jobs }
            | ManagerRequest::ResumeJobs { jobs }
            | ManagerRequest::Update { jobs, .. }
            | ManagerRequest::Wait { jobs } => jobs.len(),
            ManagerRequest::Submit { .. }
            | ManagerRequest::TryOut { .. }
            | ManagerRequest::Attach { .. }
            | ManagerRequest::RunStep { .. }
            | ManagerRequest::EndStep { .. }
            | ManagerRequest::Input { .. }
            | ManagerRequest::Show { .. }
            | ManagerRequest::Script { .. }
            | ManagerRequest::Explain { .. }
            | ManagerRequest::Nodes
            | ManagerRequest::Drain { .. }
            | ManagerRequest::Resume { .. }
            | ManagerRequest::Partitions
            | ManagerRequest::SetPartition { .. }
            | ManagerRequest::ResetPartition { .. }
            | ManagerRequest::Shares
            | ManagerRequest::Reservations
            | ManagerRequest::Reserve(_)
            | ManagerRequest::Unreserve { .. }
            | ManagerRequest::Status
            | ManagerRequest::Shutdown => 0,
        }
    }
}

/// The most jobs or users that one request may name: as many as a shell passes to a command. The
/// answer about an unknown job is a hundred times as long as its number.
pub const MAX_NAMED: usize = 1 << 14;

/// The jobs to list; an empty list is no restriction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobFilter {
    /// Only in these states.
    pub states: Vec<JobState>,
    /// Only of these users, by number; or of those of [`users`](Self::users).
    pub uids: Vec<u32>,
    /// Only of these users, as the manager's host calls them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Only these jobs.
    pub jobs: Vec<JobId>,
    /// Also the jobs that have ended.
    pub history: bool,
    /// With each job's [attributes](super::JobView::attributes).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub attributes: bool,
    /// Only this part; all jobs when it is absent. Set by the server, never by a client.
    #[serde(skip)]
    pub part: Option<Part>,
}

/// The ended jobs to list, the latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryQuery {
    /// Only those that ended in these states; an empty list is no restriction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<JobState>,
    /// Only of these users; an empty list is no restriction, provided that the list of
    /// [`users`](Self::users) is empty too.
    pub uids: Vec<u32>,
    /// Only of these users, as the manager's host calls them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Only these jobs; an empty list is no restriction.
    pub jobs: Vec<JobId>,
    /// At most this many.
    pub limit: u32,
    /// With each job's [attributes](super::JobView::attributes).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub attributes: bool,
    /// Only this part; all when it is absent. For the server only: no client can send it.
    #[serde(skip)]
    pub part: Option<Part<u64>>,
}

impl HistoryQuery {
    /// The default: as many lines as a person reads.
    pub const DEFAULT_LIMIT: u32 = 100;
}

impl Default for HistoryQuery {
    fn default() -> HistoryQuery {
        HistoryQuery {
            states: Vec::new(),
            uids: Vec::new(),
            users: Vec::new(),
            jobs: Vec::new(),
            limit: Self::DEFAULT_LIMIT,
            attributes: false,
            part: None,
        }
    }
}

/// The line before a file's bytes; `request` is `content`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentHeader {
    /// BLAKE3 of the bytes that follow.
    pub hash: ContentHash,
    /// How many bytes follow the line feed.
    pub size_bytes: u64,
}

impl ContentHeader {
    /// Its `request` name.
    pub const NAME: &str = "content";
}

/// One line from a client.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestLine {
    /// For the core, with the number to answer under.
    Manager(u64, ManagerRequest),
    /// A file follows.
    Content(ContentHeader),
}

impl RequestLine {
    /// Reads a line.
    ///
    /// # Errors
    /// The reason why the line is no request, and the number to answer under (0 when the line has
    /// no readable number).
    pub fn parse(line: &[u8]) -> Result<RequestLine, (u64, ApiError)> {
        let bad = |id, why: serde_json::Error| {
            let error = ApiError::new(ErrorCode::BadRequest, "the line is not a valid request");
            (id, error.why(why.to_string()))
        };
        let mut object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(line).map_err(|why| bad(0, why))?;
        let id = match object.remove("id") {
            None => 0,
            Some(id) => serde_json::from_value(id).map_err(|why| bad(0, why))?,
        };
        let name = object.get("request").and_then(|name| name.as_str()).unwrap_or_default();
        if !ManagerRequest::NAMES.contains(&name) {
            let message = format!("there is no request {name:?}");
            let known = format!("known requests: {}", ManagerRequest::NAMES.join(", "));
            return Err((id, ApiError::new(ErrorCode::UnknownRequest, message).hint(known)));
        }
        if name == ContentHeader::NAME {
            object.remove("request");
            let header = serde_json::from_value(object.into()).map_err(|why| bad(id, why))?;
            return Ok(RequestLine::Content(header));
        }
        let request: ManagerRequest =
            serde_json::from_value(object.into()).map_err(|why| bad(id, why))?;
        let named = request.named();
        if named > MAX_NAMED {
            let message = format!("the request names {named} jobs and users");
            let hint = format!("name at most {MAX_NAMED} in one request");
            return Err((id, ApiError::new(ErrorCode::BadRequest, message).hint(hint)));
        }
        Ok(RequestLine::Manager(id, request))
    }

    /// Encodes the line, with its line feed.
    ///
    /// # Errors
    /// None for requests that this crate makes.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        #[derive(Serialize)]
        struct Numbered<'a> {
            id: u64,
            #[serde(flatten)]
            request: &'a ManagerRequest,
        }
        #[derive(Serialize)]
        struct Content<'a> {
            request: &'static str,
            #[serde(flatten)]
            header: &'a ContentHeader,
        }
        let mut line = match self {
            RequestLine::Manager(id, request) => {
                serde_json::to_vec(&Numbered { id: *id, request })?
            }
            RequestLine::Content(header) => {
                serde_json::to_vec(&Content { request: ContentHeader::NAME, header })?
            }
        };
        line.push(b'\n');
        Ok(line)
    }
}
