//! A rank runs if and only if its node's active row is one of the run's rows. A strobe stops every
//! run of another row and resumes those of the new one (paper, Algorithm 5, SCHEDULE-PROCESS),
//! before the node does anything else.
//!
//! A run has the rows that the launch or a later command gave it on the node. If a job is moved
//! while its launch is on its way, the node launches it in its old row and learns of the new one
//! afterwards. A launch may therefore name any row that the job was placed in or moved to.
//!
//! A node's active row is the row of the last strobe that it obeyed. Strobes skip nodes without
//! runs; the next launch on such a node tells it the active row. A run that is being ended by a
//! signal may run in any row, because it must act on the signal.

use super::{Broken, Invariant, broken};
use crate::{Configuration, Fact};
use std::collections::BTreeMap;
use storm_mm::job::JobEventKind;
use storm_nm::JobKey;
use storm_nm::modelled::HostAct;
use storm_primitives::NodeId;
use storm_rm::{JobId, JobIncarnation, PartitionId, Row, RowSet};

/// See the module.
#[derive(Debug, Default)]
pub struct OwnRow {
    /// The home rows that each run has had.
    homes: BTreeMap<JobIncarnation, RowSet>,
    /// The latest run of each job.
    runs: BTreeMap<JobId, JobIncarnation>,
    nodes: BTreeMap<NodeId, Node>,
    /// The partition of each node, once the configuration was edited. If an edit left a job of
    /// another partition on a node, the node may receive strobes of that partition.
    partitions: BTreeMap<NodeId, PartitionId>,
    /// The node that is switching: its next act may be a part of the switch.
    switching: Option<NodeId>,
}

/// The runs on one node.
#[derive(Debug, Default)]
struct Node {
    row: Option<Row>,
    runs: BTreeMap<JobKey, Run>,
    /// Rows of runs that are not launched yet.
    told: BTreeMap<JobKey, RowSet>,
    /// Whether its node manager ends or has ended. A node manager that was asked to end obeys the
    /// strobes before the end of its link, and may end in the middle of a switch.
    is_left: bool,
}

#[derive(Debug)]
struct Run {
    rows: RowSet,
    stopped: bool,
    /// Ranks that have not ended.
    left: u32,
    signalled: bool,
}

impl Node {
    fn launched(&mut self, job: JobKey, rows: RowSet, stopped: bool, ranks: u32) {
        if self.runs.values().all(|run| run.left == 0) {
            // A run that is launched in the stopped state only tells that another row is active.
            self.row = None;
        }
        // If a run has several rows, one of them is active, but which one is unknown.
        if !stopped && rows.0.is_power_of_two() {
            self.row.get_or_insert(Row(rows.0.ilog2()));
        }
        self.runs.insert(job, Run { rows, stopped, left: ranks, signalled: false });
    }

    /// Checks every run of a node once a switch is over.
    fn check(&self, node: NodeId) -> Result<(), Broken> {
        let Some(row) = self.row.filter(|_| !self.is_left) else { return Ok(()) };
        let live = self.runs.iter().filter(|(_, run)| run.left > 0 && !run.signalled);
        for (job, run) in live {
            let (own, now) = (rows_of(run.rows), row.0);
            match (run.stopped, run.rows.contains(row)) {
                (true, false) | (false, true) => {}
                (false, false) => {
                    return broken(format!("{job} of {own} runs on {node} in row {now}"));
                }
                (true, true) => {
                    return broken(format!("{job} of {own} is stopped on {node} in row {now}"));
                }
            }
        }
        Ok(())
    }
}

impl OwnRow {
    fn edited(&mut self, configuration: &Configuration) {
        self.partitions.clear();
        for (index, partition) in (0..).zip(&configuration.partitions) {
            let members = partition.nodes.iter().map(|node| (*node, PartitionId(index)));
            self.partitions.extend(members);
        }
    }

