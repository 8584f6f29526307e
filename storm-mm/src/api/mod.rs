//! The Machine Manager's client API. Any program on the manager's host may use it; on another host
//! a program needs a user's client key.
//!
//! # The protocol
//! The connection is a Unix stream socket whose peer the kernel vouches for (`SO_PEERCRED`). Where
//! configured, it may be a TCP connection that begins with the handshake of `storm_session`. In the
//! handshake the client proves to hold a user's key; everything after the handshake is encrypted.
//! The rest is the same for both.
//!
//! Each side sends one JSON object per line, at most [`MAX_REQUEST_LINE_BYTES`] from the client and
//! [`MAX_REPLY_LINE_BYTES`] from the server. The first line of each side is a [`Hello`]:
//! `{"storm_api":2,"version":"0.1.0"}`; neither waits for the other's.
//!
//! After its hello the client sends requests, each with a number of its choice:
//! `{"id":1,"request":"jobs"}`. Every reply carries the number of the request that it answers:
//! `{"id":1,"reply":"jobs","jobs":[...],"more":false}`. A request gets exactly one final reply.
//! Only these requests get further lines:
//!
//! * `jobs` is answered in several lines, all but the last with `more` true;
//! * `submit` of files that the server lacks is first answered `need-files`. For each hash the
//!   client sends `{"request":"content","hash":"...","size_bytes":N}`, then a line feed and exactly
//!   N raw bytes, then waits;
//! * `submit` with `attach` and `attach` are followed by the job's events under the same number
//!   (`state`, `output`), up to `ended`.
//!
//! A failed request is answered `{"reply":"error","error":{"code":...,"message":...}}`
//! ([`ApiError`]). The server never waits for a client that does not read. It holds back the job's
//! output, and drops a client that leaves its other replies unread as well.
//!
//! This module decides nothing about jobs. The [`Server`] passes each request to the manager's core
//! as a [`Call`], and carries the replies that the core puts into its [`ReplySink`]. It also tells
//! the core which client has left, and how ([`FromClient`]).

mod base64_bytes;
mod call;
mod client;
mod error;
mod from_client;
mod halves;
mod hello;
mod job_change;
mod job_filter;
mod lines;
mod outgoing;
mod part;
mod reply;
mod reply_sink;
mod request;
mod server;
mod service;
mod spool;
mod view;

pub use call::{Call, Peer};
pub use client::{
    Client, ClientError, ClientReplies, ClientRequests, Progress, Submission, hash_file,
};
pub use error::{ApiError, ErrorCode};
pub use from_client::{ClientEnd, ClientId, FromClient};
pub use hello::{API_VERSION, Hello};
pub use job_change::JobChange;
pub use job_filter::{HistoryQuery, JobFilter};
pub use lines::{LineError, LineReader};
pub use outgoing::TrySendError;
pub use part::Part;
pub use reply::{CancelOutcome, Reply, ReplyLine};
pub use reply_sink::{Gone, ReplySink, ReplyStream, reply_channel};
pub use request::{ContentHeader, MAX_NAMED, ManagerRequest, RequestLine};
pub use server::{AdmitUser, RemoteClients, Server, ServerLimits, refusal_line};
pub use service::Service;
pub use spool::{Spool, SpoolError};
pub use view::{
    ClassView, ClusterStatus, Explanation, ForgottenJobs, Holder, JobAttributes, JobDetail,
    JobPartView, JobState, JobView, LaunchBreakdown, LogEntry, NodeState, NodeView, PartitionView,
    PriorityView, Prospect, RankView, ReservationRequest, ReservationView, ReservedNodes,
    ShareView, SpecSummary, StepView, UseView, UserView, asked_for, without_set_id,
};

/// Longest line of a request. A job specification holds the submitter's whole environment and
/// arguments, which Linux limits to 2 MiB; JSON may double their length.
pub const MAX_REQUEST_LINE_BYTES: usize = 4 << 20;

/// Longest line of a reply: the details of a job of 65,536 ranks.
pub const MAX_REPLY_LINE_BYTES: usize = 32 << 20;

/// Most bytes of output in one event; longer output travels as several.
pub const MAX_OUTPUT_EVENT_BYTES: usize = 32 << 10;

/// The longest script that the manager gives back: Slurm's default of `max_script_size`.
pub const MAX_SCRIPT_BYTES: u64 = 4 << 20;

/// Jobs in one line of a listing.
pub const JOBS_PER_LINE: usize = 256;

#[cfg(test)]
mod tests;
