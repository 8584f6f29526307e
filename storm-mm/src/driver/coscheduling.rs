//! Leads the nodes of one partition through slices of communication (`storm_slices::StrobeSender`).
//! Slices begin only while a job of the partition has anything to send in them.

use super::{Contents, Shared};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{NodeSet, Primitives};
use storm_rm::PartitionId;
use storm_slices::{SliceError, StrobeSender};

/// Strobes for as long as the manager runs, when a job has anything for a slice.
///
/// A slice that ends with bytes on the way is a defect, after which nothing can be relied on. There
/// are no more slices then: the partition's present and later jobs end with the error as their
/// reason.
pub(super) async fn run<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
    partition: PartitionId,
) {
    let mut sender: Option<StrobeSender<P>> = None;
    let mut failed: Option<SliceError> = None;
    let mut paused = true;
    loop {
        // Between two slices, the nodes' memories are the whole state.
        if shared.core().awaits_standing(partition) {
            shared.drive(|core, _| core.slices_stand(partition));
        }
        let wanted = shared.core().coscheduled(partition);
        let Some((nodes, length)) = wanted else {
            paused = true;
            shared.slicing.act(partition).await;
            continue;
        };
        if let Some(error) = &failed {
            let reason = error.to_string();
            shared.drive(|core, now| core.coscheduling_failed(now, partition, &reason));
            // The call above rings for the first time.
            shared.slicing.act(partition).await;
            shared.slicing.act(partition).await;
            continue;
        }
        let (network, plan) = (&shared.primitives, shared.plan.bcs);
        let sender =
            sender.get_or_insert_with(|| StrobeSender::new(network.clone(), plan, nodes.clone()));
        sender.lead(nodes.clone(), length);
        if std::mem::take(&mut paused) {
            sender.resume();
        }
        match sender.slice().await {
            Ok(checkpoint) => {
                shared.ask(|core, _| core.slice_ended(partition, checkpoint.slice));
                if checkpoint.rests {
                    rest(&shared, partition, sender, &(nodes, length)).await;
                }
            }
            // The core receives the deaths as well, and then other nodes are led.
            Err(SliceError::NobodyLeft) => {
                paused = true;
                shared.slicing.act(partition).await;
            }
            Err(error) => {
                tracing::error!(partition = partition.0, %error, "buffered coscheduling has stopped");
                failed = Some(error);
            }
        }
    }
}

/// No job has anything for another slice: waits until one has, or until other nodes are to be led.
async fn rest<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    partition: PartitionId,
    sender: &mut StrobeSender<P>,
    led: &(NodeSet, Duration),
) {
    let others = async {
        while shared.core().coscheduled(partition).as_ref() == Some(led) {
            shared.slicing.act(partition).await;
        }
    };
    let ended = match select(pin!(sender.rest()), pin!(others)).await {
        Either::Left((ended, _)) => ended,
        Either::Right(_) => Ok(()),
    };
    // A sender that is cut off fails in the next slice.
    if let Err(error) = ended {
        tracing::debug!(%error, "no news will come");
    }
    sender.resume();
}
