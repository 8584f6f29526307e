//! The modelled node, with the faults that a test can inject.

mod as_host;
mod handing_over;
mod leases;

use super::ahead::Ahead;
use super::daemon_time::DaemonTime;
use super::disk::Disk;
use super::job::Job;
use super::process::{Events, Process};
use super::processor::Processor;
use super::share::Share;
use super::{HostAct, Model};
use crate::classes::ClassRules;
use crate::leases::Leases;
use crate::task_set::TaskSet;
use crate::{Host, HostEvent, JobKey, JobTask};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Runtime, Task};
use storm_rm::{Coscheduling, FileSpec, JobIncarnation, Program, Rank, RowSet};

const SIGKILL: i32 = 9;

/// A modelled node. Clones are the same node.
#[derive(Debug)]
pub struct ModelledHost<R: Runtime> {
    inner: Rc<Inner<R>>,
}

#[derive(Debug)]
struct Inner<R: Runtime> {
    runtime: R,
    model: Rc<Model>,
    disk: Rc<Disk>,
    events: Rc<Events>,
    jobs: RefCell<BTreeMap<JobKey, Rc<Job<R>>>>,
    /// The keeper's runtime.
    keeper: RefCell<R>,
    leases: RefCell<Leases>,
    daemon: Rc<DaemonTime>,
    /// Processors that jobs share if they run at once.
    processors: Vec<Rc<Processor>>,
    /// Whether processes that wait for a message that has arrived are boosted now and then.
    boosting: Cell<bool>,
    ahead: Ahead,
    tasks: TaskSet,
    left: Cell<bool>,
    /// Whether there is a node manager. Without a node manager the node is a keeper.
    has_manager: Cell<bool>,
    asked_to_end: Cell<bool>,
    /// The first run of a job for which the node can have received a command, by the node manager's
    /// last note.
    first_run: Cell<Option<JobIncarnation>>,
    /// The task that ends the jobs if no node manager claims them in time.
    bound: RefCell<Option<Task>>,
    stalled: Cell<bool>,
    /// The time of a computation in percent of its nominal time.
    percent: Cell<u32>,
    /// The rules of flexible coscheduling for classes.
    rules: Cell<ClassRules>,
}

impl<R: Runtime> Clone for ModelledHost<R> {
    fn clone(&self) -> Self {
        ModelledHost { inner: self.inner.clone() }
    }
}

impl<R: Runtime> ModelledHost<R> {
    /// A node without jobs, with an empty cache.
    pub fn new(runtime: R, model: Model) -> ModelledHost<R> {
        let time = model.write_time_per_byte;
        let disk = Disk::new(model.cache_bytes, time, model.check_content);
        let processor = |_| Rc::new(Processor::new(model.os.slice));
        let inner = Inner {
            processors: (0..model.pes).map(processor).collect(),
            boosting: Cell::default(),
            keeper: RefCell::new(runtime.clone()),
            leases: RefCell::default(),
            runtime,
            model: Rc::new(model),
            disk: Rc::new(disk),
            events: Rc::default(),
            jobs: RefCell::default(),
            daemon: Rc::default(),
            ahead: Ahead::default(),
            tasks: TaskSet::default(),
            left: Cell::default(),
            has_manager: Cell::default(),
            asked_to_end: Cell::default(),
            first_run: Cell::default(),
            bound: RefCell::default(),
            stalled: Cell::default(),
            percent: Cell::new(100),
            rules: Cell::default(),
        };
        ModelledHost { inner: Rc::new(inner) }
    }

    /// Sets the rules by which flexible coscheduling classifies processes of later jobs.
    pub fn judge_by(&self, rules: ClassRules) {
        self.inner.rules.set(rules);
    }

    /// Runs the keeper on its own runtime, so that it does not stand still with the node manager.
    pub fn keep_on(&self, keeper: R) {
        self.inner.keeper.replace(keeper);
    }

    /// Makes writes fail for lack of room, or work again.
    pub fn fill_disk(&self, full: bool) {
        self.inner.disk.full.set(full);
    }

    /// Sets the time to write a byte.
    pub fn slow_disk(&self, write_time_per_byte: Duration) {
        self.inner.disk.write_time_per_byte.set(write_time_per_byte);
    }

    /// Makes processes hang between the order to start and their execution, or start normally
    /// again.
    pub fn stall_starts(&self, stalled: bool) {
        self.inner.stalled.set(stalled);
    }

    /// Sets the time in which processes start and compute, in percent of their nominal time: 300 is
    /// three times slower, 100 is the nominal speed.
    pub fn slow_processors(&self, percent: u32) {
        self.inner.percent.set(percent.max(1));
        self.inner.jobs.borrow().values().for_each(|job| job.freezer.slow(percent.max(1)));
    }

    /// Kills the keeper, and all processes with it.
    pub fn lose_processes(&self) {
        self.inner.jobs.borrow_mut().clear();
        self.inner.tasks.cancel();
        self.inner.events.push(HostEvent::Lost);
    }

