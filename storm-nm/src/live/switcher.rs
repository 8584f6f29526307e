//! The thread that begins slices by the node's own clock. The thread freezes and thaws jobs at the
//! times that it was given. A slice costs its processor only a wake-up and the writes of the
//! switch. `Turns` decides what slots mean for jobs under flexible coscheduling.

use super::flexible::Turns;
use crate::ahead::DueSwitch;
use crate::{JobKey, SwitchAhead, SwitchDone, SwitchedJobs};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant as Monotonic;
use storm_pl::realtime::become_realtime;
use storm_pl::{Freezer, SwitchError};
use storm_primitives::Instant;

/// Orders future switches from a thread, which is started by the first order.
#[derive(Debug)]
pub(super) struct Switcher {
    shared: Arc<Shared>,
    /// Decides what slots mean for jobs under flexible coscheduling.
    turns: Turns,
    priority: Option<u8>,
    started: Cell<bool>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// In the order of time.
    plan: VecDeque<SwitchAhead>,
    freezers: BTreeMap<JobKey, Arc<Freezer>>,
    /// The processors of the jobs that it switches; empty if they run anywhere. Stopping a process
    /// on another processor takes an interrupt there.
    cpus: BTreeSet<u16>,
    /// Whether these processors have changed.
    moves: bool,
    done: Done,
    clock: Option<Clock>,
    /// When the thread next checks the time by itself; `None` while it waits for a plan.
    looks: Option<Instant>,
    over: bool,
}

/// The switches that were done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// In the order of time.
    pub(super) switches: Vec<SwitchDone>,
    /// The jobs of each switch.
    jobs: Vec<Arc<SwitchedJobs>>,
}

impl Done {
    fn add(&mut self, due: DueSwitch, times: (Instant, Instant)) {
        self.switches.extend(due.done(times));
        self.jobs.push(due.jobs);
    }

    /// For each job, whether the last switch stopped it (true) or resumed it.
    pub(super) fn stopped(&self) -> BTreeMap<JobKey, bool> {
        let (mut last, mut seen) = (BTreeMap::new(), BTreeSet::new());
        // Rows in turn share a few sets of jobs, so each set is visited once.
        for jobs in self.jobs.iter().rev().filter(|jobs| seen.insert(Arc::as_ptr(jobs))) {
            for (keys, stopped) in [(&jobs.resume, false), (&jobs.stop, true)] {
                for key in keys {
                    last.entry(*key).or_insert(stopped);
                }
            }
        }
        last
    }
}

/// The clock of the node manager, and the clock that this thread sleeps by.
#[derive(Clone, Copy, Debug)]
struct Clock {
    node: Instant,
    here: Monotonic,
}

impl Clock {
    fn now(self) -> Instant {
        self.node + self.here.elapsed()
    }
}

impl Switcher {
    /// Makes the thread a real-time thread of this priority, if there is any.
    pub(super) fn new(priority: Option<u8>, turns: Turns) -> Switcher {
        Switcher { shared: Arc::default(), turns, priority, started: Cell::new(false) }
    }

    /// Orders these switches, in the order of time, with the freezers of their jobs. The thread
    /// runs on one of `cpus`, if there are any. Returns whether there is a thread to do them.
    pub(super) fn order(
        &self,
        now: Instant,
        plan: Vec<SwitchAhead>,
        freezers: BTreeMap<JobKey, Arc<Freezer>>,
        cpus: BTreeSet<u16>,
    ) -> bool {
        let here = Monotonic::now();
        if !self.start() {
            return false;
        }
        let mut state = self.shared.lock();
        state.clock = Some(Clock { node: now, here });
        state.moves |= state.cpus != cpus;
        (state.plan, state.freezers, state.cpus) = (plan.into(), freezers, cpus);
        // Reserve memory here: the real-time thread must not allocate.
        let State { plan, done, .. } = &mut *state;
        done.switches.reserve(plan.len());
        done.jobs.reserve(plan.len());
        // Wake the thread only if its next check would be too late. An early check finds nothing to
        // do and does no harm.
        let looks_late = match (state.next(), state.looks) {
            (Some(due), Some(looks)) => due < looks,
            (due, None) => due.is_some(),
            (None, Some(_)) => false,
        };
        drop(state);
        if looks_late {
            self.shared.changed.notify_one();
        }
        true
    }

    /// Withdraws the switches that were not done. Returns those that were done since the last call.
    pub(super) fn withdraw(&self) -> Done {
        let mut state = self.shared.lock();
        if let Some(clock) = state.clock {
            // Slices that switch nothing begin without the thread.
            let now = clock.now();
            if let Some(due) = state.take_idle(now) {
                state.done.add(due, (now, now));
            }
        }
        state.plan.clear();
        state.freezers.clear();
        std::mem::take(&mut state.done)
    }

    /// Whether the thread is there. If the thread could not be made, tries again.
    fn start(&self) -> bool {
        if self.started.get() {
            return true;
        }
        let (shared, turns, priority) = (self.shared.clone(), self.turns.clone(), self.priority);
        let named = std::thread::Builder::new().name("storm-switch".to_owned());
        match named.spawn(move || switch_when_due(&shared, &turns, priority)) {
            Ok(_) => self.started.set(true),
            Err(error) => tracing::error!(%error, "nobody begins the slices of this node"),
        }
        self.started.get()
    }
}

impl Drop for Switcher {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic can only spoil the plan, and the plan is withdrawn as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The time of the next switch that stops or resumes a job.
    fn next(&self) -> Option<Instant> {
        self.plan.iter().find(|ahead| !ahead.jobs.is_empty()).map(|ahead| ahead.due)
    }

