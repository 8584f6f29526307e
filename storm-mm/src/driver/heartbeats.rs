//! Heartbeats (Algorithm 4): gathers what the nodes are to be told and says it,
//! one heartbeat after the other; and asks now and then whether all have heard.

use super::{Contents, Shared};
use std::rc::Rc;
use storm_primitives::{NodeId, NodeSet, PrimitiveError, Primitives, Runtime};
use storm_rm::failure_detection::isolate_failed;
use storm_rm::heartbeat::{HeartbeatError, encoded_bytes, issue_heartbeat};
use storm_rm::message::{Command, Heartbeat};
use storm_rm::remote_queue::{EnqueueError, Writer};

/// Issues heartbeats for as long as the manager runs.
pub(super) async fn run<P: Primitives, C: Contents + 'static>(shared: Rc<Shared<P, C>>) {
    let mut queue = Writer::new(shared.primitives.clone(), &shared.plan.heartbeats);
    let mut number = 0;
    loop {
        let commands = take_fitting(&shared);
        if commands.is_empty() {
            shared.outbox_bell.heard().await;
            continue;
        }
        number += 1;
        if let Err(error) = deliver(&shared, &mut queue, number, commands).await {
            shared.fail(error);
            return;
        }
    }
}

/// As many of the waiting commands as fit a heartbeat, in order; strobes first.
fn take_fitting<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
) -> Vec<(NodeSet, Command)> {
    let mut outbox = shared.outbox.borrow_mut();
    outbox.sort_by_key(|(_, command)| !matches!(command, Command::Strobe(_)));
    let limit = shared.plan.config.heartbeat_bytes as usize;
    let mut bytes = 0;
    let mut fitting = 0;
    for entry in outbox.iter() {
        let heartbeat =
            Heartbeat { number: u64::MAX, issued_ns: u64::MAX, commands: vec![entry.clone()] };
        bytes += encoded_bytes(&heartbeat).unwrap_or(limit);
        if bytes > limit && fitting > 0 {
            break;
        }
        fitting += 1;
    }
    outbox.drain(..fitting).collect()
}

/// Delivers commands to the living among their nodes; what meets a death is
/// repeated to the survivors before anything else is said.
async fn deliver<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    queue: &mut Writer<P>,
    number: u64,
    mut commands: Vec<(NodeSet, Command)>,
) -> Result<(), PrimitiveError> {
    loop {
        let alive = shared.primitives.membership().alive();
        for (nodes, _) in &mut commands {
            *nodes = nodes.intersection(&alive);
        }
        commands.retain(|(nodes, _)| !nodes.is_empty());
        let to = commands.iter().fold(NodeSet::new(), |all, (nodes, _)| all.union(nodes));
        if to.is_empty() {
            return Ok(());
        }
        let issued_ns = shared.now().as_nanos();
        let heartbeat = Heartbeat { number, issued_ns, commands: std::mem::take(&mut commands) };
        match issue_heartbeat(&shared.primitives, queue, &to, &heartbeat).await {
            Ok(()) => {
                shared.last_delivered.set(number);
                return Ok(());
            }
            Err(HeartbeatError::NotDelivered(PrimitiveError::NodesDead { nodes })) => {
                commands = heartbeat.commands;
                for (to, _) in &mut commands {
                    *to = to.difference(&nodes);
                }
            }
            Err(HeartbeatError::NotDelivered(error)) => return Err(error),
            Err(HeartbeatError::Enqueue(EnqueueError::Network(error))) => return Err(error),
            Err(
                error @ (HeartbeatError::Encoding(_)
                | HeartbeatError::Enqueue(EnqueueError::TooLarge { .. })),
            ) => {
                // Admission bounds a job's size; this is a defect, and the rest
                // of the cluster must not stop for it.
                tracing::error!(%error, "a heartbeat was dropped");
                return Ok(());
            }
        }
    }
}

/// Asks at every interval whether all nodes handled a recent heartbeat; those
/// that did not are named by bisection (paper, section 2.4.3).
pub(super) async fn watch_liveness<P: Primitives, C: Contents + 'static>(shared: Rc<Shared<P, C>>) {
    let runtime = shared.primitives.runtime().clone();
    loop {
        let nodes = shared.primitives.membership().alive().difference(&NodeSet::single(NodeId::MM));
        // An empty input for no job: it asks nothing but to be handled.
        let probe = Command::SetRows { job: storm_rm::JobId(0), rows: storm_rm::RowSet::ALL };
        shared.say(nodes.clone(), probe);
        runtime.sleep(shared.config.heartbeat_interval).await;
        let number = shared.last_delivered.get();
        match isolate_failed(&shared.primitives, &shared.plan, &nodes, number).await {
            Ok(isolated) => {
                for node in isolated.dead.iter() {
                    shared.drive(|core, now| core.node_lost(now, node));
                }
                if !isolated.late.is_empty() {
                    tracing::debug!(late = %isolated.late, number, "heartbeat not handled yet");
                }
            }
            Err(error) => {
                shared.fail(error);
                return;
            }
        }
    }
}