    /// CPU time that a rank has used so far; zero if the rank is unknown.
    pub fn cpu_time(&self, job: JobKey, rank: Rank) -> Duration {
        self.process(job, rank).map_or(Duration::ZERO, |process| process.cpu_time())
    }

    /// How often the node manager withdrew the switches that it had ordered ahead.
    pub fn withdrawals(&self) -> u64 {
        self.inner.ahead.withdrawals()
    }

    /// Number of processes alive.
    pub fn live_processes(&self) -> usize {
        let jobs = self.inner.jobs.borrow();
        let alive = |job: &Rc<Job<R>>| {
            job.processes.borrow().values().filter(|process| !process.ended.get()).count()
        };
        jobs.values().map(alive).sum()
    }

    /// Whether the node manager has left and nothing of it remains.
    pub fn is_clean(&self) -> bool {
        self.inner.left.get() && self.inner.jobs.borrow().is_empty()
    }

    fn job(&self, key: JobKey) -> Option<Rc<Job<R>>> {
        self.inner.jobs.borrow().get(&key).cloned()
    }

    fn process(&self, key: JobKey, rank: Rank) -> Option<Rc<Process<R>>> {
        self.job(key)?.processes.borrow().get(&rank).cloned()
    }

    /// A share of the processor with the fewest processes, if several jobs run at once.
    fn share(
        &self,
        who: (JobKey, Rank),
        coscheduling: Coscheduling,
        rows: RowSet,
    ) -> Option<Share> {
        if coscheduling == Coscheduling::Strobed {
            return None;
        }
        let crowd = |processor: &&Rc<Processor>| (processor.tenants_of(rows), processor.tenants());
        let processor = self.inner.processors.iter().min_by_key(crowd);
        let model = &self.inner.model;
        if coscheduling == Coscheduling::PeriodicBoost && !self.inner.boosting.replace(true) {
            let (this, period) = (self.clone(), model.os.boost_period);
            self.inner.tasks.spawn(&self.inner.runtime, async move { this.boost(period).await });
        }
        Some(Share::new(processor?.clone(), model, who, (coscheduling, rows)))
    }

    /// Boosts processes periodically, as long as there are any.
    async fn boost(&self, period: Duration) {
        loop {
            self.inner.runtime.sleep(period).await;
            let processors = &self.inner.processors;
            if processors.iter().all(|processor| processor.tenants() == 0) {
                self.inner.boosting.set(false);
                return;
            }
            let now = self.inner.runtime.now();
            processors.iter().for_each(|processor| processor.boost(now));
        }
    }

    fn observe(&self, act: HostAct) {
        (self.inner.model.observer)(&act);
    }

    fn set_stopped(&self, key: JobKey, stopped: bool) {
        if let Some(job) = self.job(key) {
            job.switches.set(job.switches.get() + 1);
            job.is_resuming.set(false);
            if job.set_stopped(stopped, self.inner.runtime.now()) {
                self.observe(HostAct::Classified { job: key, ranks: self.classes(key) });
                self.inner.events.push(HostEvent::Classified { job: key });
            }
        }
    }

    /// Resumes a job after a delay, unless it is switched before.
    fn resume_after(&self, key: JobKey, delay: Duration) {
        let Some(job) = self.job(key).filter(|_| !delay.is_zero()) else {
            return self.set_stopped(key, false);
        };
        let switch = job.switches.get() + 1;
        job.switches.set(switch);
        job.is_resuming.set(true);
        let (timer, runtime) = (self.inner.runtime.sleep(delay), self.inner.runtime.clone());
        self.inner.tasks.spawn(&self.inner.runtime, async move {
            timer.await;
            if job.switches.get() == switch {
                job.is_resuming.set(false);
                job.set_stopped(false, runtime.now());
            }
        });
    }

    fn signal_all(&self, key: JobKey, signal: i32) {
        if let Some(job) = self.job(key) {
            let processes = job.processes.borrow();
            processes.values().filter(|p| !p.ended.get()).for_each(|p| p.signal(signal));
        }
    }

    fn close_outputs(&self, key: JobKey) {
        if let Some(job) = self.job(key) {
            for process in job.processes.borrow().values() {
                process.stdout.close();
                process.stderr.close();
            }
        }
    }

    /// A shipped file that a job needs in its directory and that is missing.
    fn missing_file(&self, task: &JobTask) -> Option<String> {
        let spec = task.spec();
        let program = match &spec.step.program {
            Program::Shipped(file) => Some(file),
            Program::OnNodes(_) => None,
        };
        let local = |file: &&FileSpec| file.destination.is_job_directory();
        let now = self.inner.runtime.now();
        let missing = |file: &&FileSpec| !self.inner.disk.has(spec.owner, file.hash, now);
        let mut files = spec.step.files.iter().chain(program).filter(local);
        files.find(missing).map(|file| file.name.to_string_lossy().into_owned())
    }
}
