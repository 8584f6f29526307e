//! The launch request: the part shared by all ranks of a job on a node, and the part of one rank.
//!
//! A [`LaunchSpec`] is encoded once. Each launch then sends it with a small [`RankSpec`] in one
//! write straight to the PL. The caller expands all patterns and resolves the [`Credentials`];
//! paths are final.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::credentials::Credentials;

/// Specs up to this size travel in the message. Larger ones travel in a memory file that is sent
/// with it. The size is far below the default send buffer of a local socket (208 KiB).
const INLINE_MAX_BYTES: usize = 64 * 1024;

/// The largest spec a PL accepts. The kernel takes at most 6 MiB of arguments and environment,
/// three quarters of the 8 MiB stack that it is willing to count. Nothing larger can run.
pub(crate) const SPEC_MAX_BYTES: usize = 8 * 1024 * 1024;

/// One limit for `setrlimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// `RLIMIT_*` of this platform.
    pub resource: u32,
    /// Soft limit; `u64::MAX` is "unlimited".
    pub soft: u64,
    /// Hard limit; `u64::MAX` is "unlimited".
    pub hard: u64,
}

/// The part of a launch that all ranks of a job on this node share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchSpec {
    /// The program. A name without a slash is looked up in the job's `PATH`, as the user.
    pub program: PathBuf,
    /// The file of which [`LaunchSpec::program`] is a copy, for a program that searches for other
    /// files in its directory. If the content is the same, the original is executed instead.
    pub original: Option<PathBuf>,
    /// The arguments. The first is the name under which the program sees itself.
    pub args: Vec<OsString>,
    /// The whole environment. The daemon adds only `PMI_FD`.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// File mode creation mask.
    pub umask: u32,
    /// The user to run as. A user other than the daemon's own needs a daemon that is root.
    pub credentials: Credentials,
    /// Limits to set, before the privileges are dropped.
    pub limits: Vec<ResourceLimit>,
    /// Keep the PMI socket open in the application and name it in `PMI_FD`.
    pub pmi: bool,
}

/// Standard input of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// Standard input is empty.
    #[default]
    Null,
    /// The pipe whose other end is [`crate::PlEnds::stdin`].
    Pipe,
    /// A file, opened as the user.
    File(PathBuf),
}

/// Standard output or standard error of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// The pipe whose other end is in [`crate::PlEnds`].
    #[default]
    Pipe,
    /// The output is thrown away.
    Null,
    /// A file, opened (created if need be) as the user, relative to the working directory.
    File {
        /// The path, with every pattern expanded.
        path: PathBuf,
        /// Whether to keep the old content. If false, the file is emptied first. Writes append in
        /// either case.
        append: bool,
    },
    /// A file that other ranks write to as well. The rank gets a pipe whose other end is in
    /// [`crate::LineEnds`], and [`crate::SharedFiles`] appends whole lines to the file. If the path
    /// exists and is no regular file, the rank writes to it directly.
    Lines {
        /// The path, with every pattern expanded.
        path: PathBuf,
    },
    /// Standard error only: the same open file as standard output.
    SameAsStdout,
}

/// The part of a launch that differs from rank to rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankSpec {
    /// Variables to add, which take precedence over those of the [`LaunchSpec`].
    pub env: Vec<(OsString, OsString)>,
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// CPUs to bind to; empty binds to none.
    pub cpus: Vec<u16>,
}

/// A [`LaunchSpec`] ready to be sent any number of times.
#[derive(Clone, Debug)]
pub struct EncodedSpec {
    pub(crate) body: SpecBody,
    /// [`LaunchSpec::pmi`].
    pub(crate) pmi: bool,
}

/// The place of the encoded bytes.
#[derive(Clone, Debug)]
pub(crate) enum SpecBody {
    /// In the message.
    Inline(Arc<[u8]>),
    /// In a memory file.
    File(Arc<OwnedFd>),
}

/// The reason why a spec cannot be sent to any PL.
#[derive(Debug, Error)]
pub enum SpecError {
    /// A string holds a NUL byte, which no Unix program can receive.
    #[error("{what} contains a NUL byte")]
    Nul {
        /// The string.
        what: &'static str,
    },
    /// A variable name is empty or holds `=`.
    #[error("{0:?} is not a name for an environment variable")]
    VariableName(OsString),
    /// No argument at all.
    #[error("the argument list lacks the program's own name")]
    NoArguments,
    /// More than any kernel would take.
    #[error("arguments and environment take {bytes} bytes; the limit is {SPEC_MAX_BYTES}")]
    TooLarge {
        /// Their size.
        bytes: usize,
    },
    /// A large spec needs a memory file.
    #[error("cannot make a memory file for the launch request")]
    MemoryFile(#[source] io::Error),
}

/// The encoded form of [`LaunchSpec`] without its strings. The strings follow it, each ended by
/// NUL: program, original, working directory, arguments, variables.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpecHead {
    pub(crate) args: u32,
    pub(crate) variables: u32,
    pub(crate) umask: u32,
    pub(crate) credentials: Credentials,
    pub(crate) limits: Vec<ResourceLimit>,
    pub(crate) pmi: bool,
}