    fn act(&mut self, id: NodeId, act: &HostAct) -> Result<(), Broken> {
        if let HostAct::Strobe(strobe) = act
            && self.partitions.get(&id).is_some_and(|own| *own != strobe.partition)
        {
            return Ok(());
        }
        let node = self.nodes.entry(id).or_default();
        match act {
            HostAct::Strobe(strobe) => {
                node.row = Some(strobe.row);
                self.switching = Some(id);
            }
            HostAct::Rows { job, rows } => {
                match node.runs.get_mut(job) {
                    Some(run) => run.rows = *rows,
                    None => drop(node.told.insert(*job, *rows)),
                }
                self.switching = Some(id);
            }
            HostAct::Stop(job) | HostAct::Resume(job) => {
                if let Some(run) = node.runs.get_mut(job) {
                    run.stopped = matches!(act, HostAct::Stop(_));
                }
                self.switching = Some(id);
            }
            HostAct::Launch { job, ranks, rows, stopped } => {
                // Runs that were never placed are checked by another invariant.
                let Some(homes) = self.homes.get(&job.incarnation) else { return Ok(()) };
                if rows.0 & homes.0 == 0 {
                    let (rows, homes) = (rows_of(*rows), rows_of(*homes));
                    return broken(format!("{job} of {homes} is launched on {id} in {rows}"));
                }
                let rows = node.told.remove(job).unwrap_or(*rows);
                node.launched(*job, rows, *stopped, *ranks);
                return node.check(id);
            }
            HostAct::Exit { job, .. } => {
                if let Some(run) = node.runs.get_mut(job) {
                    run.left = run.left.saturating_sub(1);
                }
            }
            HostAct::Signal { job, .. } => {
                if let Some(run) = node.runs.get_mut(job) {
                    run.signalled = true;
                }
            }
            HostAct::End(job) | HostAct::Forget(job) | HostAct::LeaseOver(job) => {
                node.runs.remove(job);
                node.told.remove(job);
            }
            HostAct::Left | HostAct::KeeperEnded => {
                self.nodes.remove(&id);
            }
            HostAct::Refuse(_)
            | HostAct::Classified { .. }
            | HostAct::Destroy(_)
            | HostAct::Place(_)
            | HostAct::ClosePmi { .. } => {}
        }
        Ok(())
    }

    /// Any fact other than a stop or a resume of the same node ends its switch.
    fn end_switch(&mut self, fact: &Fact<'_>) -> Result<(), Broken> {
        let Some(node) = self.switching else { return Ok(()) };
        if let Fact::Host(
            other,
            HostAct::Stop(_)
            | HostAct::Resume(_)
            | HostAct::Rows { .. }
            | HostAct::Classified { .. },
        ) = fact
            && *other == node
        {
            return Ok(());
        }
        self.switching = None;
        self.nodes.get(&node).map_or(Ok(()), |switched| switched.check(node))
    }
}

/// A set of rows, for a message.
fn rows_of(rows: RowSet) -> String {
    let numbers: Vec<String> = (0..RowSet::MAX_ROWS)
        .filter(|row| rows.contains(Row(*row)))
        .map(|row| row.to_string())
        .collect();
    format!("row {}", numbers.join(" and "))
}

