//! A small launcher for tests and benchmarks. It starts the ranks of a job on simulated nodes of
//! this host and serves them PMI-1 with one [`NodeServer`] per node.
//!
//! The launcher is no resource manager: it has no placement, limits or users. It does end a job
//! whose rank dies or aborts, like a resource manager. Available only with the feature `testing`.

mod c_programs;
mod slices;

pub use c_programs::CPrograms;

use crate::pmi::mapping::NodeIndex;
use crate::pmi::node_server::{NodeServer, NodeServerConfig, Output};
use crate::pmi::wire::MAX_LINE_BYTES;
use crate::pmi::{ProcessMapping, wire};
use crate::rank::Rank;
use crate::segment::{SEGMENT_REQUEST, TRANSPORT_BCS, TRANSPORT_VARIABLE};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use slices::Slices;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time after which a job counts as hung: far beyond any test, and within a CI's patience.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(180);

/// Time that a rank may continue after it left without notice, before it is killed with the others.
const LAST_WORDS_MS: u16 = 10_000;

/// A job to start.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    placement: Vec<NodeIndex>,
    limit: Duration,
    spare_survivors: bool,
    in_slices: bool,
    every: Option<Duration>,
}

/// The outcome of a job.
#[derive(Debug)]
pub struct Outcome {
    /// Outcomes by rank.
    pub ranks: Vec<RankOutcome>,
    /// The exit code of the first abort asked for.
    pub aborted: Option<i32>,
    /// The first rank that left without notice, if any. The others were killed because of it.
    pub left: Option<Rank>,
    /// Whether the job was killed for taking too long.
    pub timed_out: bool,
    /// Time from the first start to the last exit.
    pub elapsed: Duration,
    /// Number of slices, if the job ran in [slices](Launcher::in_slices).
    pub slices: Option<u64>,
}

/// The outcome of a rank, and its output.
#[derive(Debug)]
pub struct RankOutcome {
    /// The rank's exit status.
    pub status: ExitStatus,
    /// The rank's standard output.
    pub stdout: String,
    /// The rank's standard error.
    pub stderr: String,
}

impl Outcome {
    /// Whether every rank ended with status 0.
    pub fn success(&self) -> bool {
        !self.timed_out && self.ranks.iter().all(|rank| rank.status.success())
    }

    /// All failures, for a test's message.
    pub fn report(&self) -> String {
        let (aborted, timed_out) = (self.aborted, self.timed_out);
        let mut text = format!("aborted {aborted:?}, timed out {timed_out}");
        if let Some(first) = self.left {
            text += &format!(", rank {first} left first");
        }
        for (rank, outcome) in self.ranks.iter().enumerate() {
            if !outcome.status.success() || !outcome.stderr.is_empty() {
                text += &format!("\nrank {rank}: {}: {}", outcome.status, outcome.stderr.trim());
            }
        }
        text
    }
}

