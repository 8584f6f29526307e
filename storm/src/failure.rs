//! The message of a command that fails: the problem, its causes and a hint, with the exit status.

use crate::variables::SOCKET_VARIABLE;
use std::error::Error;
use std::path::Path;
use storm_mm::api::{ApiError, ClientError, ErrorCode};
use storm_session::ClientSessionError;

/// The command was refused or has failed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// The command line cannot be understood.
pub(crate) const EXIT_USAGE: u8 = 2;
/// The allowed time is over, as for timeout(1).
pub(crate) const EXIT_TIMED_OUT: u8 = 124;
/// storm failed while it followed a job: the job's status is not known.
pub(crate) const EXIT_STORM_FAILED: u8 = 125;
/// The program cannot be executed; the status that shells use.
pub(crate) const EXIT_NOT_EXECUTABLE: u8 = 126;
/// The program was not found; the status that shells use.
pub(crate) const EXIT_NOT_FOUND: u8 = 127;
/// Interrupted: 128 + SIGINT.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// The reader of the job's output has left: 128 + SIGPIPE.
pub(crate) const EXIT_BROKEN_PIPE: u8 = 141;

/// The result of a command that did not do its work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// A word for programs that read the message.
    pub(crate) code: String,
    /// The problem.
    pub(crate) message: String,
    /// The causes, outermost first.
    pub(crate) causes: Vec<String>,
    pub(crate) hint: Option<String>,
    /// The exit status.
    pub(crate) exit: u8,
}

impl Failure {
    /// A failure with a message only, and status [`EXIT_FAILED`].
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Failure {
        let (code, message) = (code.to_owned(), message.into());
        Failure { code, message, causes: Vec::new(), hint: None, exit: EXIT_FAILED }
    }

    /// The failure for an error, whose sources become the causes.
    pub(crate) fn of(code: &str, error: &(dyn Error + 'static)) -> Failure {
        let sources = std::iter::successors(error.source(), |source| (*source).source());
        let causes = sources.map(ToString::to_string).collect();
        let hint = is_out_of_files(error).then(|| OUT_OF_FILES_HINT.to_owned());
        Failure { causes, hint, ..Failure::new(code, error.to_string()) }
    }

    /// Sets the hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the hint unless there is one already, which is closer to the cause.
    #[must_use]
    pub(crate) fn or_hint(self, hint: impl Into<String>) -> Failure {
        if self.hint.is_some() { self } else { self.hint(hint) }
    }

    /// Sets the exit status.
    #[must_use]
    pub(crate) fn exit(mut self, status: u8) -> Failure {
        self.exit = status;
        self
    }
}

const OUT_OF_FILES_HINT: &str = "`ulimit -n` says how many files may be open at once: raise it";

/// Whether this process may open no more files (EMFILE).
fn is_out_of_files(error: &(dyn Error + 'static)) -> bool {
    let all = std::iter::successors(Some(error), |error| (*error).source());
    all.filter_map(|error| error.downcast_ref::<std::io::Error>()).any(|error| {
        let out_of_files = error.raw_os_error() == Some(nix::libc::EMFILE);
        // `io::Error::source` skips the error that `get_ref` returns.
        out_of_files || error.get_ref().is_some_and(|inside| is_out_of_files(inside))
    })
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Failure {
        let code = code_name(error.code);
        let ApiError { message, why, hint, .. } = error;
        Failure { code, message, causes: why.into_iter().collect(), hint, exit: EXIT_FAILED }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let plain = |code: &str| Failure::of(code, &error);
        match &error {
            ClientError::Refused(refusal) => refusal.clone().into(),
            ClientError::Connect { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                plain("no-manager").hint(
                    "only its owner may use a kept cluster; a cluster for all users needs a socket \
                     that all may reach",
                )
            }
            ClientError::Connect { path, .. } => plain("no-manager").hint(of_socket(path)),
            ClientError::ConnectRemote { source, .. } => of_session(plain, source),
            ClientError::Version(_) => plain("version-mismatch")
                .hint("use the storm command of the same version as this cluster"),
            ClientError::Connection(_) | ClientError::Closed => plain("connection")
                .hint("the manager may have ended: try `storm queue`, and look into its log"),
            ClientError::Unanswered => plain("connection").hint(
                "the manager hangs, and may still accept the job later: look at `storm queue` \
                 before you submit again",
            ),
            ClientError::Garbled(_) | ClientError::OutOfStep | ClientError::NoSuchFile(_) => {
                plain("protocol").hint("is this the socket of a Machine Manager?")
            }
            ClientError::ReadFile { .. } => {
                plain("read-file").hint("the file must not change while it is sent: submit again")
            }
        }
    }
}

/// The hint when no manager answers on a socket: where its name came from and how to proceed.
fn of_socket(path: &Path) -> String {
    let named = std::env::var_os(SOCKET_VARIABLE).is_some_and(|value| Path::new(&value) == path);
    let is_up = "is the cluster's manager, `storm mm`, running?";
    match named {
        true => format!(
            "{SOCKET_VARIABLE} names that socket: {is_up} Without the variable, `storm up` starts a \
             cluster on this machine"
        ),
        false => format!(
            "{is_up} `socket` in its configuration names where it listens; `storm up` starts a \
             cluster on this machine"
        ),
    }
}

/// The failure when there is no session with a manager on another host.
fn of_session(plain: impl Fn(&str) -> Failure, error: &ClientSessionError) -> Failure {
    match error {
        ClientSessionError::Closed => plain("no-manager").hint(
            "is this the address for users (`listen` in [clients]), not the one for nodes? The \
             manager may also be ending",
        ),
        ClientSessionError::Io(_) => plain("no-manager").hint(
            "is the manager up, does it listen there for users (`listen` in its [clients]), and \
             can this host reach it?",
        ),
        ClientSessionError::Version { .. } => plain("version-mismatch")
            .hint("use the storm command of the same version as this cluster"),
        ClientSessionError::UnprovenManager { .. } => plain("key").hint(
            "is this the address for users (`listen` in [clients]) of the cluster that made the \
             key?",
        ),
        ClientSessionError::RefusedKey { .. }
        | ClientSessionError::RefusedUser { .. }
        | ClientSessionError::NoKey
        | ClientSessionError::NoUser
        | ClientSessionError::OtherKey { .. }
        | ClientSessionError::UnprovenUser { .. } => plain("key").hint(
            "ask the administrator of the cluster for a new key, which `storm key client` makes",
        ),
    }
}

/// The code as the protocol writes it.
fn code_name(code: ErrorCode) -> String {
    let json = serde_json::to_value(code).ok();
    json.as_ref().and_then(|name| name.as_str()).unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn exhausted_descriptors_are_reported_with_the_limit_to_raise() {
        let full = |errno| io::Error::from_raw_os_error(errno);
        let inside = |errno| io::Error::other(full(errno));
        let hint = |error: io::Error| Failure::of("io", &error).hint;
        assert_eq!(hint(full(nix::libc::EMFILE)).as_deref(), Some(OUT_OF_FILES_HINT));
        assert_eq!(hint(inside(nix::libc::EMFILE)).as_deref(), Some(OUT_OF_FILES_HINT));
        assert_eq!(hint(inside(nix::libc::ENOENT)), None);
    }
}
