//! Matrix columns are disjoint: in one row, no processing element belongs to two runs of jobs.
//! Elements are counted per row and node, because a launch names ranks per node.
//!
//! When the configuration is edited, a run that was already there may lose its elements and
//! continue outside the matrix. The check ignores the row to which such a run is moved, but no
//! other run may be placed on its elements.
//!
//! Partitions are not checked, because a node of a simulated machine is in only one.

use super::{Broken, Invariant, broken};
use crate::Fact;
use std::collections::BTreeMap;
use storm_mm::job::JobEventKind;
use storm_primitives::NodeId;
use storm_rm::message::NodeRanks;
use storm_rm::{JobId, JobIncarnation, Row};

/// See the module.
#[derive(Debug)]
pub struct ColumnsDisjoint {
    pes: u32,
    held: BTreeMap<JobIncarnation, Holding>,
    used: BTreeMap<(Row, NodeId), u32>,
}

#[derive(Debug)]
struct Holding {
    job: JobId,
    row: Row,
    ranks: Vec<NodeRanks>,
    /// The configuration was edited while the run was there.
    edited: bool,
}

impl ColumnsDisjoint {
    /// For nodes with `pes` processing elements each.
    pub fn new(pes: u32) -> ColumnsDisjoint {
        ColumnsDisjoint { pes, held: BTreeMap::new(), used: BTreeMap::new() }
    }

    fn take(
        &mut self,
        job: JobId,
        incarnation: JobIncarnation,
        row: Row,
        ranks: &[NodeRanks],
    ) -> Result<(), Broken> {
        let mut too_many = Ok(());
        for share in ranks {
            let used = self.used.entry((row, share.node)).or_default();
            *used += share.count;
            if *used > self.pes && too_many.is_ok() {
                let (node, pes) = (share.node, self.pes);
                too_many = broken(format!(
                    "job {job} makes {used} ranks on {node} in row {} of {pes} elements",
                    row.0
                ));
            }
        }
        let held = Holding { job, row, ranks: ranks.to_vec(), edited: false };
        self.held.insert(incarnation, held);
        too_many
    }

    fn free(&mut self, incarnation: JobIncarnation) {
        let Some(Holding { row, ranks, .. }) = self.held.remove(&incarnation) else { return };
        for share in ranks {
            if let Some(used) = self.used.get_mut(&(row, share.node)) {
                *used = used.saturating_sub(share.count);
            }
        }
    }

    /// A run of this job that holds elements now holds them in another row.
    fn move_job(&mut self, job: JobId, row: Row) -> Result<(), Broken> {
        let of_job = |(_, held): &(&JobIncarnation, &Holding)| held.job == job;
        let Some(run) = self.held.iter().filter(of_job).map(|(run, _)| *run).next_back() else {
            return Ok(());
        };
        let Holding { ranks, edited, .. } = &self.held[&run];
        let (ranks, edited) = (ranks.clone(), *edited);
        self.free(run);
        let taken = self.take(job, run, row, &ranks);
        if edited {
            if let Some(held) = self.held.get_mut(&run) {
                held.edited = true;
            }
            return Ok(());
        }
        taken
    }

    fn free_job(&mut self, job: JobId) {
        let of_job = |(incarnation, held): (&JobIncarnation, &Holding)| {
            (held.job == job).then_some(*incarnation)
        };
        let runs: Vec<JobIncarnation> = self.held.iter().filter_map(of_job).collect();
        runs.into_iter().for_each(|run| self.free(run));
    }
}

impl Invariant for ColumnsDisjoint {
    fn name(&self) -> &'static str {
        "matrix columns are disjoint"
    }

    fn note(&mut self, fact: &Fact<'_>) -> Result<(), Broken> {
        match fact {
            Fact::Journal(job, JobEventKind::Placed { incarnation, ranks, row, .. }) => {
                return self.take(*job, *incarnation, *row, ranks);
            }
            Fact::Journal(job, JobEventKind::Moved { row }) => return self.move_job(*job, *row),
            Fact::Journal(job, JobEventKind::Ended { .. } | JobEventKind::Requeued { .. }) => {
                self.free_job(*job);
            }
            Fact::Terminated(incarnation) => self.free(*incarnation),
            Fact::Configured(_) => self.held.values_mut().for_each(|held| held.edited = true),
            Fact::Journal(..)
            | Fact::Acknowledged(_)
            | Fact::NodeBack(_)
            | Fact::Host(..)
            | Fact::Compared(_)
            | Fact::NodeDown(_)
            | Fact::NodeUp(_)
            | Fact::Inflicted(..)
            | Fact::NodeManagerDown(_)
            | Fact::NodeManagerLate(_)
            | Fact::ManagerDown
            | Fact::ManagerUp
            | Fact::Over => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ended, placed};
    use super::*;

    #[test]
    fn two_runs_on_one_element_are_detected() {
        let mut invariant = ColumnsDisjoint::new(2);
        let (first, second) = (placed(1, 0, &[1, 2]), placed(2, 0, &[2, 3]));
        invariant.note(&Fact::Journal(JobId(1), &first)).unwrap();
        let found = invariant.note(&Fact::Journal(JobId(2), &second)).unwrap_err();
        assert_eq!(found.0, "job 2 makes 4 ranks on n2 in row 0 of 2 elements");
    }

    #[test]
    fn a_run_that_moved_holds_elements_of_its_new_row_only() {
        let mut invariant = ColumnsDisjoint::new(2);
        for (run, row) in [(1, 0), (2, 1)] {
            invariant.note(&Fact::Journal(JobId(run), &placed(run, row, &[1]))).unwrap();
        }
        let to = |row| JobEventKind::Moved { row: Row(row) };
        invariant.note(&Fact::Journal(JobId(1), &to(2))).unwrap();
        invariant.note(&Fact::Journal(JobId(2), &to(0))).unwrap();
        assert!(invariant.note(&Fact::Journal(JobId(1), &to(0))).is_err());
    }

    #[test]
    fn other_rows_and_freed_elements_are_free() {
        let mut invariant = ColumnsDisjoint::new(2);
        for (run, row) in [(1, 0), (2, 1)] {
            invariant.note(&Fact::Journal(JobId(run), &placed(run, row, &[1]))).unwrap();
        }
        invariant.note(&Fact::Terminated(JobIncarnation(1))).unwrap();
        invariant.note(&Fact::Journal(JobId(2), &ended())).unwrap();
        for (run, row) in [(3, 0), (4, 1)] {
            invariant.note(&Fact::Journal(JobId(run), &placed(run, row, &[1]))).unwrap();
        }
    }
}
