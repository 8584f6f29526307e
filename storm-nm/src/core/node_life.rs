//! This life of the node towards its Machine Managers: whether the present manager has answered,
//! which runs of jobs it can have sent here, and whether the node is leaving.

use storm_rm::JobIncarnation;
use storm_rm::message::Command;

/// The state of this life.
#[derive(Debug, Default)]
pub(super) struct NodeLife {
    /// Whether the Machine Manager has confirmed that this life of the node has joined. From then
    /// on its commands are for this life and not for an earlier one.
    answered: bool,
    /// The first run of a job for which this life can have received a command.
    first_run: Option<JobIncarnation>,
    /// The latest run that was ended here for lack of a Machine Manager, until there is one.
    given_up: Option<JobIncarnation>,
    leaving: bool,
}

impl NodeLife {
    /// A Machine Manager has answered: it sends this life of the node the commands for all runs
    /// from `next_run` on. A manager with another journal than the manager before counts runs anew.
    pub(super) fn joined(&mut self, next_run: JobIncarnation) {
        self.answered = true;
        self.given_up = None;
        self.first_run = Some(self.first_run.map_or(next_run, |first| first.min(next_run)));
    }

    /// The Machine Manager is gone.
    pub(super) fn manager_is_lost(&mut self) {
        self.answered = false;
    }

    /// A run is ended here that the next Machine Manager must not take for new.
    pub(super) fn gives_up(&mut self, run: JobIncarnation) {
        self.given_up = self.given_up.max(Some(run));
    }

    /// The node leaves. Returns whether it was leaving already.
    pub(super) fn leaves(&mut self) -> bool {
        std::mem::replace(&mut self.leaving, true)
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Whether a command is for this life of the node. Before the manager has answered, other
    /// commands than its answer and the order to end may be for an earlier life.
    pub(super) fn is_meant_by(&self, command: &Command) -> bool {
        self.answered || matches!(command, Command::Resume { .. } | Command::Shutdown)
    }

    /// Whether a run is from before this node was there.
    pub(super) fn is_older(&self, run: JobIncarnation) -> bool {
        self.first_run.is_none_or(|first| run < first)
    }

    /// The first run of a job for which this node can have received a command, if a manager has
    /// named it. Runs that were given up here count as older: they must not be launched again.
    pub(super) fn first_run(&self) -> Option<JobIncarnation> {
        let behind = self.given_up.map_or(0, |run| run.0.saturating_add(1));
        self.first_run.map(|first| first.max(JobIncarnation(behind)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_given_up_is_not_new_to_the_next_manager() {
        let mut life = NodeLife::default();
        let step = storm_rm::StepRef::program(storm_rm::JobId(1));
        assert!(life.is_older(JobIncarnation(9)), "no manager has named a run");
        life.joined(JobIncarnation(5));
        life.gives_up(JobIncarnation(7));
        life.manager_is_lost();
        assert_eq!(life.first_run(), Some(JobIncarnation(8)));
        assert!(!life.is_meant_by(&Command::DestroyJob { step }));
        life.joined(JobIncarnation(9));
        assert_eq!(life.first_run(), Some(JobIncarnation(5)));
        assert!(life.is_older(JobIncarnation(4)) && !life.is_older(JobIncarnation(5)));
    }
}
