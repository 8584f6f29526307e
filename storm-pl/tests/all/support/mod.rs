//! A node for the tests: its own keeper, with a bound on every wait.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use storm_pl::{
    Credentials, EncodedSpec, Event, ExitStatus, Keeper, KeeperConfig, KeeperEvents, KeeperHandle,
    LaunchFailure, LaunchSpec, Launching, PadId, PlEnds, PlIndex, RankSpec, StartMethod,
};
use tokio::io::unix::AsyncFd;

/// No step takes longer unless it hangs.
pub(crate) const HANG: Duration = Duration::from_secs(60);
/// The id of the user and of the group nobody.
pub(crate) const NOBODY: u32 = 65_534;

static CLUSTERS: AtomicU32 = AtomicU32::new(0);

/// A keeper with its handle and its events.
pub(crate) struct Node {
    pub(crate) handle: KeeperHandle,
    pub(crate) events: KeeperEvents,
    pub(crate) cgroup: Option<PathBuf>,
    pub(crate) pid: i32,
}

/// The outcome of a launch.
#[derive(Debug)]
pub(crate) enum Outcome {
    Ran {
        status: ExitStatus,
        stdout: String,
        #[allow(dead_code, reason = "shown when a test fails")]
        stderr: String,
    },
    Failed(LaunchFailure),
}

/// The mechanism that a test requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    Cgroup,
    Signals,
}

pub(crate) const BOTH: [Mechanism; 2] = [Mechanism::Cgroup, Mechanism::Signals];

