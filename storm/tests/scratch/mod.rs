//! The directories of a test of the program: a work directory, and a runtime directory, so that the
//! cluster that `storm up` keeps there is this test's alone.
//!
//! This module starts no clusters, but ends the one that a test has kept.

#![allow(dead_code, reason = "each test program uses what it needs")]

pub(crate) mod caller;
pub(crate) mod daemons;
pub(crate) mod hosts;
pub(crate) mod keyed_cluster;
pub(crate) mod mpi_program;
pub(crate) mod real_cluster;
pub(crate) mod site;

use nix::unistd::User;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Most commands while a test waits for something: some seconds.
const MAX_POLLS: usize = 10_000;

/// The user and group of `nobody`.
const NOBODY: u32 = 65_534;

/// The `storm` of this build.
pub(crate) const STORM: &str = env!("CARGO_BIN_EXE_storm");

/// The `sweep3d` of this build.
pub(crate) fn sweep3d() -> PathBuf {
    let path = Path::new(STORM).with_file_name("sweep3d");
    assert!(path.exists(), "{} is missing: build it with `cargo build -p sweep3d`", path.display());
    path
}

/// Directories of a test.
pub(crate) struct Scratch {
    runtime: TempDir,
    work: TempDir,
    /// Commands run as nobody, although this is root.
    as_nobody: bool,
}

impl Scratch {
    /// Makes the directories.
    pub(crate) fn make() -> Scratch {
        let made = || tempfile::tempdir().expect("a directory can be made");
        Scratch { runtime: made(), work: made(), as_nobody: false }
    }

    /// As [`make`](Self::make), for an ordinary user, who has no control groups; nothing where root
    /// cannot be one.
    pub(crate) fn make_for_ordinary_user() -> Option<Scratch> {
        let mut scratch = Scratch::make();
        if nix::unistd::geteuid().is_root() {
            for directory in [&scratch.runtime, &scratch.work] {
                std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY)).ok()?;
            }
            scratch.as_nobody = true;
            let tried = scratch.command("true").status();
            tried.is_ok_and(|status| status.success()).then_some(scratch)
        } else {
            Some(scratch)
        }
    }

    /// A name that no other cluster on this host has: nodes of the same name in clusters of the
    /// same name are the same.
    pub(crate) fn cluster(&self) -> String {
        let unique = self.work().file_name().and_then(OsStr::to_str).expect("text");
        format!("test-{}", unique.trim_start_matches('.'))
    }

    /// The directory in which commands run.
    pub(crate) fn work(&self) -> &Path {
        self.work.path()
    }

    /// A command for a program that sees this test's cluster and no other.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command =
            Command::new(if self.as_nobody { "setpriv".as_ref() } else { program.as_ref() });
        if self.as_nobody {
            let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
            command.args(ids).arg("--clear-groups").arg("--").arg(program.as_ref());
        }
        command
            .current_dir(self.work.path())
            .env("XDG_RUNTIME_DIR", self.runtime.path())
            .env_remove("STORM_SOCKET")
            .env_remove("STORM_MANAGER")
            .env_remove("STORM_CLIENT_KEY")
            .stdin(Stdio::null());
        command
    }

    /// `storm` with these arguments.
    pub(crate) fn storm<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.command(STORM);
        command.args(arguments);
        command
    }

    /// The result of `storm` with these words.
    pub(crate) fn does(&self, words: &str) -> Output {
        self.storm(words.split_whitespace()).output().expect("storm starts")
    }

    /// The output of `storm`, which must succeed.
    pub(crate) fn prints(&self, words: &str) -> String {
        let done = self.does(words);
        assert!(done.status.success(), "storm {words}: {}", told(&done));
        String::from_utf8(done.stdout).expect("it is text")
    }

    /// The output of `storm` with `--json`.
    pub(crate) fn json(&self, words: &str) -> Value {
        let text = self.prints(&format!("{words} --json"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("storm {words}: {error}: {text}"))
    }

    /// Repeats the query until `found` returns a value.
    pub(crate) fn wait_for<T>(&self, words: &str, found: impl Fn(&Value) -> Option<T>) -> T {
        let mut last = Value::Null;
        for _ in 0..MAX_POLLS {
            last = self.json(words);
            if let Some(wanted) = found(&last) {
                return wanted;
            }
        }
        panic!("storm {words} does not come to it: {last}")
    }

    /// The command lines of the [`own`](Self::own) processes. A process that is ending and has
    /// freed its memory has none.
    pub(crate) fn processes(&self) -> Vec<String> {
        let line = |process: &PathBuf| fs::read_to_string(process.join("cmdline")).ok();
        self.own().iter().filter_map(line).filter(|line| !line.is_empty()).collect()
    }

    /// The [`own`](Self::own) processes with this argument, and the parent of each.
    pub(crate) fn pids_of(&self, argument: &str) -> Vec<(i32, i32)> {
        let found = |process: &PathBuf| {
            let line = fs::read_to_string(process.join("cmdline")).ok()?;
            line.split('\0').find(|word| *word == argument)?;
            let status = fs::read_to_string(process.join("status")).ok()?;
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
            let pid = process.file_name()?.to_str()?;
            Some((pid.parse().ok()?, parent.trim().parse().ok()?))
        };
        self.own().iter().filter_map(found).collect()
    }

    /// The peak memory of each of the [`own`](Self::own) processes in KiB, with its command line.
    pub(crate) fn peak_memory_kib(&self) -> Vec<(u64, String)> {
        let peak = |process: &PathBuf| {
            let status = fs::read_to_string(process.join("status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
            let kib = line.trim().trim_end_matches(" kB").parse().ok()?;
            Some((kib, fs::read_to_string(process.join("cmdline")).unwrap_or_default()))
        };
        self.own().iter().filter_map(peak).collect()
    }

    /// Processes with this test's runtime directory in their environment, as directories of /proc.
    /// Both daemons and ranks inherit the variable.
    fn own(&self) -> Vec<PathBuf> {
        let marker = format!("XDG_RUNTIME_DIR={}", self.runtime.path().display());
        let ours = |process: &Path| {
            let environment = fs::read(process.join("environ")).ok()?;
            let mut variables = environment.split(|&byte| byte == 0);
            variables.any(|variable| variable == marker.as_bytes()).then(|| process.to_owned())
        };
        let all = fs::read_dir("/proc").expect("/proc is there").flatten().filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok())
        });
        all.filter_map(|entry| ours(&entry.path())).collect()
    }

    /// Fails if a process of this test is left.
    pub(crate) fn assert_nothing_runs(&self) {
        assert_eq!(self.processes(), Vec::<String>::new());
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Fails harmlessly without a kept cluster.
        let _ = self.storm(["down"]).output();
    }
}

/// Adds to a command for `setpriv` that it becomes `storm` with these words, as a user with a clean
/// environment. Root is needed.
pub(crate) fn storm_as(setpriv: &mut Command, user: &str, words: &str) {
    let ids = User::from_name(user).expect("a database").expect("of any Debian");
    setpriv.args([format!("--reuid={}", ids.uid), format!("--regid={}", ids.gid)]);
    setpriv.args(["--init-groups", "env", "-i", "PATH=/usr/bin:/bin", STORM]);
    setpriv.args(words.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// All output of a command.
pub(crate) fn told(done: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}\n{}", done.status, text(&done.stdout), text(&done.stderr))
}

/// Standard output as text.
pub(crate) fn stdout(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Standard error as text.
pub(crate) fn stderr(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}
