//! The slices of one partition: an edge every quantum while more than one row
//! holds jobs, none otherwise.

use super::{Contents, Shared};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::rc::Rc;
use storm_primitives::{Instant, Primitives, Runtime};
use storm_rm::PartitionId;

/// Cuts the partition's time for as long as the manager runs.
pub(super) async fn run<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
    partition: PartitionId,
) {
    let bell = &shared.slice_bells[usize::from(partition.0)];
    let runtime = shared.primitives.runtime().clone();
    let mut last_edge: Option<Instant> = None;
    loop {
        let Some(quantum) = shared.core.borrow().slice(partition) else {
            last_edge = None;
            bell.heard().await;
            continue;
        };
        let now = runtime.now();
        // Slicing begins with a whole slice. Edges that were missed are skipped,
        // not made up for.
        let due = match last_edge {
            Some(last) if last + quantum > now => last + quantum,
            Some(_) | None if last_edge.is_some() => now,
            Some(_) | None => now + quantum,
        };
        let edge = pin!(runtime.sleep_until(due));
        let changed = pin!(bell.heard());
        match select(edge, changed).await {
            Either::Left(_) => {
                last_edge = Some(due);
                shared.drive(|core, now| core.slice_edge(now, partition));
            }
            // The quantum or the rows changed: look again, from the same edge.
            Either::Right(_) => last_edge = Some(last_edge.unwrap_or(now)),
        }
    }
}
