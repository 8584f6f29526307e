//! The host of a simulated node. If the machine has a [`Defect`], the defect sits between the host
//! and the node manager.

use crate::machine::name_of;
use crate::{Defect, Switch};
use bytes::Bytes;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storm_nm::modelled::{ModelledHost, ModelledSink};
use storm_nm::{
    Content, Host, HostEvent, Inherited, JobKey, JobTask, LaunchRefused, SwitchAhead, SwitchDone,
    SwitchedJobs, Whom,
};
use storm_primitives::sim::SimRuntime;
use storm_primitives::{Instant, NodeId};
use storm_rm::message::{NodeInfo, NodeStatus, ReceiveFile, Report, Stream, Strobe};
use storm_rm::{Coscheduling, FileSpec, Owner, Rank, RankClass, RowSet, StepRef};

/// See the module.
pub(crate) struct FlawedHost {
    pub(crate) node: NodeId,
    pub(crate) inner: ModelledHost<SimRuntime>,
    pub(crate) defect: Option<Rc<dyn Defect>>,
}

impl Host for FlawedHost {
    type Sink = ModelledSink<SimRuntime>;

    fn info(&self, node: NodeId) -> NodeInfo {
        self.inner.info(node)
    }

    fn name(&self, _number: NodeId) -> String {
        name_of(self.node)
    }

    fn is_asked_to_end(&self) -> bool {
        self.inner.is_asked_to_end()
    }

    fn keeps_jobs(&self) -> Option<Duration> {
        self.inner.keeps_jobs()
    }

    fn inherit(&self) -> Vec<Inherited> {
        let mut inherited = self.inner.inherit();
        if let Some(defect) = &self.defect {
            inherited.retain(|one| defect.takes_over(self.node, one.task.key()));
        }
        inherited
    }

    fn remember_fence(&self, step: StepRef, sequence: u64, puts: &[(String, String)]) {
        self.inner.remember_fence(step, sequence, puts);
    }

    fn output_offset(&self, job: JobKey, rank: Rank, stream: Stream) -> u64 {
        self.inner.output_offset(job, rank, stream)
    }

    fn kept_output(&self, job: JobKey) -> Option<Vec<Report>> {
        self.inner.kept_output(job)
    }

    fn detach(&self) {
        self.inner.detach();
    }

    fn status(&self) -> NodeStatus {
        self.inner.status()
    }

    async fn content(&self, announced: &ReceiveFile) -> io::Result<Content<Self::Sink>> {
        self.inner.content(announced).await
    }

    async fn place(&self, owner: Owner, file: &FileSpec) -> Result<(), LaunchRefused> {
        self.inner.place(owner, file).await
    }

    async fn prepare(&self, task: &Rc<JobTask>) -> Result<(), LaunchRefused> {
        self.inner.prepare(task).await
    }

    fn launch(&self, task: &Rc<JobTask>, stopped: bool) {
        let times = self.defect.as_ref().map_or(1, |it| it.launches(self.node, task.key()));
        (0..times).for_each(|_| self.inner.launch(task, stopped));
    }

    async fn attend(&self) {
        self.inner.attend().await;
    }

    fn renew_leases(&self, jobs: &[JobKey], term: Duration) {
        self.inner.renew_leases(jobs, term);
    }

    fn switch(&self, strobe: Option<&Strobe>, stop: &[JobKey], resume: &[JobKey]) {
        let Some(defect) = &self.defect else { return self.inner.switch(strobe, stop, resume) };
        let ordered =
            Switch { strobe: strobe.copied(), stop: stop.to_vec(), resume: resume.to_vec() };
        for Switch { strobe, stop, resume } in defect.switches(self.node, ordered) {
            self.inner.switch(strobe.as_ref(), &stop, &resume);
        }
    }

    fn switch_ahead(&self, now: Instant, plan: Vec<SwitchAhead>) -> bool {
        let Some(defect) = &self.defect else { return self.inner.switch_ahead(now, plan) };
        let mut flawed = Vec::new();
        for SwitchAhead { due, strobe, jobs } in plan {
            // The slice begins even if the defect drops its switch.
            flawed.push(SwitchAhead { due, strobe, jobs: Arc::default() });
            let SwitchedJobs { stop, resume } = SwitchedJobs::clone(&jobs);
            let ordered = Switch { strobe: Some(strobe), stop, resume };
            let done = defect.switches(self.node, ordered).into_iter();
            flawed.extend(done.map(|Switch { stop, resume, .. }| SwitchAhead {
                due,
                strobe,
                jobs: Arc::new(SwitchedJobs { stop, resume }),
            }));
        }
        self.inner.switch_ahead(now, flawed)
    }

    fn withdraw_ahead(&self) -> Vec<SwitchDone> {
        self.inner.withdraw_ahead()
    }

    fn set_rows(&self, job: JobKey, rows: RowSet) {
        self.inner.set_rows(job, rows);
    }

    fn coschedule(&self, job: JobKey, coscheduling: Coscheduling) {
        self.inner.coschedule(job, coscheduling);
    }

    fn classes(&self, job: JobKey) -> Vec<RankClass> {
        self.inner.classes(job)
    }

    fn signal(&self, job: JobKey, signal: i32, whom: Whom) {
        self.inner.signal(job, signal, whom);
    }

    fn destroy(&self, job: JobKey) {
        self.inner.destroy(job);
    }

    fn end(&self, job: JobKey) {
        self.inner.end(job);
    }

    fn forget(&self, job: JobKey) {
        if self.defect.as_ref().is_none_or(|defect| defect.forgets(self.node, job)) {
            self.inner.forget(job);
        }
    }

    async fn read_output(
        &self,
        job: JobKey,
        rank: Rank,
        stream: Stream,
        limit: usize,
    ) -> Option<Bytes> {
        self.inner.read_output(job, rank, stream, limit).await
    }

    async fn write_input(&self, job: JobKey, rank: Rank, data: Bytes) {
        self.inner.write_input(job, rank, data).await;
    }

    fn close_input(&self, job: JobKey, rank: Rank) {
        self.inner.close_input(job, rank);
    }

    fn pmi_reply(&self, job: JobKey, rank: Rank, line: &str) {
        self.inner.pmi_reply(job, rank, line);
    }

    fn close_pmi(&self, job: JobKey, rank: Rank) {
        self.inner.close_pmi(job, rank);
    }

    async fn next_event(&self) -> HostEvent {
        self.inner.next_event().await
    }

    async fn leave(&self) {
        self.inner.leave().await;
    }
}
