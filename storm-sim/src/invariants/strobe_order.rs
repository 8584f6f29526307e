//! All nodes see strobes in one order. A node obeys them in the order of their numbers, each once,
//! and a number means the same row on every node. The next manager starts counting again. A node
//! that has not joined it still obeys the former manager's strobes.

use super::{Broken, Invariant, broken};
use crate::Fact;
use crate::fact::strobe_of;
use std::collections::BTreeMap;
use storm_primitives::NodeId;
use storm_rm::message::Strobe;
use storm_rm::{PartitionId, Row};

/// Strobe numbers with a remembered row: far more than can be under way.
const REMEMBERED: usize = 1024;

/// The manager of a node that never joined a later one.
const FIRST_MANAGER: u64 = 1;

/// See the module.
#[derive(Debug, Default)]
pub struct StrobeOrder {
    /// How many managers there were so far.
    managers: u64,
    /// The manager that each node joined last.
    joined: BTreeMap<NodeId, u64>,
    latest: BTreeMap<(NodeId, PartitionId), u64>,
    rows: BTreeMap<(u64, PartitionId, u64), Row>,
}

impl StrobeOrder {
    fn obeyed(&mut self, node: NodeId, strobe: &Strobe) -> Result<(), Broken> {
        let Strobe { partition, row, number, .. } = *strobe;
        let latest = self.latest.entry((node, partition)).or_default();
        if number <= *latest {
            return broken(format!("{node} obeys strobe {number} after {latest}"));
        }
        *latest = number;
        let manager = self.joined.get(&node).copied().unwrap_or(FIRST_MANAGER);
        let known = *self.rows.entry((manager, partition, number)).or_insert(row);
        if known != row {
            let (row, known) = (row.0, known.0);
            return broken(format!("strobe {number} is row {row} on {node}, {known} elsewhere"));
        }
        if self.rows.len() > REMEMBERED {
            self.rows.pop_first();
        }
        Ok(())
    }
}

impl Invariant for StrobeOrder {
    fn name(&self) -> &'static str {
        "strobes have one order everywhere"
    }

    fn note(&mut self, fact: &Fact<'_>) -> Result<(), Broken> {
        match fact {
            Fact::Host(node, act) => match strobe_of(act) {
                Some(strobe) => self.obeyed(*node, strobe),
                None => Ok(()),
            },
            Fact::ManagerUp => {
                self.managers += 1;
                Ok(())
            }
            Fact::NodeUp(node) | Fact::NodeBack(node) => {
                self.joined.insert(*node, self.managers);
                self.latest.retain(|(other, _), _| other != node);
                Ok(())
            }
            Fact::Acknowledged(_)
            | Fact::Journal(..)
            | Fact::Terminated(_)
            | Fact::Compared(_)
            | Fact::NodeDown(_)
            | Fact::Inflicted(..)
            | Fact::NodeManagerDown(_)
            | Fact::NodeManagerLate(_)
            | Fact::Configured(_)
            | Fact::ManagerDown
            | Fact::Over => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::strobe;
    use super::*;

    #[test]
    fn a_late_or_repeated_strobe_is_detected() {
        let mut invariant = StrobeOrder::default();
        invariant.note(&Fact::Host(NodeId(1), &strobe(3, 0))).unwrap();
        for number in [2, 3] {
            assert!(invariant.note(&Fact::Host(NodeId(1), &strobe(number, 0))).is_err());
        }
    }

    #[test]
    fn a_strobe_number_with_two_rows_is_detected() {
        let mut invariant = StrobeOrder::default();
        invariant.note(&Fact::Host(NodeId(1), &strobe(3, 0))).unwrap();
        let found = invariant.note(&Fact::Host(NodeId(2), &strobe(3, 1))).unwrap_err();
        assert_eq!(found.0, "strobe 3 is row 1 on n2, 0 elsewhere");
    }

    #[test]
    fn strobes_are_compared_within_one_life_of_the_manager() {
        let mut invariant = StrobeOrder::default();
        invariant.note(&Fact::ManagerUp).unwrap();
        invariant.note(&Fact::Host(NodeId(1), &strobe(8, 0))).unwrap();
        invariant.note(&Fact::ManagerUp).unwrap();
        invariant.note(&Fact::NodeBack(NodeId(1))).unwrap();
        invariant.note(&Fact::Host(NodeId(1), &strobe(3, 1))).unwrap();
        // Node 2 has not noticed the new manager yet, and obeys the former one's strobes.
        invariant.note(&Fact::Host(NodeId(2), &strobe(3, 0))).unwrap();
        assert!(invariant.note(&Fact::Host(NodeId(2), &strobe(8, 1))).is_err());
        invariant.note(&Fact::NodeBack(NodeId(2))).unwrap();
        assert!(invariant.note(&Fact::Host(NodeId(2), &strobe(3, 0))).is_err());
    }

    #[test]
    fn a_new_life_may_begin_at_any_strobe() {
        let mut invariant = StrobeOrder::default();
        invariant.note(&Fact::Host(NodeId(1), &strobe(3, 0))).unwrap();
        invariant.note(&Fact::NodeUp(NodeId(1))).unwrap();
        invariant.note(&Fact::Host(NodeId(1), &strobe(3, 0))).unwrap();
    }
}