impl Launcher {
    /// A job of one rank on one node.
    pub fn new(program: impl AsRef<Path>) -> Self {
        Launcher {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            placement: vec![NodeIndex(0)],
            limit: DEFAULT_LIMIT,
            spare_survivors: false,
            in_slices: false,
            every: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Places `ranks_per_node` ranks on each of `nodes` nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: usize, ranks_per_node: usize) -> Self {
        let node = |rank: usize| NodeIndex((rank / ranks_per_node) as u32);
        self.placement = (0..nodes * ranks_per_node).map(node).collect();
        self
    }

    /// Places rank `r` on node `placement[r]`; nodes are numbered from 0 without gaps.
    #[must_use]
    pub fn placement(mut self, placement: &[u32]) -> Self {
        self.placement = placement.iter().map(|&node| NodeIndex(node)).collect();
        self
    }

    /// Lets the other ranks continue when one dies, to see their reaction.
    #[must_use]
    pub fn spare_survivors(mut self) -> Self {
        self.spare_survivors = true;
        self
    }

    /// Moves the job's bytes in slices, as under buffered coscheduling. A slice takes place
    /// whenever all ranks wait and any rank has sent something. The number of slices is therefore
    /// the number of rounds of messages. While a rank does not wait, no slice takes place.
    #[must_use]
    pub fn in_slices(mut self) -> Self {
        self.in_slices = true;
        self
    }

    /// In slices mode: also runs a slice when none took place for this long, even if a rank does
    /// not wait.
    #[must_use]
    pub fn at_least_every(mut self, every: Duration) -> Self {
        self.every = Some(every);
        self
    }

    /// Runs the job to its end.
    ///
    /// # Errors
    /// A rank cannot be started, or the operating system refuses something.
    pub fn run(&self) -> io::Result<Outcome> {
        let started = Instant::now();
        let mut job = Job::new(self.servers(), &self.placement);
        job.spare_survivors = self.spare_survivors;
        job.slices =
            self.in_slices.then(|| Slices::new(self.placement.len(), self.every)).transpose()?;
        for rank in 0..self.placement.len() {
            job.ranks.push(self.start(Rank::from_index(rank))?);
        }
        job.serve(started + self.limit)?;
        job.collect(started)
    }

    fn servers(&self) -> Vec<NodeServer> {
        let nodes = self.placement.iter().map(|node| node.0 + 1).max().unwrap_or(0);
        let size = self.placement.len() as u32;
        let mapping = ProcessMapping::from_nodes(&self.placement).to_string();
        let server = |node| {
            let here = |rank: &u32| self.placement[*rank as usize] == NodeIndex(node);
            NodeServer::new(NodeServerConfig {
                kvsname: "kvs_test".to_owned(),
                size,
                universe_size: size,
                appnum: 0,
                local_ranks: (0..size).filter(here).map(Rank).collect(),
                process_mapping: mapping.clone(),
            })
        };
        (0..nodes).map(server).collect()
    }

    fn start(&self, rank: Rank) -> io::Result<RankProcess> {
        let (ours, theirs) = UnixStream::pair()?;
        let (stdout, stderr) = (anonymous_file()?, anonymous_file()?);
        // The PMI connection is the rank's standard input: the one descriptor besides its outputs
        // that `Command` passes on.
        let child = Command::new(&self.program)
            .args(&self.args)
            // Cargo sets this variable. A program in C would find a library that an earlier build
            // left there, before the library that it was linked with.
            .env_remove("LD_LIBRARY_PATH")
            .envs(self.in_slices.then_some((TRANSPORT_VARIABLE, TRANSPORT_BCS)))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("PMI_FD", "0")
            .env("PMI_RANK", rank.to_string())
            .env("PMI_SIZE", self.placement.len().to_string())
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::from(stdout.try_clone()?))
            .stderr(Stdio::from(stderr.try_clone()?))
            .spawn()?;
        Ok(RankProcess {
            child,
            pmi: Some(ours),
            partial: Vec::new(),
            spoke: false,
            stdout,
            stderr,
        })
    }
}

struct RankProcess {
    child: Child,
    /// `None` once the connection is closed.
    pmi: Option<UnixStream>,
    partial: Vec<u8>,
    spoke: bool,
    stdout: File,
    stderr: File,
}

impl RankProcess {
    /// Waits for the end of a rank that has closed its connection. A program that returns an error
    /// from `main` prints the error only after closing.
    fn let_it_say_why(&self) -> io::Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).ok_or(io::ErrorKind::NotFound)?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(LAST_WORDS_MS))?;
        Ok(())
    }
}

struct Job {
    servers: Vec<NodeServer>,
    node_of: Vec<NodeIndex>,
    ranks: Vec<RankProcess>,
    /// Puts of the nodes whose ranks are all in the barrier.
    fence: Vec<Option<Vec<(String, String)>>>,
    aborted: Option<i32>,
    left: Option<Rank>,
    timed_out: bool,
    spare_survivors: bool,
    slices: Option<Slices>,
}

impl Job {
    fn new(servers: Vec<NodeServer>, placement: &[NodeIndex]) -> Self {
        let fence = servers.iter().map(|_| None).collect();
        let node_of = placement.to_vec();
        Job {
            servers,
            node_of,
            ranks: Vec::new(),
            fence,
            aborted: None,
            left: None,
            timed_out: false,
            spare_survivors: false,
            slices: None,
        }
    }

