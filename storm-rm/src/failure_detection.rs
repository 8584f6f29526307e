//! Failure detection (paper, section 2.4.3). One COMPARE-AND-WRITE checks whether all nodes have
//! received a heartbeat. If not, the set is bisected until the nodes at fault are named. `f`
//! failures among `n` nodes take about `f * log2(n / f)` questions that are FALSE, and at most as
//! many that are TRUE. On a backend that names the dead itself, any number of dead takes two
//! questions.

use crate::{GlobalPlan, JobIncarnation, JobSlot};
use storm_primitives::{CompareAndWrite, NodeSet, PrimitiveError, Primitives, Relation};

/// Nodes that did not confirm a heartbeat or a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Isolated {
    /// The nodes that the network cannot reach.
    pub dead: NodeSet,
    /// The nodes answer, but have not handled the heartbeat or started their ranks.
    pub late: NodeSet,
}

/// Names the nodes of `set` that are dead or have not handled the heartbeat `number`. No node is
/// blamed for a neighbour.
///
/// # Errors
/// [`PrimitiveError::Disconnected`] when this node itself is cut off; other errors are faults of
/// the plan.
pub async fn isolate_failed<P: Primitives>(
    primitives: &P,
    plan: &GlobalPlan,
    set: &NodeSet,
    number: u64,
) -> Result<Isolated, PrimitiveError> {
    let handled = Relation::GreaterOrEqual;
    let ask = |part| CompareAndWrite::new(part, plan.heartbeat_seen, handled, number);
    isolate(primitives, set, ask).await
}

/// Names the nodes of `set` that do not run all their ranks of a job, in the same way.
///
/// # Errors
/// Those of [`isolate_failed`].
pub async fn isolate_unstarted<P: Primitives>(
    primitives: &P,
    plan: &GlobalPlan,
    set: &NodeSet,
    slot: JobSlot,
    incarnation: JobIncarnation,
) -> Result<Isolated, PrimitiveError> {
    let Some(flag) = plan.started(slot) else { return Ok(Isolated::default()) };
    let run = incarnation.0;
    let ask = |part| CompareAndWrite::new(part, flag, Relation::Equal, run);
    isolate(primitives, set, ask).await
}

/// Bisects `set` until the nodes are named for which the question is FALSE.
async fn isolate<P: Primitives>(
    primitives: &P,
    set: &NodeSet,
    ask: impl Fn(NodeSet) -> CompareAndWrite,
) -> Result<Isolated, PrimitiveError> {
    let mut isolated = Isolated::default();
    let mut suspects = vec![set.clone()];
    while let Some(part) = suspects.pop() {
        match primitives.compare_and_write(ask(part.clone())).await {
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