/// A cluster name that no other test has.
pub(crate) fn unique_cluster() -> String {
    format!("test-{}-{}", std::process::id(), CLUSTERS.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn testbed() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_pl-testbed"))
}

pub(crate) fn config(mechanism: Mechanism, capacity: u16) -> KeeperConfig {
    KeeperConfig {
        cluster: unique_cluster(),
        node: "n1".to_owned(),
        capacity,
        cgroup_parent: None,
        signals_only: mechanism == Mechanism::Signals,
        leftovers: None,
        survival: None,
        start: StartMethod::Exec { program: testbed(), args: vec!["keeper".into()] },
    }
}

/// `sh -c script` as the test's own user.
pub(crate) fn shell(script: &str) -> LaunchSpec {
    program("/bin/sh", &["sh", "-c", script])
}

pub(crate) fn program(path: &str, args: &[&str]) -> LaunchSpec {
    LaunchSpec {
        program: PathBuf::from(path),
        original: None,
        args: args.iter().map(OsString::from).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: PathBuf::from("/"),
        umask: 0o022,
        credentials: Credentials::own(),
        limits: Vec::new(),
        pmi: false,
    }
}

impl Node {
    /// A keeper with one ready pad.
    pub(crate) async fn start(mechanism: Mechanism, capacity: u16) -> Self {
        let keeper = Keeper::start(&config(mechanism, capacity)).unwrap();
        let mut node = Self::attach(keeper);
        node.handle.make_pads(1).unwrap();
        node.until_ready(PadId(0)).await;
        node
    }

    pub(crate) fn attach(keeper: Keeper) -> Self {
        let cgroup = keeper.cgroup().map(Path::to_owned);
        let pid = keeper.pid().0;
        let (handle, events) = keeper.into_async().unwrap();
        Self { handle, events, cgroup, pid }
    }

    pub(crate) async fn next(&mut self) -> Event {
        tokio::time::timeout(HANG, self.events.next_event())
            .await
            .expect("an event within the bound")
            .expect("a living keeper")
    }

    pub(crate) async fn until_ready(&mut self, pad: PadId) {
        loop {
            match self.next().await {
                Event::Ready { pad: ready } if ready == pad => return,
                Event::PadClean { .. } => {}
                other => panic!("{other:?} instead of a ready pad"),
            }
        }
    }

    /// Launches on PL 0 of pad 0, collects all output, releases the pad, and waits until it is
    /// ready.
    pub(crate) async fn run(&mut self, spec: &LaunchSpec, rank: &RankSpec) -> Outcome {
        let outcome = self.run_only(&spec.encode().unwrap(), rank).await;
        self.handle.release(PadId(0)).unwrap();
        self.until_ready(PadId(0)).await;
        outcome
    }

    /// Does the same as `run`, without the release.
    pub(crate) async fn run_only(&mut self, spec: &EncodedSpec, rank: &RankSpec) -> Outcome {
        let (pad, pl) = (PadId(0), PlIndex(0));
        let Launching { ends, .. } = self.handle.launch(pad, pl, spec, rank).unwrap();
        let PlEnds { stdin, stdout, stderr, pmi } = ends;
        drop(stdin);
        let output = tokio::spawn(async move { (read_all(stdout).await, read_all(stderr).await) });
        let event = self.next().await;
        if let Event::LaunchFailed { failure, .. } = event {
            return Outcome::Failed(failure);
        }
        assert_eq!(event, Event::Launched { pad, pl });
        let Event::Exited { status, .. } = self.next().await else { panic!("no exit") };
        drop(pmi);
        let (stdout, stderr) =
            tokio::time::timeout(HANG, output).await.expect("end of the output").unwrap();
        Outcome::Ran { status, stdout, stderr }
    }

    /// Ends the keeper and waits for it.
    pub(crate) async fn shut_down(mut self) {
        self.handle.shutdown().unwrap();
        loop {
            match tokio::time::timeout(HANG, self.events.next_event()).await.unwrap() {
                Some(Event::KeeperGone { expected }) => {
                    assert!(expected);
                    break;
                }
                Some(_) => {}
                None => panic!("the stream ended without saying why"),
            }
        }
        if let Some(directory) = &self.cgroup {
            assert!(!directory.exists(), "{} stays", directory.display());
        }
    }
}

impl Outcome {
    pub(crate) fn status(&self) -> ExitStatus {
        match self {
            Self::Ran { status, .. } => *status,
            Self::Failed(failure) => panic!("not launched: {failure}"),
        }
    }

    pub(crate) fn stdout(&self) -> &str {
        match self {
            Self::Ran { stdout, .. } => stdout,
            Self::Failed(failure) => panic!("not launched: {failure}"),
        }
    }

    pub(crate) fn failure(&self) -> LaunchFailure {
        match self {
            Self::Failed(failure) => *failure,
            Self::Ran { .. } => panic!("{self:?} instead of a failed launch"),
        }
    }
}

/// Reads a pipe to its end.
pub(crate) async fn read_all(pipe: Option<OwnedFd>) -> String {
    let Some(pipe) = pipe else { return String::new() };
    let mut text = Vec::new();
    let mut reader = PipeReader::new(pipe);
    while let Some(bytes) = reader.read().await {
        text.extend(bytes);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// A pipe read in the event loop.
pub(crate) struct PipeReader(AsyncFd<std::fs::File>);

impl PipeReader {
    pub(crate) fn new(pipe: OwnedFd) -> Self {
        let file = std::fs::File::from(pipe);
        // SAFETY: the file owns its descriptor for as long as the AsyncFd owns the file.
        Self(
            unsafe { AsyncFd::register_with_interest(file, tokio::io::Interest::READABLE) }
                .unwrap(),
        )
    }

    /// Reads the available output; `None` at the end.
    pub(crate) async fn read(&mut self) -> Option<Vec<u8>> {
        tokio::time::timeout(HANG, self.wait_and_read()).await.expect("output or its end in time")
    }

    async fn wait_and_read(&mut self) -> Option<Vec<u8>> {
        use std::io::Read;
        loop {
            let mut guard = self.0.readable().await.unwrap();
            let mut buffer = [0; 4096];
            match guard.try_io(|file| file.get_ref().read(&mut buffer)) {
                Ok(Ok(0)) => return None,
                Ok(Ok(len)) => return Some(buffer[..len].to_vec()),
                Ok(Err(error)) => panic!("{error}"),
                Err(_) => {}
            }
        }
    }

    /// Reads until `text` has arrived.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(text) {
            let bytes = self.read().await.expect("output before the end");
            seen += &String::from_utf8_lossy(&bytes);
        }
        seen
    }
}

/// Live processes whose first environment contains `STORM_TEST=token`.
pub(crate) fn alive(token: &str) -> Vec<i32> {
    let wanted = format!("STORM_TEST={token}");
    let holds = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(holds)
        .filter(|&pid| !is_gone(pid))
        .collect()
}

/// Whether a process has ended, reaped or not.
pub(crate) fn is_gone(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")),
        Err(_) => true,
    }
}

/// Waits until `condition` holds, and yields the CPU between checks.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < HANG, "waited in vain until {what}");
        let _ = nix::poll::poll(&mut [], 1u8);
    }
}

/// Adds the mark that `alive` searches for.
pub(crate) fn marked(mut spec: LaunchSpec, token: &str) -> LaunchSpec {
    spec.env.push(("STORM_TEST".into(), token.into()));
    spec
}

/// Sets the soft limit of another process of this user.
pub(crate) fn limit_other(pid: i32, soft: u64) -> std::io::Result<u64> {
    let (_, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)?;
    let new = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `new` is valid for the whole call, and nothing is written back.
    let result =
        unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const new, std::ptr::null_mut()) };
    if result == -1 { Err(std::io::Error::last_os_error()) } else { Ok(hard) }
}