    /// Answers the ranks until all have closed their connections or the deadline has passed.
    fn serve(&mut self, deadline: Instant) -> io::Result<()> {
        loop {
            let open: Vec<usize> =
                (0..self.ranks.len()).filter(|&r| self.ranks[r].pmi.is_some()).collect();
            if let Some(slices) = &mut self.slices {
                slices.go_on()?;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if open.is_empty() {
                return Ok(());
            }
            if left.is_zero() {
                self.timed_out = true;
                return self.kill_all();
            }
            let streams = self.ranks.iter().filter_map(|rank| rank.pmi.as_ref());
            let mut fds: Vec<PollFd<'_>> =
                streams.map(|pmi| PollFd::new(pmi.as_fd(), PollFlags::POLLIN)).collect();
            let bells = self.slices.iter().flat_map(Slices::bells);
            fds.extend(bells.map(|bell| PollFd::new(bell, PollFlags::POLLIN)));
            let left = self.slices.as_ref().map_or(left, |slices| slices.patience(left));
            let wait_ms = u16::try_from(left.as_millis()).unwrap_or(u16::MAX);
            poll(&mut fds, PollTimeout::from(wait_ms))?;
            let ready: Vec<bool> = fds.iter().map(|fd| fd.any() == Some(true)).collect();
            for (rank, _) in open.into_iter().zip(ready).filter(|(_, ready)| *ready) {
                self.hear(rank)?;
            }
        }
    }

    fn hear(&mut self, rank: usize) -> io::Result<()> {
        let process = &mut self.ranks[rank];
        let Some(pmi) = &mut process.pmi else { return Ok(()) };
        let mut chunk = [0; MAX_LINE_BYTES];
        let got = pmi.read(&mut chunk).unwrap_or(0);
        if got == 0 {
            process.pmi = None;
            self.slices.iter_mut().for_each(|slices| slices.gone(rank));
            let finalized =
                self.servers[self.node_of[rank].0 as usize].finalized(Rank::from_index(rank));
            // The death of a rank that joined ends the job, as under a resource manager.
            let died = process.spoke && !finalized && !self.spare_survivors;
            if !died {
                return Ok(());
            }
            process.let_it_say_why()?;
            self.left = Some(Rank::from_index(rank));
            return self.kill_all();
        }
        process.spoke = true;
        process.partial.extend_from_slice(&chunk[..got]);
        while let Some(end) = self.ranks[rank].partial.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.ranks[rank].partial.drain(..=end).collect();
            let line = String::from_utf8(line).map_err(|_| invalid(wire::WireError::NotText))?;
            if let (SEGMENT_REQUEST, Some(slices)) = (line.trim_end(), &self.slices) {
                if let Some(pmi) = &self.ranks[rank].pmi {
                    slices.hand_over(rank, pmi)?;
                }
                continue;
            }
            let node = self.node_of[rank].0 as usize;
            let outputs = self.servers[node].request(Rank::from_index(rank), &line);
            self.act(node, outputs)?;
        }
        Ok(())
    }

    fn act(&mut self, node: usize, outputs: Vec<Output>) -> io::Result<()> {
        for output in outputs {
            match output {
                Output::Reply { rank, line } => self.reply(rank, &line)?,
                Output::FenceReady { puts } => {
                    self.fence[node] = Some(puts);
                    self.try_fence()?;
                }
                Output::Abort { exit_code, .. } => {
                    self.aborted.get_or_insert(exit_code);
                    self.kill_all()?;
                }
                Output::Violation { error, .. } => return Err(invalid(error)),
            }
        }
        Ok(())
    }

    fn reply(&mut self, rank: Rank, line: &str) -> io::Result<()> {
        match &mut self.ranks[rank.index()].pmi {
            // A rank that died is noticed when its connection is read.
            Some(pmi) => pmi.write_all(format!("{line}\n").as_bytes()).or(Ok(())),
            None => Ok(()),
        }
    }

    fn try_fence(&mut self) -> io::Result<()> {
        if self.fence.iter().any(Option::is_none) {
            return Ok(());
        }
        let merged: Vec<_> = self.fence.iter_mut().filter_map(Option::take).flatten().collect();
        for node in 0..self.servers.len() {
            let outputs = self.servers[node].fence_done(merged.clone());
            self.act(node, outputs)?;
        }
        Ok(())
    }

    fn kill_all(&mut self) -> io::Result<()> {
        for rank in &mut self.ranks {
            rank.pmi = None;
            rank.child.kill()?;
        }
        Ok(())
    }

    fn collect(self, started: Instant) -> io::Result<Outcome> {
        let mut ranks = Vec::with_capacity(self.ranks.len());
        for mut rank in self.ranks {
            ranks.push(RankOutcome {
                status: rank.child.wait()?,
                stdout: contents(&mut rank.stdout)?,
                stderr: contents(&mut rank.stderr)?,
            });
        }
        let (aborted, left, timed_out) = (self.aborted, self.left, self.timed_out);
        let slices = self.slices.map(|slices| slices.count);
        Ok(Outcome { ranks, aborted, left, timed_out, elapsed: started.elapsed(), slices })
    }
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        // Reached with a live child only when the launcher itself failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An example of this crate, which `cargo test` builds together with the tests.
///
/// # Panics
/// The example is missing: Cargo built only a single test.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let profile = test.ancestors().nth(2).expect("in target/PROFILE/deps");
    let program = profile.join("examples").join(name);
    let advice = "cargo build -p storm-mpi --examples";
    assert!(program.exists(), "{} is missing: {advice}", program.display());
    program
}

/// A reproducible sequence of numbers for tests (SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next_u64() % limit as u64) as usize
    }

    /// Whether something happens that happens `percent` times of a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

fn anonymous_file() -> io::Result<File> {
    let flags = nix::sys::memfd::MFdFlags::MFD_CLOEXEC;
    Ok(File::from(nix::sys::memfd::memfd_create(c"rank-output", flags)?))
}

fn contents(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