/// The encoded form of [`RankSpec`] without its strings: the variables, then the three paths.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankHead {
    pub(crate) variables: u32,
    pub(crate) stdin: StreamKind,
    pub(crate) stdout: StreamKind,
    pub(crate) stderr: StreamKind,
    pub(crate) cpus: Vec<u16>,
}

/// The kind of a standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StreamKind {
    Pipe,
    Null,
    Read,
    Append,
    Truncate,
    Lines,
    SameAsStdout,
}

impl LaunchSpec {
    /// Encodes the part that all ranks share.
    ///
    /// # Errors
    /// A string can never be passed to a program, or all strings together are too large.
    pub fn encode(&self) -> Result<EncodedSpec, SpecError> {
        if self.args.is_empty() {
            return Err(SpecError::NoArguments);
        }
        let mut strings = Strings::default();
        strings.push("the program's path", self.program.as_os_str())?;
        let original = self.original.as_deref().unwrap_or(Path::new(""));
        strings.push("the program's path", original.as_os_str())?;
        strings.push("the working directory", self.cwd.as_os_str())?;
        for arg in &self.args {
            strings.push("an argument", arg)?;
        }
        strings.push_variables(&self.env)?;
        let head = SpecHead {
            args: count(self.args.len()),
            variables: count(self.env.len()),
            umask: self.umask,
            credentials: self.credentials.clone(),
            limits: self.limits.clone(),
            pmi: self.pmi,
        };
        let bytes = join(&head, &strings);
        if bytes.len() > SPEC_MAX_BYTES {
            return Err(SpecError::TooLarge { bytes: bytes.len() });
        }
        let body = if bytes.len() <= INLINE_MAX_BYTES {
            SpecBody::Inline(bytes.into())
        } else {
            SpecBody::File(Arc::new(memory_file(&bytes).map_err(SpecError::MemoryFile)?))
        };
        Ok(EncodedSpec { body, pmi: self.pmi })
    }
}

impl RankSpec {
    /// Encodes the part of one rank.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, SpecError> {
        let mut strings = Strings::default();
        strings.push_variables(&self.env)?;
        let (stdin, path) = match &self.stdin {
            Input::Null => (StreamKind::Null, Path::new("")),
            Input::Pipe => (StreamKind::Pipe, Path::new("")),
            Input::File(path) => (StreamKind::Read, path.as_path()),
        };
        strings.push("the path of standard input", path.as_os_str())?;
        let (stdout, path) = self.stdout.kind();
        strings.push("the path of standard output", path.as_os_str())?;
        let (stderr, path) = self.stderr.kind();
        strings.push("the path of standard error", path.as_os_str())?;
        let head = RankHead {
            variables: count(self.env.len()),
            stdin,
            stdout,
            stderr,
            cpus: self.cpus.clone(),
        };
        let bytes = join(&head, &strings);
        if bytes.len() > INLINE_MAX_BYTES {
            return Err(SpecError::TooLarge { bytes: bytes.len() });
        }
        Ok(bytes)
    }
}

impl Output {
    fn kind(&self) -> (StreamKind, &Path) {
        let none = Path::new("");
        match self {
            Self::Pipe => (StreamKind::Pipe, none),
            Self::Null => (StreamKind::Null, none),
            Self::File { path, append: true } => (StreamKind::Append, path),
            Self::File { path, append: false } => (StreamKind::Truncate, path),
            Self::Lines { path } => (StreamKind::Lines, path),
            Self::SameAsStdout => (StreamKind::SameAsStdout, none),
        }
    }
}

/// Strings one after the other, each ended by NUL, as `execve` wants them.
#[derive(Default)]
struct Strings(Vec<u8>);

impl Strings {
    fn push(&mut self, what: &'static str, text: &OsStr) -> Result<(), SpecError> {
        if text.as_bytes().contains(&0) {
            return Err(SpecError::Nul { what });
        }
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        Ok(())
    }

    fn push_variables(&mut self, env: &[(OsString, OsString)]) -> Result<(), SpecError> {
        for (name, value) in env {
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return Err(SpecError::VariableName(name.clone()));
            }
            self.push("the name of a variable", name)?;
            self.0.pop();
            self.0.push(b'=');
            self.push("an environment variable", value)?;
        }
        Ok(())
    }
}

/// Length of the head, head, strings.
fn join<T: Serialize>(head: &T, strings: &Strings) -> Vec<u8> {
    let head = postcard::to_stdvec(head)
        // Plain integers and vectors are written into a growing buffer, so nothing can fail.
        .expect("postcard encodes integers and vectors");
    let mut bytes = Vec::with_capacity(4 + head.len() + strings.0.len());
    bytes.extend_from_slice(&count(head.len()).to_le_bytes());
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(&strings.0);
    bytes
}

/// Saturates: a length over 4 GiB is refused afterwards as [`SpecError::TooLarge`].
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let fd =
        nix::sys::memfd::memfd_create(c"storm-launch", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes)?;
    Ok(file.into())
}
