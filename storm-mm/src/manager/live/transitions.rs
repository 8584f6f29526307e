//! The transitions of live jobs, and of those that wait for a place in the arrays of flags. Each
//! gives nothing if the job is not here, or not in the run that is meant.

use super::LiveJobs;
use super::flags::Awaiting;
use super::output::Piece;
use super::place::{LivePlace, Placed, Restored};
use super::place_nodes::Left;
use super::progress::Unexpected;
use crate::api::LaunchBreakdown;
use crate::manager::effect::StageOutcome;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::message::RankExit;
use storm_rm::{JobId, JobIncarnation, PartitionId, Rank, RankClass, Row, RowSet};

/// Jobs come to the machine, and their launches advance.
impl LiveJobs {
    /// A job is placed on the machine, and its launch begins.
    pub(in crate::manager) fn place(&mut self, now: Instant, job: JobId, placed: Placed) {
        self.jobs.insert(job, LivePlace::placed(now, placed));
    }

    /// A job that a former manager placed continues.
    pub(in crate::manager) fn restore(&mut self, now: Instant, job: JobId, restored: Restored) {
        self.jobs.insert(job, LivePlace::restored(now, restored));
    }

    /// The job's files are on its nodes.
    pub(in crate::manager) fn staged(&mut self, now: Instant, job: JobId, stage: StageOutcome) {
        self.advance(job, |place| place.first.progress.staged(now, stage));
    }

    /// The job's launch is issued. `active` is true if its row runs now.
    pub(in crate::manager) fn launched(&mut self, now: Instant, job: JobId, active: bool) {
        self.advance(job, |place| place.launched(now, active));
    }

    /// All ranks of a run execute. Returns the times of its launch, unless they did before, or the
    /// job waits for a node.
    pub(in crate::manager) fn started(
        &mut self,
        now: Instant,
        job: JobId,
        run: JobIncarnation,
    ) -> Option<LaunchBreakdown> {
        self.run_of(job, run)?.first.progress.started(now).ok()
    }

    /// All nodes of a job are back, and none was ordered to launch the job: its launch begins
    /// again.
    pub(in crate::manager) fn begin_again(&mut self, now: Instant, job: JobId) {
        self.advance(job, |place| place.begin_again(now));
    }

    /// All nodes of a job are back, and its ranks have executed before. The nodes `lacking` have
    /// none.
    pub(in crate::manager) fn resumed(&mut self, job: JobId, lacking: &NodeSet) {
        self.advance(job, |place| place.resumed(lacking));
    }

    fn advance(&mut self, job: JobId, step: impl FnOnce(&mut LivePlace) -> Result<(), Unexpected>) {
        if let Some(Err(unexpected)) = self.jobs.get_mut(&job).map(step) {
            tracing::error!(%job, %unexpected, "the manager took a step out of turn, and left it out");
        }
    }

    fn run_of(&mut self, job: JobId, run: JobIncarnation) -> Option<&mut LivePlace> {
        self.jobs.get_mut(&job).filter(|place| place.incarnation() == run)
    }
}

/// Rows, and the time that passes in them.
impl LiveJobs {
    /// A job gets another home row and other rows. Returns whether the home row is another; `None`
    /// if nothing changes.
    pub(in crate::manager) fn set_rows(
        &mut self,
        job: JobId,
        home: Row,
        rows: RowSet,
    ) -> Option<bool> {
        self.jobs.get_mut(&job)?.set_rows(home, rows)
    }

    /// From now on a job's run time is counted if the job runs in this row and was launched.
    pub(in crate::manager) fn count_time_of(&mut self, now: Instant, job: JobId, active: Row) {
        if let Some(place) = self.jobs.get_mut(&job) {
            place.count_time(now, active);
        }
    }

    /// A job's processes are stopped. Returns its run time.
    pub(in crate::manager) fn suspend(&mut self, now: Instant, job: JobId) -> Option<Duration> {
        Some(self.jobs.get_mut(&job)?.suspend(now))
    }

    /// A job's processes continue in these rows. Returns its run time.
    pub(in crate::manager) fn go_on(
        &mut self,
        now: Instant,
        job: JobId,
        (rows, active): (RowSet, Row),
    ) -> Option<Duration> {
        Some(self.jobs.get_mut(&job)?.go_on(now, rows, active))
    }

    /// An administrator stops a job's processes, or lets them continue where the policy has them.
    /// Returns its run time.
    pub(in crate::manager) fn set_stopped(
        &mut self,
        now: Instant,
        job: JobId,
        (stopped, active): (bool, Row),
    ) -> Option<Duration> {
        Some(self.jobs.get_mut(&job)?.set_stopped(now, stopped, active))
    }

