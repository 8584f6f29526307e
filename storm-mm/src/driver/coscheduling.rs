//! Leads the nodes of one partition through slices of communication, while there are jobs that
//! communicate in them (`storm_bcs::StrobeSender`).

use super::{Contents, Shared};
use std::rc::Rc;
use storm_bcs::{BcsError, StrobeSender};
use storm_primitives::Primitives;
use storm_rm::PartitionId;

/// Strobes for as long as the manager runs. A slice that ends with bytes on the way is a defect, after
/// which nothing can be relied on: there are no more then, and jobs of the partition end with that
/// reason, now and later.
pub(super) async fn run<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
    partition: PartitionId,
) {
    let bell = &shared.coscheduling_bells[usize::from(partition.0)];
    let mut sender: Option<StrobeSender<P>> = None;
    let mut failed: Option<BcsError> = None;
    let mut paused = true;
    loop {
        let wanted = shared.core.borrow().coscheduled(partition);
        let Some((nodes, length)) = wanted else {
            paused = true;
            bell.heard().await;
            continue;
        };
        if let Some(error) = &failed {
            let reason = error.to_string();
            shared.drive(|core, now| core.coscheduling_failed(now, partition, &reason));
            // Rung by that.
            bell.heard().await;
            bell.heard().await;
            continue;
        }
        let (network, plan) = (&shared.primitives, shared.plan.bcs);
        let sender =
            sender.get_or_insert_with(|| StrobeSender::new(network.clone(), plan, nodes.clone()));
        sender.lead(nodes, length);
        if std::mem::take(&mut paused) {
            sender.resume();
        }
        match sender.slice().await {
            Ok(checkpoint) => shared.core.borrow_mut().slice_ended(partition, checkpoint.slice),
            // The core hears of the deaths, too, and then wants others.
            Err(BcsError::NobodyLeft) => {
                paused = true;
                bell.heard().await;
            }
            Err(error) => {
                tracing::error!(partition = partition.0, %error, "buffered coscheduling has stopped");
                failed = Some(error);
            }
        }
    }
}