impl Invariant for OwnRow {
    fn name(&self) -> &'static str {
        "a rank runs in its own row only"
    }

    fn note(&mut self, fact: &Fact<'_>) -> Result<(), Broken> {
        self.end_switch(fact)?;
        match fact {
            Fact::Journal(job, JobEventKind::Placed { incarnation, row, .. }) => {
                self.runs.insert(*job, *incarnation);
                self.homes.insert(*incarnation, RowSet::single(*row));
            }
            Fact::Journal(job, JobEventKind::Moved { row }) => {
                let homes = self.runs.get(job).and_then(|run| self.homes.get_mut(run));
                if let Some(homes) = homes {
                    *homes = homes.with(*row);
                }
            }
            Fact::Host(node, act) => return self.act(*node, act),
            Fact::Configured(configuration) => self.edited(configuration),
            Fact::NodeDown(node) | Fact::NodeUp(node) => {
                self.nodes.remove(node);
            }
            // The node missed strobes. The next strobe or launch tells it the active row.
            Fact::NodeBack(node) | Fact::NodeManagerDown(node) => {
                let is_left = matches!(fact, Fact::NodeManagerDown(_));
                if let Some(node) = self.nodes.get_mut(node) {
                    (node.row, node.is_left) = (None, is_left);
                }
            }
            // The next manager tells the active row before it sends a strobe.
            Fact::ManagerDown => self.nodes.values_mut().for_each(|node| node.row = None),
            Fact::Journal(..)
            | Fact::Acknowledged(_)
            | Fact::Terminated(_)
            | Fact::Compared(_)
            | Fact::Inflicted(..)
            | Fact::NodeManagerLate(_)
            | Fact::ManagerUp
            | Fact::Over => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{key, placed, strobe};
    use super::*;
    use storm_rm::Rank;

    const NODE: NodeId = NodeId(1);

    fn launch(job: u32, row: u32) -> HostAct {
        let (key, rows) = (key(job.into(), job.into()), RowSet::single(Row(row)));
        HostAct::Launch { job: key, ranks: 1, rows, stopped: row != 0 }
    }

    /// Two runs in two rows. The first one runs.
    fn sharing() -> OwnRow {
        let mut invariant = OwnRow::default();
        for (job, row) in [(1, 0), (2, 1)] {
            let placed = placed(job, row, &[1]);
            invariant.note(&Fact::Journal(JobId(job), &placed)).unwrap();
            invariant.note(&Fact::Host(NODE, &launch(job as u32, row))).unwrap();
        }
        invariant
    }

    /// The verdict after some acts and a following fact.
    fn after(acts: &[HostAct]) -> Result<(), Broken> {
        let mut invariant = sharing();
        acts.iter().try_for_each(|act| invariant.note(&Fact::Host(NODE, act)))?;
        invariant.note(&Fact::ManagerUp)
    }

    #[test]
    fn a_correct_switch_is_accepted() {
        let (stop, resume) = (HostAct::Stop(key(1, 1)), HostAct::Resume(key(2, 2)));
        after(&[strobe(1, 1), stop, resume]).unwrap();
        after(&[strobe(1, 0)]).unwrap();
    }

    #[test]
    fn a_strobe_of_another_partition_is_for_others() {
        let mut invariant = sharing();
        let mut configuration = Configuration::even(2, 2, 2);
        configuration.partitions.reverse();
        invariant.note(&Fact::Configured(&configuration)).unwrap();
        invariant.note(&Fact::Host(NODE, &strobe(1, 1))).unwrap();
        invariant.note(&Fact::ManagerUp).unwrap();
        configuration.partitions.reverse();
        invariant.note(&Fact::Configured(&configuration)).unwrap();
        invariant.note(&Fact::Host(NODE, &strobe(2, 1))).unwrap();
        invariant.note(&Fact::ManagerUp).unwrap_err();
    }

    #[test]
    fn an_old_row_that_runs_on_is_detected() {
        let found = after(&[strobe(1, 1), HostAct::Resume(key(2, 2))]).unwrap_err();
        assert_eq!(found.0, "1.0:1 of row 0 runs on n1 in row 1");
    }

    #[test]
    fn a_new_row_that_stays_stopped_is_detected() {
        let found = after(&[strobe(1, 1), HostAct::Stop(key(1, 1))]).unwrap_err();
        assert_eq!(found.0, "2.0:2 of row 1 is stopped on n1 in row 1");
    }

    #[test]
    fn a_job_of_both_rows_runs_in_both() {
        let rows = HostAct::Rows { job: key(1, 1), rows: RowSet(0b11) };
        let resume = || HostAct::Resume(key(2, 2));
        after(&[rows.clone(), strobe(1, 1), resume()]).unwrap();
        let found = after(&[rows, strobe(1, 1), resume(), HostAct::Stop(key(1, 1))]).unwrap_err();
        assert_eq!(found.0, "1.0:1 of row 0 and 1 is stopped on n1 in row 1");
    }

    #[test]
    fn a_job_that_is_moved_is_launched_in_the_row_that_it_had_or_has() {
        let on_its_way = |row| {
            let mut invariant = sharing();
            invariant.note(&Fact::Journal(JobId(3), &placed(3, 0, &[1]))).unwrap();
            let moved = JobEventKind::Moved { row: Row(1) };
            invariant.note(&Fact::Journal(JobId(3), &moved)).unwrap();
            invariant.note(&Fact::Host(NODE, &launch(3, row)))
        };
        on_its_way(0).unwrap();
        on_its_way(1).unwrap();
        let found = on_its_way(2).unwrap_err();
        assert_eq!(found.0, "3.0:3 of row 0 and 1 is launched on n1 in row 2");
    }

    /// A regression: a node manager that was asked to end obeyed one more strobe, and its end
    /// cancelled the resume of a job.
    #[test]
    fn a_node_manager_that_ends_may_leave_a_switch_undone() {
        let mut invariant = sharing();
        invariant.note(&Fact::NodeManagerDown(NODE)).unwrap();
        for act in [strobe(1, 1), HostAct::Stop(key(1, 1))] {
            invariant.note(&Fact::Host(NODE, &act)).unwrap();
        }
        invariant.note(&Fact::NodeBack(NODE)).unwrap();
        invariant.note(&Fact::Host(NODE, &strobe(2, 1))).unwrap();
        invariant.note(&Fact::ManagerUp).unwrap_err();
    }

    #[test]
    fn a_switch_without_a_strobe_is_detected() {
        let (stop, resume) = (HostAct::Stop(key(1, 1)), HostAct::Resume(key(2, 2)));
        assert!(after(&[stop, resume]).is_err());
    }

    #[test]
    fn ended_and_ending_jobs_may_run_in_any_row() {
        let exit = HostAct::Exit { job: key(1, 1), rank: Rank(0) };
        after(&[exit, strobe(1, 1), HostAct::Resume(key(2, 2))]).unwrap();
        let signal = HostAct::Signal { job: key(2, 2), signal: 15 };
        after(&[signal, HostAct::Resume(key(2, 2))]).unwrap();
    }
}
