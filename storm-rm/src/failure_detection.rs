//! Failure detection (paper, section 2.4.3): one COMPARE-AND-WRITE asks all
//! nodes for receipt of a heartbeat; if it does not hold, the set is bisected
//! until those at fault are named. `f` failures among `n` nodes take about
//! `f * log2(n / f)` questions that do not hold, and at most as many that do; on
//! a backend that names the dead itself, two for any number of dead.

use crate::GlobalPlan;
use storm_primitives::{CompareAndWrite, NodeSet, PrimitiveError, Primitives, Relation};

/// Nodes that did not confirm a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Isolated {
    /// The network cannot reach them.
    pub dead: NodeSet,
    /// They answer, but have not handled the heartbeat.
    pub late: NodeSet,
}

/// Names the nodes of `set` that are dead or have not handled the heartbeat
/// `number`, blaming nobody for a neighbour.
///
/// # Errors
/// [`PrimitiveError::Disconnected`] when it is this node that is cut off; other
/// errors are faults of the plan.
pub async fn isolate_failed<P: Primitives>(
    primitives: &P,
    plan: &GlobalPlan,
    set: &NodeSet,
    number: u64,
) -> Result<Isolated, PrimitiveError> {
    let mut isolated = Isolated::default();
    let mut suspects = vec![set.clone()];
    while let Some(part) = suspects.pop() {
        let question = CompareAndWrite::new(
            part.clone(),
            plan.heartbeat_seen,
            Relation::GreaterOrEqual,
            number,
        );
        match primitives.compare_and_write(question).await {
            Ok(true) => {}
            Err(PrimitiveError::NodesDead { nodes }) => {
                isolated.dead = isolated.dead.union(&nodes);
                suspects.push(part.difference(&nodes));
            }
            Ok(false) if part.len() == 1 => isolated.late = isolated.late.union(&part),
            Err(PrimitiveError::TimedOut { .. }) if part.len() == 1 => {
                isolated.dead = isolated.dead.union(&part);
            }
            Ok(false) | Err(PrimitiveError::TimedOut { .. }) => {
                let (low, high) = part.halves();
                suspects.extend([low, high]);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(isolated)
}
