//! The streams of a rank, made at its launch. Only the streams that the rank uses are made.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::pipe2;

use crate::carried::{Carried, CarriedSet};
use crate::descriptors::DescriptorLimit;
use crate::launch_spec::{EncodedSpec, Input, Output, RankSpec};

/// The NM's ends of the streams of one rank. Each end is non-blocking and closed on exec. An end is
/// `None` if the rank has no such pipe, or wants no PMI connection.
#[derive(Debug, Default)]
pub struct PlEnds {
    /// Write the rank's standard input here; dropping it is the end of file.
    pub stdin: Option<OwnedFd>,
    /// Read the rank's standard output here.
    pub stdout: Option<OwnedFd>,
    /// Read the rank's standard error here.
    pub stderr: Option<OwnedFd>,
    /// A stream socket to the rank's `PMI_FD`.
    pub pmi: Option<OwnedFd>,
}

/// Copies of the rank's own ends of its standard output, standard error and PMI socket, made while
/// this process has plenty of descriptors. While a copy is open, the other end sees no end of file.
/// The holder drops the copies at [`Event::Exited`](crate::Event::Exited), so it is not woken for
/// each stream before.
#[derive(Debug, Default)]
pub struct OwnEnds {
    held: Vec<OwnedFd>,
}

impl OwnEnds {
    /// The number of copies.
    #[must_use]
    pub fn count(&self) -> usize {
        self.held.len()
    }
}

/// The NM's ends of the streams of one rank whose lines go to shared files ([`Output::Lines`]).
/// The ends belong to [`crate::SharedFiles`].
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
    /// The ends that stay here.
    pub(super) ends: PlEnds,
    /// The ends for the process that writes the files.
    pub(super) lines: LineEnds,
    /// The ends for the rank, in the order of [`CarriedSet`].
    pub(super) theirs: Vec<OwnedFd>,
    /// The names of the ends for the rank.
    pub(super) carried: CarriedSet,
    /// The streams of which this process keeps no copy, because their readers wait for the end.
    let_go: CarriedSet,
}

impl NewStreams {
    /// Makes the streams that the rank uses.
    ///
    /// # Errors
    /// The kernel's; `EMFILE` also if only the reserve of descriptors is free.
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

    /// Makes an output stream of the rank: a pipe to the NM, a pipe to its files, or neither.
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

    /// Sets the NM's end to non-blocking, for an event loop. The rank's end blocks, as programs
    /// expect of their standard streams.
    fn keep(&mut self, name: Carried, (ours, theirs): (OwnedFd, OwnedFd)) -> io::Result<OwnedFd> {
        fcntl(ours.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        self.theirs.push(theirs);
        self.carried.insert(name);
        Ok(ours)
    }

    /// The ends that stay here once the rank has its own.
    pub(super) fn handed_over(self, limit: DescriptorLimit) -> (PlEnds, LineEnds, OwnEnds) {
        let Self { ends, lines, theirs, carried, mut let_go } = self;
        // A copy of this end, which the rank reads, would hide that the rank no longer reads.
        let_go.insert(Carried::Stdin);
        let held = carried.names().zip(theirs).filter(|(name, _)| !let_go.contains(*name));
        let held = held.map(|(_, end)| end).filter(|end| limit.is_far_from(end)).collect();
        (ends, lines, OwnEnds { held })
    }
}
