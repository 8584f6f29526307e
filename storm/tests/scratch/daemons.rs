//! Daemons that a test starts, each with a log of its own. On drop they are asked to end, and
//! waited for.

use super::Scratch;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

/// The daemons of a test, by name.
#[derive(Default)]
pub(crate) struct Daemons {
    started: Vec<(String, Child)>,
}

impl Daemons {
    /// Starts a daemon, with its log in `NAME.log`.
    pub(crate) fn start(&mut self, scratch: &Scratch, name: &str, mut command: Command) {
        let log = File::create(scratch.work().join(format!("{name}.log"))).expect("a log");
        let daemon = command.stderr(log).stdout(Stdio::null()).spawn().expect("it starts");
        self.started.push((name.to_owned(), daemon));
    }

    /// The process of a daemon.
    pub(crate) fn pid(&self, name: &str) -> u32 {
        let found = self.started.iter().find(|one| one.0 == name);
        found.map(|one| one.1.id()).expect("it was started")
    }

    /// Ends a daemon by a signal, and waits until it has ended.
    pub(crate) fn end(&mut self, name: &str, signal: Signal) {
        let at = self.started.iter().position(|one| one.0 == name).expect("it was started");
        let (_, mut daemon) = self.started.remove(at);
        kill(Pid::from_raw(daemon.id().cast_signed()), signal).expect("it lives");
        daemon.wait().expect("our child");
    }

    /// The log of a daemon.
    pub(crate) fn log(scratch: &Scratch, name: &str) -> String {
        fs::read_to_string(scratch.work().join(format!("{name}.log"))).unwrap_or_default()
    }

    /// Waits until `found` returns a value; all daemons must live meanwhile.
    pub(crate) fn wait_for<T>(&mut self, scratch: &Scratch, found: impl Fn() -> Option<T>) -> T {
        loop {
            if let Some(wanted) = found() {
                return wanted;
            }
            for (name, daemon) in &mut self.started {
                let alive = daemon.try_wait().expect("our child").is_none();
                assert!(alive, "{name}: {}", Daemons::log(scratch, name));
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for (_, daemon) in &mut self.started {
            let pid = Pid::from_raw(daemon.id().cast_signed());
            let _ = kill(pid, Signal::SIGTERM);
            // A stopped daemon must continue before it can end.
            let _ = kill(pid, Signal::SIGCONT);
        }
        for (_, daemon) in &mut self.started {
            let _ = daemon.wait();
        }
    }
}