    /// Takes a due switch that stops and resumes no job.
    fn take_idle(&mut self, now: Instant) -> Option<DueSwitch> {
        let before_next = |next: Instant| Instant::from_nanos(next.as_nanos().saturating_sub(1));
        let until = self.next().map_or(now, |next| now.min(before_next(next)));
        DueSwitch::take(&mut self.plan, until)
    }

    /// Does the switches due at `before`, the present time. The caller reports the error after it
    /// has released the state.
    fn switch(&mut self, turns: &Turns, clock: Clock, before: Instant) -> Result<(), SwitchError> {
        let Some(due) = DueSwitch::take(&mut self.plan, before) else { return Ok(()) };
        let freezer = |job: &JobKey| self.freezers.get(job).map(AsRef::as_ref);
        let turned = turns.turn(&due.jobs.stop, &due.jobs.resume);
        let (stop, resume) = (turned.stop.iter(), turned.resume.iter());
        let switched = storm_pl::switch(stop.filter_map(freezer), resume.filter_map(freezer));
        drop(turned);
        self.done.add(due, (before, clock.now()));
        switched
    }
}

/// Runs until the end. The plan does not change while jobs are switched.
fn switch_when_due(shared: &Shared, turns: &Turns, priority: Option<u8>) {
    if let Some(priority) = priority
        && let Err(refused) = become_realtime(priority)
    {
        tracing::warn!(%refused, "slices are begun by an ordinary thread");
    }
    let mut state = shared.lock();
    while !state.over {
        if std::mem::take(&mut state.moves) {
            keep_to(&state.cpus);
        }
        let (next, clock) = (state.next(), state.clock);
        state.looks = next;
        let (Some(due), Some(clock)) = (next, clock) else {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let now = clock.now();
        let wait = due - now;
        if wait.is_zero() {
            if let Err(error) = state.switch(turns, clock, now) {
                // The log may be slow, and the node manager waits for the state.
                drop(state);
                tracing::warn!(error = crate::reason::explain(&error), "a switch was not complete");
                state = shared.lock();
            }
        } else {
            let woken = shared.changed.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Restricts the calling thread to these processors, if there are any.
fn keep_to(cpus: &BTreeSet<u16>) {
    let mut set = CpuSet::new();
    let all = 0..CpuSet::count() as u16;
    let wanted = all.filter(|cpu| cpus.is_empty() || cpus.contains(cpu));
    // No number is out of range, and the kernel ignores missing processors.
    wanted.for_each(|cpu| {
        let _ = set.set(usize::from(cpu));
    });
    if let Err(error) = sched_setaffinity(Pid::from_raw(0), &set) {
        tracing::debug!(%error, "the thread that begins slices runs anywhere");
    }
}

#[cfg(test)]
mod tests {
    use super::super::flexible::Flexible;
    use super::*;
    use std::process::{Child, Command};
    use storm_pl::{ProcessId, SignalFreezer};
    use storm_rm::message::Strobe;
    use storm_rm::{JobId, JobIncarnation, PartitionId, Row, StepRef};

    const JOB: JobKey = JobKey { step: StepRef::program(JobId(1)), incarnation: JobIncarnation(1) };

    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Sleeper {
            Sleeper(Command::new("sleep").arg("60").spawn().unwrap())
        }

        fn freezers(&self) -> BTreeMap<JobKey, Arc<Freezer>> {
            let freezer = SignalFreezer::new(ProcessId(self.0.id() as i32));
            BTreeMap::from([(JOB, Arc::new(Freezer::Signal(freezer)))])
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    fn switcher() -> Switcher {
        let (events, _) = tokio::sync::mpsc::channel(1);
        Switcher::new(None, Flexible::new(1, events).turns())
    }

    fn ahead(number: u64, due: Instant, stop: &[JobKey]) -> SwitchAhead {
        let strobe = Strobe { partition: PartitionId(0), row: Row(0), number, issued_ns: 0 };
        let jobs = Arc::new(SwitchedJobs { stop: stop.to_vec(), resume: Vec::new() });
        SwitchAhead { due, strobe, jobs }
    }

    fn numbers(done: &Done) -> Vec<u64> {
        done.switches.iter().map(|done| done.strobe.number).collect()
    }

    #[test]
    fn due_switches_are_made_and_reported_once() {
        let (switcher, job) = (switcher(), Sleeper::new());
        let now = Instant::from_nanos(1_000_000_000);
        let done = loop {
            // The switch may be withdrawn before it is done; order it again then.
            let plan = vec![ahead(1, now, &[JOB])];
            assert!(switcher.order(now, plan, job.freezers(), BTreeSet::from([0])));
            std::thread::yield_now();
            let done = switcher.withdraw();
            if !done.switches.is_empty() {
                break done;
            }
        };
        assert_eq!(numbers(&done), [1]);
        assert_eq!(done.stopped(), BTreeMap::from([(JOB, true)]));
        let switch = done.switches[0];
        assert!(now <= switch.before && switch.before <= switch.after);
        assert_eq!(switcher.withdraw(), Done::default());
    }

    #[test]
    fn slices_that_switch_nothing_begin_without_the_thread() {
        let (switcher, job) = (switcher(), Sleeper::new());
        let (now, hour) = (Instant::from_nanos(5), std::time::Duration::from_secs(3600));
        let plan = vec![ahead(1, now, &[]), ahead(2, now, &[]), ahead(3, now + hour, &[JOB])];
        assert!(switcher.order(now, plan, job.freezers(), BTreeSet::new()));
        assert_eq!(numbers(&switcher.withdraw()), [2], "the last of those that are late");
        assert_eq!(switcher.withdraw(), Done::default(), "the third was withdrawn");
    }
}
