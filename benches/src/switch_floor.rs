//! The least cost of time-slicing two spinning processes on each processor of this machine. On each
//! processor, one bare real-time thread sleeps until the next slice, freezes one process and thaws
//! the other. There is no manager, no message and no job. No manager that stops processes at these
//! times can cost less.
//!
//! Also measures the cost of a thread that only wakes at these times and switches nothing. It is
//! the least for any manager that acts at these times.

use crate::spread::Spread;
use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use storm_pl::realtime::{DEFAULT_PRIORITY, become_realtime};
use storm_pl::{CgroupFreezer, Freezer, ProcessId, SignalFreezer, switch};

/// The extra time of two copies of a program in percent, from pairs of measurements.
#[derive(Clone, Copy, Debug)]
pub struct SwitchFloor {
    /// Taking turns compared with running one after the other.
    pub turns: Spread,
    /// One after the other with a thread that wakes at each quantum, compared with no such thread.
    pub wakes: Spread,
}

/// The cost of taking turns with a quantum, for two copies of a program on each of the processors,
/// over `runs` measurements.
///
/// # Errors
/// A program cannot be started, bound or frozen, or fails.
pub fn slowdown_percent(
    argv: &[String],
    processors: usize,
    quantum: Duration,
    runs: u32,
) -> Result<SwitchFloor> {
    let (mut turns, mut wakes) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let alone = on_each(processors, |_| one_after_the_other(argv))?;
        let longer = |than: Duration| (than.as_secs_f64() / alone.as_secs_f64() - 1.0) * 100.0;
        wakes.push(longer(on_each(processors, |_| with_a_waker(argv, quantum))?));
        turns.push(longer(on_each(processors, |_| take_turns(argv, quantum))?));
    }
    Ok(SwitchFloor { turns: Spread::of(turns), wakes: Spread::of(wakes) })
}

fn one_after_the_other(argv: &[String]) -> Result<()> {
    (0..2).try_for_each(|_| wait(Spinner::start(argv)?.child))
}

/// Runs them one after the other while a real-time thread wakes at each quantum on their processor.
fn with_a_waker(argv: &[String], quantum: Duration) -> Result<()> {
    let (going_on, ends) = mpsc::channel();
    thread::scope(|scope| {
        let waker = scope.spawn(move || wake(quantum, &ends));
        let done = one_after_the_other(argv);
        drop::<mpsc::Sender<()>>(going_on);
        let woke = waker.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")));
        done.and(woke)
    })
}

/// Runs until the sender of `ends` is dropped.
fn wake(quantum: Duration, ends: &mpsc::Receiver<()>) -> Result<()> {
    become_realtime(DEFAULT_PRIORITY)?;
    let mut due = Instant::now();
    loop {
        due += quantum;
        if ends.recv_timeout(due - Instant::now()) == Err(mpsc::RecvTimeoutError::Disconnected) {
            return Ok(());
        }
    }
}

/// Runs `work` on a thread bound to each processor. Returns the time until the last is done.
fn on_each(processors: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<Duration> {
    let since = Instant::now();
    thread::scope(|scope| {
        let bound = |cpu: usize| {
            let work = &work;
            move || {
                let mut cpus = CpuSet::new();
                cpus.set(cpu)?;
                // A child inherits the binding of this thread.
                sched_setaffinity(Pid::from_raw(0), &cpus)?;
                work(cpu)
            }
        };
        let threads: Vec<_> = (0..processors).map(|cpu| scope.spawn(bound(cpu))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
        })
    })?;
    Ok(since.elapsed())
}

/// A process, and its freezer.
struct Spinner {
    child: Child,
    freezer: Freezer,
    cgroup: Option<Cgroup>,
}

impl Spinner {
    fn start(argv: &[String]) -> Result<Spinner> {
        let (program, arguments) = argv.split_first().context("no program to run")?;
        let child = Command::new(program).args(arguments).stdin(Stdio::null()).spawn()?;
        let (freezer, cgroup) = match Cgroup::of(&child) {
            Ok(cgroup) => (Freezer::Cgroup(CgroupFreezer::open(&cgroup.0)?), Some(cgroup)),
            // Without cgroup v2 a process is stopped by a signal, as on the nodes.
            Err(_) => (Freezer::Signal(SignalFreezer::new(ProcessId(child.id() as i32))), None),
        };
        Ok(Spinner { child, freezer, cgroup })
    }
}

/// A control group with one process. It is removed when the process has ended.
struct Cgroup(PathBuf);

impl Cgroup {
    fn of(child: &Child) -> Result<Cgroup> {
        let mounts = procfs::process::Process::myself()?.mountinfo()?.0;
        let mount = mounts.into_iter().find(|mount| mount.fs_type == "cgroup2");
        let mount = mount.context("no cgroup v2 is mounted")?.mount_point;
        let cgroup = Cgroup(mount.join(format!("storm-floor-{}", child.id())));
        fs::create_dir(&cgroup.0)?;
        fs::write(cgroup.0.join("cgroup.procs"), child.id().to_string())?;
        Ok(cgroup)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Fails if an earlier failure left its process there.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Two copies take turns on the processor of the calling thread until both are over.
fn take_turns(argv: &[String], quantum: Duration) -> Result<()> {
    let (one, other) = (Spinner::start(argv)?, Spinner::start(argv)?);
    let (ended, ends) = mpsc::channel();
    thread::scope(|scope| {
        let freezers = [&one.freezer, &other.freezer];
        let switcher = scope.spawn(move || alternate(freezers, quantum, &ends));
        // The processes may end in either order: each reports its own end.
        let waiters = [one.child, other.child].map(|child| {
            let ended = ended.clone();
            scope.spawn(move || {
                let done = wait(child);
                let _ = ended.send(());
                done
            })
        });
        drop(ended);
        let joined = |thread: thread::ScopedJoinHandle<'_, Result<()>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
        };
        waiters.into_iter().map(joined).chain([joined(switcher)]).collect::<Result<()>>()
    })?;
    drop((one.cgroup, other.cgroup));
    Ok(())
}

/// Alternates until one of the two has ended. The other then continues alone.
fn alternate(freezers: [&Freezer; 2], quantum: Duration, ends: &mpsc::Receiver<()>) -> Result<()> {
    become_realtime(DEFAULT_PRIORITY)?;
    let mut due = Instant::now();
    let mut runs = 0;
    loop {
        switch([freezers[1 - runs]], [freezers[runs]])?;
        due += quantum;
        if ends.recv_timeout(due - Instant::now()).is_ok() {
            // Thaw the process that is left. Thawing the other one fails.
            freezers.iter().for_each(|freezer| drop(freezer.resume()));
            return Ok(());
        }
        runs = 1 - runs;
    }
}

fn wait(mut child: Child) -> Result<()> {
    let status = child.wait()?;
    ensure!(status.success(), "the program failed: {status}");
    Ok(())
}
