//! The time between two node managers. The node is a keeper, which continues the jobs for a bounded
//! time (`docs/decisions/0139-takeover-in-the-simulated-machine.md`).

use super::{ModelledHost, SIGKILL};
use crate::modelled::HostAct;
use crate::modelled::job::Job;
use crate::modelled::ledger::Ledger;
use crate::{Flaw, Host, HostEvent, Inherited, InheritedInput, JobKey, JobTask};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::Runtime;
use storm_rm::Rank;
use storm_rm::message::CutLaunch;

impl<R: Runtime> ModelledHost<R> {
    /// Begins a node manager here, so the keeper stops waiting for it.
    pub fn manager_begins(&self) {
        let inner = &self.inner;
        inner.has_manager.set(true);
        inner.asked_to_end.set(false);
        inner.left.set(false);
        drop(inner.bound.take());
    }

    /// Whether there is a node manager.
    pub fn has_manager(&self) -> bool {
        self.inner.has_manager.get()
    }

    /// Requests that the node manager end and leave its jobs to the next node manager, as SIGTERM
    /// does. The node manager notices the request when its link is closed.
    pub fn ask_to_end(&self) {
        self.inner.asked_to_end.set(true);
    }

    /// Ends the node manager. The jobs continue for the time in
    /// [`Model::returns`](crate::modelled::Model::returns). If no job is kept, all end at once.
    pub fn manager_ends(&self) {
        let inner = &self.inner;
        inner.has_manager.set(false);
        inner.events.clear();
        inner.ahead.withdraw();
        let jobs: Vec<(JobKey, Rc<Job<R>>)> =
            inner.jobs.borrow().iter().map(|(key, job)| (*key, job.clone())).collect();
        if jobs.iter().all(|(_, job)| job.ledger.is_none()) {
            self.end_all();
            return self.observe(HostAct::Left);
        }
        for (key, job) in jobs {
            // The classes belonged to the node manager.
            job.flexible.take();
            if job.is_resuming.replace(false) {
                job.switches.set(job.switches.get() + 1);
                self.observe(HostAct::Stop(key));
            }
            if job.cut.get() != Some(CutLaunch::NotKept) {
                // A node manager that ends before any rank executes has not ordered all ranks to
                // start.
                let processes = job.processes.borrow();
                let has_begun = processes.values().any(|one| !one.known_events().is_empty());
                job.cut.set((!has_begun).then_some(CutLaunch::Interrupted));
            }
            if job.ledger.is_none() {
                self.observe(HostAct::Destroy(key));
                self.signal_all(key, SIGKILL);
            }
        }
        self.wait_for_next();
    }

    /// The keeper has no descriptors for a part of the job: the job does not outlive the node
    /// manager.
    pub fn keep_in_part(&self, job: JobKey) {
        self.job(job).inspect(|job| job.cut.set(Some(CutLaunch::NotKept)));
    }

    /// Cuts the power: nothing continues, and nothing is reported.
    pub fn power_off(&self) {
        self.inner.has_manager.set(false);
        self.end_all();
    }

    /// Ends everything if no node manager arrives in time.
    fn wait_for_next(&self) {
        let (this, keeper) = (self.clone(), self.inner.keeper.borrow().clone());
        let (own, within) = (keeper.clone(), self.keeps_jobs().unwrap_or(Duration::ZERO));
        let bound = keeper.spawn(async move {
            own.sleep(within).await;
            // This task must not cancel itself.
            this.inner.bound.take().into_iter().for_each(storm_primitives::Task::detach);
            this.end_all();
            this.observe(HostAct::KeeperEnded);
        });
        drop(self.inner.bound.replace(Some(bound)));
    }

    /// Ends all processes and jobs.
    pub(super) fn end_all(&self) {
        let inner = &self.inner;
        let jobs = inner.jobs.take();
        jobs.keys().for_each(|job| inner.leases.borrow_mut().forget(*job));
        drop(inner.bound.take());
        drop(inner.ahead.withdraw());
        inner.events.clear();
        inner.tasks.cancel();
        inner.boosting.set(false);
    }

    /// Makes the ledger of a job for the next node manager, if the job can outlive the present node
    /// manager.
    pub(super) fn ledger_of(&self, task: &Rc<JobTask>) -> Option<Ledger> {
        self.keeps_jobs().map(|_| Ledger::new(task.clone()))
    }

    /// Notes that a request left its socket.
    pub(super) fn request_taken(&self, key: JobKey, rank: Rank, line: &str) {
        let Some(job) = self.job(key) else { return };
        let (Some(ledger), Some(process)) = (&job.ledger, self.process(key, rank)) else { return };
        process.request_taken(ledger.log_line(rank, line));
    }

    /// The jobs for the node manager that begins. Events report anew to this node manager how far
    /// the jobs' ranks are.
    pub(super) fn hand_over_jobs(&self) -> Vec<Inherited> {
        self.inner.events.clear();
        let jobs = self.inner.jobs.borrow();
        jobs.iter().filter_map(|(key, job)| self.hand_over_job(*key, job)).collect()
    }

    fn hand_over_job(&self, key: JobKey, job: &Job<R>) -> Option<Inherited> {
        let ledger = job.ledger.as_ref()?;
        if ledger.lease_over.get() {
            // Report this event first, so that the killed ranks do not count as failed.
            self.inner.events.push(HostEvent::LeaseOver { job: key });
        }
        // The next node manager knows the rows of the launch and must receive any others.
        let rows = ledger.task.launch.rows;
        if job.rows.replace(rows) != rows {
            self.observe(HostAct::Rows { job: key, rows });
        }
        let processes = job.processes.borrow();
        for event in processes.values().flat_map(|process| process.known_events()) {
            self.inner.events.push(event);
        }
        let asked = processes.iter().filter_map(|(rank, one)| Some((*rank, one.open_request()?)));
        let taken = |(rank, one): (&Rank, &Rc<super::Process<R>>)| InheritedInput {
            rank: *rank,
            taken_bytes: one.stdin.written_bytes.get(),
        };
        Some(Inherited {
            task: ledger.task.clone(),
            stopped: job.freezer.is_frozen(),
            pmi: ledger.pmi(),
            open_requests: asked
                .map(|(rank, open)| (rank, (!open.logged).then_some(open.line)))
                .collect(),
            inputs: processes.iter().map(taken).collect(),
            outputs: ledger.outputs(),
            flaw: job.cut.get().map(Flaw::LaunchCut),
        })
    }
}