    /// A job's elements are free. Returns its partition, unless they were free before.
    pub(in crate::manager) fn release(&mut self, job: JobId) -> Option<PartitionId> {
        let place = self.jobs.get_mut(&job)?;
        (!place.release()).then(|| place.partition())
    }

    /// A job continues without elements, and in all rows. Returns its run time and its nodes.
    pub(in crate::manager) fn leave_matrix(
        &mut self,
        now: Instant,
        job: JobId,
    ) -> Option<(Duration, NodeSet)> {
        let live = self.jobs.get_mut(&job)?;
        live.leave_matrix(now);
        self.outside_matrix.insert(job);
        Some((live.run_time(now), live.place_nodes().clone()))
    }

    /// From now on, run time is counted for the launched jobs of a partition that run in this row.
    pub(in crate::manager) fn count_time(
        &mut self,
        now: Instant,
        partition: PartitionId,
        row: Row,
    ) {
        for live in self.jobs.values_mut().filter(|live| live.partition() == partition) {
            live.count_time(now, row);
        }
    }
}

/// Jobs that wait for a place in the arrays of flags.
impl LiveJobs {
    /// A waiting job gets another home row and other rows.
    pub(in crate::manager) fn set_awaiting_rows(&mut self, job: JobId, row: Row, rows: RowSet) {
        self.change_awaiting(job, |awaiting| awaiting.set_rows(row, rows));
    }

    /// Another policy replaces a waiting job's policy, and the job has another home row.
    pub(in crate::manager) fn awaiting_taken_over(&mut self, job: JobId, row: Row, rows: RowSet) {
        self.change_awaiting(job, |awaiting| awaiting.taken_over(row, rows));
    }

    /// A waiting job will be suspended when it starts. Returns whether the job waits.
    pub(in crate::manager) fn suspend_awaiting(&mut self, job: JobId, by: JobId) -> bool {
        self.change_awaiting(job, |awaiting| awaiting.suspend(by))
    }

    /// A waiting job will not be suspended.
    pub(in crate::manager) fn awaiting_goes_on(&mut self, job: JobId, rows: RowSet) {
        self.change_awaiting(job, |awaiting| awaiting.go_on(rows));
    }

    fn change_awaiting(&mut self, job: JobId, change: impl FnOnce(&mut Awaiting)) -> bool {
        let awaiting = self.awaiting.iter_mut().find(|placed| placed.job() == job);
        awaiting.map(change).is_some()
    }
}

/// Nodes leave and return, and parts end.
impl LiveJobs {
    /// A node is lost. Returns the jobs whose part there was over, and that were not returned
    /// before.
    pub(in crate::manager) fn ends_forgotten_by(&mut self, node: NodeId) -> Vec<JobId> {
        let forgotten = self
            .jobs
            .iter_mut()
            .filter_map(|(job, live)| live.first.parts.forgets(node).then_some(*job));
        forgotten.collect()
    }

    /// A job is to end. Returns the nodes that must end their parts: nodes on which the job never
    /// began have nothing to end.
    pub(in crate::manager) fn begin_end(&mut self, job: JobId) -> Option<NodeSet> {
        Some(self.jobs.get_mut(&job)?.begin_end())
    }

    /// The ranks of a node have ended in this way. Returns whether the node is the first.
    pub(in crate::manager) fn part_over(
        &mut self,
        (job, run): (JobId, JobIncarnation),
        node: NodeId,
        exits: impl Iterator<Item = RankExit>,
    ) -> Option<bool> {
        Some(self.run_of(job, run)?.first.part_over(node, exits))
    }

    /// A node has no ranks of a job any more. `runs_until` is set if the ranks may continue until
    /// then.
    pub(in crate::manager) fn part_gone(
        &mut self,
        job: JobId,
        node: NodeId,
        runs_until: Option<Instant>,
    ) {
        if let Some(place) = self.jobs.get_mut(&job) {
            place.part_gone(node, runs_until);
        }
    }

    /// A job continues elsewhere, and waits for a node.
    pub(in crate::manager) fn await_return(&mut self, job: JobId, node: NodeId, left: Left) {
        self.advance(job, |place| place.await_return(node, left));
    }

    /// A node has returned to a job. Returns whether it had left under this manager.
    pub(in crate::manager) fn came_back(&mut self, job: JobId, node: NodeId) -> bool {
        self.jobs.get_mut(&job).is_some_and(|place| place.came_back(node))
    }

    /// A node has returned and had never received a job's launch.
    pub(in crate::manager) fn lacks(&mut self, job: JobId, node: NodeId) {
        if let Some(place) = self.jobs.get_mut(&job) {
            place.first.parts.lack(node);
        }
    }

