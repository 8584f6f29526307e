//! Every column is freed at the end. When nothing more happens, no run holds an element of the
//! matrix, and no living node has a process or remembers a job.

use super::{Broken, Invariant, broken};
use crate::Fact;
use std::collections::{BTreeMap, BTreeSet};
use storm_mm::job::JobEventKind;
use storm_nm::JobKey;
use storm_nm::modelled::HostAct;
use storm_primitives::NodeId;
use storm_rm::JobId;

/// See the module.
#[derive(Debug, Default)]
pub struct ColumnsFreed {
    holding: BTreeSet<JobId>,
    on_nodes: BTreeMap<(NodeId, JobKey), u32>,
}

impl ColumnsFreed {
    fn act(&mut self, node: NodeId, act: &HostAct) {
        match act {
            HostAct::Launch { job, ranks, .. } => {
                self.on_nodes.insert((node, *job), *ranks);
            }
            HostAct::Exit { job, .. } => {
                if let Some(left) = self.on_nodes.get_mut(&(node, *job)) {
                    *left = left.saturating_sub(1);
                }
            }
            HostAct::Forget(job) => {
                self.on_nodes.remove(&(node, *job));
            }
            HostAct::Left | HostAct::KeeperEnded => self.clear(node),
            HostAct::Strobe(_)
            | HostAct::Refuse(_)
            | HostAct::Stop(_)
            | HostAct::Resume(_)
            | HostAct::Classified { .. }
            | HostAct::Rows { .. }
            | HostAct::Signal { .. }
            | HostAct::Destroy(_)
            | HostAct::LeaseOver(_)
            | HostAct::End(_)
            | HostAct::Place(_)
            | HostAct::ClosePmi { .. } => {}
        }
    }

    fn clear(&mut self, node: NodeId) {
        self.on_nodes.retain(|(other, _), _| *other != node);
    }

    fn nothing_left(&self) -> Result<(), Broken> {
        if let Some(job) = self.holding.first() {
            return broken(format!("job {job} still holds its elements"));
        }
        match self.on_nodes.first_key_value() {
            Some(((node, job), left)) => {
                broken(format!("{node} still knows {job}, with {left} processes"))
            }
            None => Ok(()),
        }
    }
}

impl Invariant for ColumnsFreed {
    fn name(&self) -> &'static str {
        "every column is freed at the end"
    }

    fn note(&mut self, fact: &Fact<'_>) -> Result<(), Broken> {
        match fact {
            Fact::Journal(job, JobEventKind::Placed { .. }) => {
                self.holding.insert(*job);
            }
            Fact::Journal(job, JobEventKind::Ended { .. } | JobEventKind::Requeued { .. }) => {
                self.holding.remove(job);
            }
            Fact::Host(node, act) => self.act(*node, act),
            Fact::NodeDown(node) | Fact::NodeUp(node) => self.clear(*node),
            Fact::Over => return self.nothing_left(),
            Fact::Journal(..)
            | Fact::Acknowledged(_)
            | Fact::NodeBack(_)
            | Fact::Terminated(_)
            | Fact::Compared(_)
            | Fact::ManagerDown
            | Fact::ManagerUp
            | Fact::Inflicted(..)
            | Fact::NodeManagerDown(_)
            | Fact::NodeManagerLate(_)
            | Fact::Configured(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ended, key, launch, placed};
    use super::*;

    #[test]
    fn a_kept_element_is_detected() {
        let mut invariant = ColumnsFreed::default();
        invariant.note(&Fact::Journal(JobId(1), &placed(1, 0, &[1]))).unwrap();
        assert!(invariant.note(&Fact::Over).is_err());
        invariant.note(&Fact::Journal(JobId(1), &ended())).unwrap();
        invariant.note(&Fact::Over).unwrap();
    }

    #[test]
    fn a_left_over_process_is_detected() {
        let mut invariant = ColumnsFreed::default();
        invariant.note(&Fact::Host(NodeId(2), &launch(1, 1))).unwrap();
        let found = invariant.note(&Fact::Over).unwrap_err();
        assert_eq!(found.0, "n2 still knows 1.0:1, with 2 processes");
        invariant.note(&Fact::Host(NodeId(2), &HostAct::Forget(key(1, 1)))).unwrap();
        invariant.note(&Fact::Over).unwrap();
    }
}
