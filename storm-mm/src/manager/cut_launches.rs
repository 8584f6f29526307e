//! Jobs whose launch is cut off by the end of a Node Manager. Their run is ended, and they are
//! launched again (`docs/decisions/0141-cut-launches-are-done-again.md`).

use super::Core;
use super::live::LivePlace;
use super::node_table::Going;
use crate::api::JobState;
use crate::job::{Cut, EndCause, Phase};
use storm_primitives::{Instant, NodeId};
use storm_rm::{JobId, JobIncarnation, PartitionId};
use storm_sched::Event;

impl Core {
    /// Whether a job was being sent its files, or had them, when the Node Manager of a node ended.
    /// No rank of the run was ordered to start on any node.
    pub(super) fn is_staged_to(&self, job: JobId, node: NodeId, going: Going) -> bool {
        let is_staged = self.live.get(job).is_some_and(|live| !live.is_on_nodes());
        is_staged && self.leaves_keeper(node, going)
    }

    /// Whether the Node Manager of a node, which has ended, moved the messages of a job's ranks.
    pub(super) fn is_moved_by(&self, job: JobId, node: NodeId, going: Going) -> bool {
        let slices = self.live.get(job).is_some_and(LivePlace::is_in_slices);
        slices && self.leaves_keeper(node, going)
    }

    /// A rank of a job communicates in slices from now on. If a Node Manager of the job has ended
    /// before, messages of its ranks may be lost already, so the job ends.
    pub(super) fn joins_slices(&mut self, now: Instant, job: JobId, run: JobIncarnation) {
        let Some((left, away)) = self.live.join_slices(job, run) else { return };
        let Some(node) = left.iter().next() else { return };
        self.live.give_up(job, &away, now + self.config.requeue_fence);
        self.launch_cut(now, job, node, Cut::Slices);
        self.go_on_if_all_heard(now, job);
    }

    /// Whether a node that was lost as `going` states still runs, and keeps other jobs.
    fn leaves_keeper(&self, node: NodeId, going: Going) -> bool {
        let lives = match going {
            Going::Lost => false,
            Going::LinkClosed | Going::ProcessEnded => !self.jobs.is_closed(),
        };
        let info = self.nodes.get(node).and_then(|entry| entry.info.as_ref());
        lives && info.is_some_and(|info| info.returns.is_some())
    }

    /// The Node Manager of a node ended while a run began: the run is ended on all nodes. When no
    /// rank is left, [`finish`](Self::finish) decides whether the job is launched again.
    pub(super) fn launch_cut(&mut self, now: Instant, job: JobId, node: NodeId, cut: Cut) {
        let Some(record) = self.jobs.get(&job) else { return };
        let launches = record.cut_launches.saturating_add(1);
        let node = self.node_name(node);
        tracing::warn!(%job, %node, ?cut, launches, "its launch was cut off");
        self.end_job(now, job, EndCause::LaunchCut { node, cut, launches });
    }

    /// A run is over and the job waits again. Its policy receives both events together, so no job
    /// that waits behind this job gets its elements.
    pub(super) fn queue_in_place(&mut self, now: Instant, job: JobId, partition: PartitionId) {
        self.together(now, |core| {
            let finished = Event::Finished(job);
            core.partitions.tell_later(partition, finished);
            let why = core.jobs.get(&job).and_then(|record| record.log.last());
            let why = why.map(|entry| entry.text.clone());
            core.notify_state(job, JobState::Pending, why);
            core.queue_again(now, job);
        });
        self.try_switch(now, partition);
    }

    /// Whether the elements of a job stay its own until its run is over everywhere, since the job
    /// may be launched again.
    pub(super) fn keeps_elements(&self, job: JobId) -> bool {
        let phase = self.jobs.get(&job).map(|record| &record.phase);
        matches!(phase, Some(Phase::Ending(EndCause::LaunchCut { .. })))
    }
}
