//! The streams of a rank, made when it is launched: those that it uses and no others.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::pipe2;

use crate::carried::{Carried, CarriedSet};
use crate::descriptors::DescriptorLimit;
use crate::launch_spec::{EncodedSpec, Input, Output, RankSpec};

/// The NM's ends of the streams of one rank. All are non-blocking and closed on exec. A stream that
/// the rank does not have as a pipe, or a PMI connection that it does not want, is `None`.
#[derive(Debug, Default)]
pub struct PlEnds {
    /// Write here what the rank reads from standard input; dropping it is the end of file.
    pub stdin: Option<OwnedFd>,
    /// Read the rank's standard output here.
    pub stdout: Option<OwnedFd>,
    /// Read the rank's standard error here.
    pub stderr: Option<OwnedFd>,
    /// A stream socket to the rank's `PMI_FD`.
    pub pmi: Option<OwnedFd>,
}

/// The rank's own ends of its standard output, standard error and PMI socket, while this process has
/// plenty of descriptors. As long as somebody holds them, their other ends do not come to an end with the rank:
/// a holder that hears of its end anyhow ([`Event::Exited`](crate::Event::Exited)) drops them then, and is not woken
/// for each stream before.
#[derive(Debug, Default)]
pub struct OwnEnds {
    held: Vec<OwnedFd>,
}

impl OwnEnds {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.held.len()
    }
}

/// The NM's ends of the streams of one rank whose lines go to files that it shares
/// ([`Output::Lines`]). They belong to [`crate::SharedFiles`].
#[derive(Debug, Default)]
pub struct LineEnds {
    /// Read the rank's standard output here.
    pub stdout: Option<OwnedFd>,
    /// Read the rank's standard error here.
    pub stderr: Option<OwnedFd>,
}

/// Streams just made.
#[derive(Debug, Default)]
pub(super) struct NewStreams {
    /// What stays here.
    pub(super) ends: PlEnds,
    /// What goes to the process that writes the files.
    pub(super) lines: LineEnds,
    /// What goes to the rank, in the order of [`CarriedSet`].
    pub(super) theirs: Vec<OwnedFd>,
    /// What those are.
    pub(super) carried: CarriedSet,
    /// The streams of which no copy stays here: their readers wait for the end.
    let_go: CarriedSet,
}

impl NewStreams {
    /// Makes what the rank uses.
    ///
    /// # Errors
    /// The kernel's; `EMFILE` also when only what launches leave to others is free.
    pub(super) fn make(
        spec: &EncodedSpec,
        rank: &RankSpec,
        limit: DescriptorLimit,
    ) -> io::Result<Self> {
        let mut made = Self::default();
        if rank.stdin == Input::Pipe {
            let (theirs, ours) = pipe2(OFlag::O_CLOEXEC)?;
            made.ends.stdin = Some(made.keep(Carried::Stdin, (ours, theirs))?);
        }
        (made.ends.stdout, made.lines.stdout) = made.output(Carried::Stdout, &rank.stdout)?;
        (made.ends.stderr, made.lines.stderr) = made.output(Carried::Stderr, &rank.stderr)?;
        if spec.pmi {
            let flags = SockFlag::SOCK_CLOEXEC;
            let pair = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)?;
            made.ends.pmi = Some(made.keep(Carried::Pmi, pair)?);
        }
        match made.theirs.iter().all(|end| limit.admits(end)) {
            true => Ok(made),
            false => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        }
    }

    /// An output stream of the rank: a pipe to the NM, one to its files, or neither.
    fn output(
        &mut self,
        name: Carried,
        output: &Output,
    ) -> io::Result<(Option<OwnedFd>, Option<OwnedFd>)> {
        Ok(match output {
            Output::Pipe => (Some(self.keep(name, pipe2(OFlag::O_CLOEXEC)?)?), None),
            Output::Lines { .. } => {
                let end = self.keep(name, pipe2(OFlag::O_CLOEXEC)?)?;
                self.let_go.insert(name);
                (None, Some(end))
            }
            Output::Null | Output::File { .. } | Output::SameAsStdout => (None, None),
        })
    }

    /// The NM's end does not block, because it is used by an event loop; the rank's does, as programs
    /// expect of their standard streams.
    fn keep(&mut self, name: Carried, (ours, theirs): (OwnedFd, OwnedFd)) -> io::Result<OwnedFd> {
        fcntl(ours.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        self.theirs.push(theirs);
        self.carried.insert(name);
        Ok(ours)
    }

    /// When the rank has its ends: what stays of them here.
    pub(super) fn handed_over(self, limit: DescriptorLimit) -> (PlEnds, LineEnds, OwnEnds) {
        let Self { ends, lines, theirs, carried, mut let_go } = self;
        // It is read at this end: that nobody reads any more is news.
        let_go.insert(Carried::Stdin);
        let held = carried.names().zip(theirs).filter(|(name, _)| !let_go.contains(*name));
        let held = held.map(|(_, end)| end).filter(|end| limit.is_far_from(end)).collect();
        (ends, lines, OwnEnds { held })
    }
}
