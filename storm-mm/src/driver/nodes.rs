//! Follows nodes that join, report and leave. Each incarnation of a node has a reader of its own
//! for the node's queue of reports.

use super::parts::Parts;
use super::{Contents, Shared};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Incarnation, NodeId, Primitives, Runtime, Task};
use storm_rm::message::Report;
use storm_rm::remote_queue::Reader;

/// Longest time until a report arrives that was posted when a flag was set.
pub(super) const REPORT_DELAY: Duration = Duration::from_millis(20);

/// Follows the membership for as long as the manager runs.
pub(super) async fn run<P: Primitives, C: Contents + 'static>(shared: Rc<Shared<P, C>>) {
    let membership = shared.primitives.membership().clone();
    let mut readers: BTreeMap<NodeId, Task> = BTreeMap::new();
    for node in (1..=shared.plan.config.max_nodes).map(NodeId) {
        // The queue is not emptied: a node that joined before may have reported already.
        let queue = shared.plan.reports(node);
        let queue = queue.map(|plan| Reader::new(shared.primitives.clone(), plan));
        readers.extend(queue.map(|queue| (node, reader(&shared, node, queue))));
    }
    let mut known: BTreeMap<NodeId, Incarnation> = BTreeMap::new();
    loop {
        let epoch = membership.epoch();
        let now = membership.incarnations();
        let gone: Vec<(NodeId, Incarnation)> = known
            .iter()
            .filter(|(node, incarnation)| now.get(node) != Some(incarnation))
            .map(|(node, incarnation)| (*node, *incarnation))
            .collect();
        for (node, incarnation) in gone {
            readers.remove(&node);
            let dead = storm_primitives::NodeSet::single(node);
            shared.pending.nodes_died(&dead);
            shared.outbox.nodes_died(&dead);
            let ended = membership.has_process_ended(node, incarnation);
            let closed = membership.has_link_closed(node, incarnation);
            shared.drive(|core, now| match (ended, closed) {
                (true, _) => core.node_died(now, node),
                (false, true) => core.node_left(now, node),
                (false, false) => core.node_lost(now, node),
            });
            shared.runs.nodes_died(&dead, |step| shared.core().is_step_recovering(step));
            shared.input_of_dead(node);
            // The next incarnation of the node starts its queue anew.
            let queue = shared.plan.reports(node);
            let queue = queue.map(|plan| Reader::reset(shared.primitives.clone(), plan));
            readers.extend(queue.map(|queue| (node, reader(&shared, node, queue))));
        }
        known = now;
        shared.outbox.deaths().are_handled(epoch);
        membership.changed(epoch).await;
    }
}

/// Starts reading the reports of a node.
fn reader<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    node: NodeId,
    queue: Reader<P>,
) -> Task {
    shared.primitives.runtime().spawn(read_reports(shared.clone(), node, queue))
}

async fn read_reports<P: Primitives, C: Contents + 'static>(
    shared: Rc<Shared<P, C>>,
    node: NodeId,
    mut queue: Reader<P>,
) {
    let mut parts = Parts::default();
    loop {
        let item = match queue.dequeue_in_turn().await {
            Ok(item) => item,
            Err(error) => {
                let node = shared.core().name_of_node(node);
                tracing::error!(%node, %error, "no more reports can be read from this node");
                return;
            }
        };
        if shared.primitives.membership().incarnation(node).is_none() {
            // The item was on its way when the node died: the next incarnation of the node counts
            // from 0 again.
            let Some(plan) = shared.plan.reports(node) else { return };
            queue = Reader::reset(shared.primitives.clone(), plan);
            parts = Parts::default();
            continue;
        }
        match postcard::from_bytes::<Vec<Report>>(&item.data) {
            Ok(reports) => {
                for report in reports {
                    match parts.take(report) {
                        Ok(Some(report)) => take(&shared, node, report),
                        Ok(None) => {}
                        Err(error) => ignored(&shared, node, &error),
                    }
                }
            }
            Err(error) => ignored(&shared, node, &error),
        }
        queue.release(item);
    }
}

fn ignored<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    node: NodeId,
    error: &dyn std::fmt::Display,
) {
    let node = shared.core().name_of_node(node);
    tracing::error!(%node, %error, "a malformed report was ignored");
}

fn take<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    node: NodeId,
    report: Report,
) {
    if let Report::FileFailed { channel, generation, reason } = &report {
        shared.staging.note_failure(*channel, *generation, reason.clone());
    }
    if let Report::InputTaken { step, incarnation, taken_bytes } = report {
        return shared.input_taken(node, step, incarnation, taken_bytes);
    }
    let joined = matches!(report, Report::Joined(_));
    shared.drive(|core, now| core.report(now, node, report));
    if joined {
        shared.hold_again(node);
        shared.resume_inputs();
    }
}