    /// The nodes that have returned and had never received a job's launch, once.
    pub(in crate::manager) fn take_lacking(&mut self, job: JobId) -> NodeSet {
        let place = self.jobs.get_mut(&job);
        place.map(|place| place.first.parts.take_lacking()).unwrap_or_default()
    }

    /// A job does not wait any longer for the nodes `missing`. `fenced` is when their ranks have
    /// certainly ended, if the time of their keepers is unknown.
    pub(in crate::manager) fn give_up(&mut self, job: JobId, missing: &NodeSet, fenced: Instant) {
        if let Some(place) = self.jobs.get_mut(&job) {
            place.give_up(missing, fenced);
        }
    }

    /// A lost node runs no ranks after `until`.
    pub(in crate::manager) fn fenced_until(&mut self, node: NodeId, until: Instant) {
        self.jobs.values_mut().for_each(|live| live.nodes.fenced_until(node, until));
    }

    /// A lost node is back, and runs ranks of no jobs but those that it holds.
    pub(in crate::manager) fn fenced_by(&mut self, node: NodeId, holds: impl Fn(JobId) -> bool) {
        for (_, live) in self.jobs.iter_mut().filter(|(job, _)| !holds(**job)) {
            live.nodes.fenced(node);
        }
    }
}

/// The reports of ranks.
impl LiveJobs {
    /// A rank of a run communicates in slices from now on. Returns the nodes of the job whose Node
    /// Managers have ended before without handing over, and those of them that have not returned.
    pub(in crate::manager) fn join_slices(
        &mut self,
        job: JobId,
        run: JobIncarnation,
    ) -> Option<(NodeSet, NodeSet)> {
        Some(self.run_of(job, run)?.join_slices())
    }

    /// A node is told to hand over its part of a job's slices.
    pub(in crate::manager) fn hand_over_slices(&mut self, job: JobId, node: NodeId) {
        if let Some(place) = self.jobs.get_mut(&job) {
            place.first.slices.hand_over(node);
        }
    }

    /// The next Node Manager of a node continues the slices of a run. Returns false if the node was
    /// not told to hand over under this manager.
    pub(in crate::manager) fn slices_are_back(
        &mut self,
        (job, run): (JobId, JobIncarnation),
        node: NodeId,
    ) -> Option<bool> {
        Some(self.run_of(job, run)?.first.slices.are_back(node))
    }

    /// Output of a run has arrived, of which a part may have arrived before. `starts` is true if
    /// the run does not count as begun. Returns the pieces to pass on.
    pub(in crate::manager) fn output(
        &mut self,
        (job, run): (JobId, JobIncarnation),
        piece: Piece,
        starts: bool,
    ) -> Vec<Piece> {
        let place = self.run_of(job, run);
        place.map(|place| place.first.output(piece, starts)).unwrap_or_default()
    }

    /// The output that arrived while a job started, once.
    pub(in crate::manager) fn take_early(&mut self, job: JobId) -> Vec<Piece> {
        let place = self.jobs.get_mut(&job);
        place.map(|place| place.first.take_early()).unwrap_or_default()
    }

    /// The classes of some ranks of a run are reported.
    pub(in crate::manager) fn classes_told(
        &mut self,
        now: Instant,
        (job, run): (JobId, JobIncarnation),
        told: impl Iterator<Item = RankClass>,
    ) {
        if let Some(place) = self.run_of(job, run) {
            place.first.classes_told(now, told);
        }
    }

    /// A rank of a run has ended without having finalized. Returns whether it is the present run.
    pub(in crate::manager) fn rank_left(
        &mut self,
        (job, run): (JobId, JobIncarnation),
        (node, rank): (NodeId, Rank),
    ) -> bool {
        self.run_of(job, run).map(|place| place.first.rank_left(node, rank)).is_some()
    }

    /// A node is in a PMI barrier. Returns the barrier's pairs once all nodes are in the barrier.
    pub(in crate::manager) fn fence_arrived(
        &mut self,
        job: JobId,
        sequence: u64,
        (node, puts): (NodeId, Vec<(String, String)>),
    ) -> Option<Vec<(String, String)>> {
        self.jobs.get_mut(&job)?.first.fence_arrived(sequence, node, puts)
    }
}

#[cfg(test)]
impl LiveJobs {
    /// Sets the progress of a launch, so that a checker of an invariant can fail.
    pub(in crate::manager) fn set_launch(&mut self, job: JobId, launch: super::Launch) {
        self.advance(job, |place| {
            place.first.progress.set(launch);
            Ok(())
        });
    }
}
