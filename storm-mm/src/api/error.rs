//! The refusal that a client gets when its request cannot be carried out.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A refusal: what failed, why, and what to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// For programs.
    pub code: ErrorCode,
    /// The failure, in one sentence.
    pub message: String,
    /// The reason, where it is known and not in the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// A suggestion for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ApiError {
    /// A refusal with its message alone.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ApiError {
        ApiError { code, message: message.into(), why: None, hint: None }
    }

    /// The length of all its texts together.
    pub(super) fn text_bytes(&self) -> usize {
        let texts = [Some(&self.message), self.why.as_ref(), self.hint.as_ref()];
        texts.into_iter().flatten().map(String::len).sum()
    }

    /// Adds the reason.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> ApiError {
        self.why = Some(why.into());
        self
    }

    /// Adds a suggestion.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> ApiError {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.why.iter().try_for_each(|why| write!(f, ": {why}"))
    }
}

impl std::error::Error for ApiError {}

/// The kinds of refusal. Later versions may add kinds: a client takes an unknown one as
/// [`Unknown`](ErrorCode::Unknown).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorCode {
    /// The line is not a request: not JSON, a field missing or unknown.
    BadRequest,
    /// There is no request of this name; the message lists all names.
    UnknownRequest,
    /// The line is longer than allowed. The connection ends.
    LineTooLong,
    /// The two sides use different versions. The connection ends.
    VersionMismatch,
    /// The limit on connected clients is reached. The connection ends.
    TooManyClients,
    /// The client does not read its replies. The connection ends.
    TooSlow,
    /// The bytes sent do not have the hash that was announced.
    WrongContent,
    /// A file, or all of them together, exceeds the server's limit.
    TooLarge,
    /// The server could not store a file.
    Storage,
    /// No job has this number.
    NoSuchJob,
    /// The job has ended, so the request cannot be carried out.
    JobEnded,
    /// The job's state is no longer in the set that the request names.
    OtherState,
    /// Only the job's owner and the administrator may make this request.
    NotPermitted,
    /// No node has this name.
    NoSuchNode,
    /// No partition has this name.
    NoSuchPartition,
    /// No account has this name.
    NoSuchAccount,
    /// No quality of service has this name.
    NoSuchQos,
    /// No partition runs this policy.
    NoSuchPolicy,
    /// No reservation has this name.
    NoSuchReservation,
    /// The job could never run on this cluster.
    Infeasible,
    /// The manager holds as many jobs as it may.
    QueueFull,
    /// The cluster is shutting down.
    ShuttingDown,
    /// A node's relay cannot reach the manager. The connection ends, and a later one may succeed.
    ManagerAway,
    /// The manager's core does not answer, or failed; its log has the reason.
    Internal,
    /// A code that is not in this client's version.
    #[serde(other)]
    Unknown,
}
