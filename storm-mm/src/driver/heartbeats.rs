//! Heartbeats (Algorithm 4): sends the nodes all commands, one heartbeat after the other, and
//! checks at intervals whether all nodes have received one. Heartbeats that only probe are not
//! waited for.

use super::outbox::{Batch, Outbox};
use super::{Contents, Shared};
use futures_util::future::{Either, FutureExt, LocalBoxFuture, pending, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{NodeId, NodeSet, PrimitiveError, Primitives, Runtime};
use storm_rm::failure_detection::isolate_failed;
use storm_rm::heartbeat::{HeartbeatError, begin_heartbeat, issue_heartbeat};
use storm_rm::message::Heartbeat;
use storm_rm::remote_queue::{EnqueueError, Sequence, Writer};

/// Heartbeats in a row without an answer in the backend's time limit before the network counts as
/// lost. The backend cuts off a silent node long before.
const TIMEOUTS_MAX: u32 = 16;

/// The outcome of a probe.
struct Probed {
    number: u64,
    sequence: Sequence,
    status: Result<(), PrimitiveError>,
}

/// The queue of heartbeats, and the probes on their way through it.
struct Line<P> {
    queue: Writer<P>,
    /// The number of the last heartbeat.
    number: u64,
    /// Heartbeats that only probe. Probes are not waited for: a node that stands still takes none.
    /// Until it counts as dead, it must not delay the commands for the others.
    probes: FuturesUnordered<LocalBoxFuture<'static, Probed>>,
    /// Probes in a row that found no answer in time.
    timeouts: u32,
}

impl<P: Primitives> Line<P> {
    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Records the outcome of a probe. A probe that met a death is not repeated: the next probe is
    /// sent soon, and no node is blamed before.
    fn note(&mut self, outbox: &Outbox, probed: Probed) -> Result<(), PrimitiveError> {
        let Probed { number, sequence, status } = probed;
        if status.is_err() {
            self.queue.forget(sequence);
        } else {
            outbox.probe_delivered(number);
        }
        match status {
            Ok(()) | Err(PrimitiveError::NodesDead { .. }) => self.timeouts = 0,
            Err(PrimitiveError::TimedOut { .. }) if self.timeouts < TIMEOUTS_MAX => {
                self.timeouts += 1;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Waits for the outcome of one of these probes; for ever if there is no probe.
async fn next_probed(probes: &mut FuturesUnordered<LocalBoxFuture<'static, Probed>>) -> Probed {
    match probes.next().await {
        Some(probed) => probed,
        None => pending().await,
    }
}

/// Issues heartbeats for as long as the manager runs.
pub(super) async fn run<P: Primitives, C: Contents + 'static>(shared: Rc<Shared<P, C>>) {
    let queue = Writer::new(shared.primitives.clone(), &shared.plan.heartbeats);
    let mut line = Line { queue, number: 0, probes: FuturesUnordered::new(), timeouts: 0 };
    loop {
        if let Err(error) = issue_next(&shared, &mut line).await {
            shared.fail(error);
            return;
        }
    }
}

/// Waits for something to send, and sends it.
async fn issue_next<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    line: &mut Line<P>,
) -> Result<(), PrimitiveError> {
    loop {
        let probed = {
            let probed = pin!(next_probed(&mut line.probes));
            match select(probed, pin!(shared.outbox.news())).await {
                Either::Left((probed, _)) => probed,
                Either::Right(_) => break,
            }
        };
        line.note(&shared.outbox, probed)?;
    }
    shared.time_to_act().await;
    let limit_bytes = shared.plan.config.heartbeat_bytes as usize;
    let mut batch = shared.outbox.next_batch(limit_bytes, || shared.active_rows()).await;
    let probed = batch.take_probe();
    if !batch.is_empty() {
        deliver(shared, line, batch).await?;
    }
    if !probed.is_empty() {
        probe(shared, line, &probed).await?;
    }
    Ok(())
}

/// Begins a heartbeat without commands to the living among these nodes.
async fn probe<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    line: &mut Line<P>,
    nodes: &NodeSet,
) -> Result<(), PrimitiveError> {
    await_space(shared, line).await?;
    let to = nodes.intersection(&shared.primitives.membership().alive());
    if to.is_empty() {
        return Ok(());
    }
    let number = line.next_number();
    let issued_ns = shared.now().as_nanos();
    let heartbeat = Heartbeat { number, issued_ns, commands: Vec::new() };
    match begin_heartbeat(&shared.primitives, &mut line.queue, &to, &heartbeat).await {
        Ok(issued) => {
            let (sequence, primitives) = (issued.sequence(), shared.primitives.clone());
            let probed = async move {
                Probed { number, sequence, status: issued.delivered(&primitives).await }
            };
            line.probes.push(probed.boxed_local());
        }
        Err(HeartbeatError::Enqueue(EnqueueError::Network(error))) => return Err(error),
        // A heartbeat without commands is as short as can be, so this is a defect.
        Err(error) => tracing::error!(%error, "a heartbeat was dropped"),
    }
    Ok(())
}

/// Delivers a batch to the living among its nodes. A delivery that met a death is repeated to the
/// survivors before anything else is sent. Each repetition has fewer nodes, or fewer commands, or
/// counts as a timeout, so their number is bounded.
async fn deliver<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    line: &mut Line<P>,
    mut batch: Batch,
) -> Result<(), PrimitiveError> {
    let (mut timeouts, number) = (0, line.next_number());
    // Nodes that rejoined before the batch was taken are meant by its commands: the batch is for
    // their new incarnations.
    line.queue.nodes_died(&shared.outbox.deaths().take());
    loop {
        batch.nodes_died(&await_space(shared, line).await?);
        batch.keep(&shared.primitives.membership().alive());
        let to = batch.nodes();
        if to.is_empty() {
            return Ok(());
        }
        let issued_ns = shared.now().as_nanos();
        let heartbeat = Heartbeat { number, issued_ns, commands: batch.commands() };
        let error =
            match issue_heartbeat(&shared.primitives, &mut line.queue, &to, &heartbeat).await {
                Ok(()) => {
                    if !batch.probed.is_empty() {
                        shared.outbox.probe_delivered(number);
                    }
                    return Ok(());
                }
                Err(HeartbeatError::NotDelivered(error))
                | Err(HeartbeatError::Enqueue(EnqueueError::Network(error))) => error,
                // A set of nodes with holes takes more bytes than one without, so deaths since the
                // batch was taken may have made it too long.
                Err(HeartbeatError::Enqueue(EnqueueError::TooLarge { .. }))
                    if heartbeat.commands.len() > 1 =>
                {
                    shared.outbox.give_back(batch.second_half());
                    continue;
                }
                Err(
                    error @ (HeartbeatError::Encoding(_)
                    | HeartbeatError::Enqueue(EnqueueError::TooLarge { .. })),
                ) => {
                    // Admission bounds a job's size, so this is a defect. The rest of the cluster
                    // must continue.
                    tracing::error!(%error, "a heartbeat was dropped");
                    return Ok(());
                }
            };
        match error {
            PrimitiveError::NodesDead { nodes } => batch.keep(&to.difference(&nodes)),
            PrimitiveError::TimedOut { .. } if timeouts < TIMEOUTS_MAX => timeouts += 1,
            error => return Err(error),
        }
    }
}

/// Waits for room in the queue of heartbeats, and reports deaths to the queue meanwhile. A node
/// that died and rejoined at once answers, but releases nothing. Returns the nodes that died during
/// the wait or since the last one.
async fn await_space<P: Primitives, C: Contents + 'static>(
    shared: &Shared<P, C>,
    line: &mut Line<P>,
) -> Result<NodeSet, PrimitiveError> {
    let (mut timeouts, mut died) = (0, NodeSet::new());
    let deaths = shared.outbox.deaths();
    loop {
        let died_now = deaths.take();
        line.queue.nodes_died(&died_now);
        died = died.union(&died_now);
        let (waited, probed) = {
            let space = pin!(line.queue.space());
            let (death, probed) = (deaths.news(), next_probed(&mut line.probes));
            match select(space, select(pin!(death), pin!(probed))).await {
                Either::Left((space, _)) => (Some(space), None),
                Either::Right((Either::Left(_), _)) => (None, None),
                Either::Right((Either::Right((probed, _)), _)) => (None, Some(probed)),
            }
        };
        if let Some(probed) = probed {
            line.note(&shared.outbox, probed)?;
        }
        match waited {
            Some(Err(EnqueueError::Network(PrimitiveError::TimedOut { .. })))
                if timeouts < TIMEOUTS_MAX =>
            {
                timeouts += 1;
            }
            Some(Err(EnqueueError::Network(error))) => return Err(error),
            // Nothing was sent that could be too large.
            Some(Ok(()) | Err(EnqueueError::TooLarge { .. })) => {
                if deaths.handled() == shared.primitives.membership().epoch() {
                    return Ok(died);
                }
                // A node that died and rejoined in this instant would receive the commands for its
                // former incarnation.
                deaths.handled_news().await;
            }
            None => {}
        }
    }
}

/// Checks at every interval whether all nodes handled a heartbeat since the last check. Nodes
/// without a handled heartbeat are named by bisection (paper, section 2.4.3).
pub(super) async fn watch_liveness<P: Primitives, C: Contents + 'static>(shared: Rc<Shared<P, C>>) {
    let (runtime, membership) =
        (shared.primitives.runtime().clone(), shared.primitives.membership());
    let mut late_before = NodeSet::new();
    loop {
        let lives = membership.incarnations();
        let nodes = membership.alive().difference(&NodeSet::single(NodeId::MM));
        shared.outbox.probe(&nodes);
        runtime.sleep(shared.config.heartbeat_interval).await;
        let number = shared.outbox.last_probe();
        // The membership already reports nodes that died meanwhile.
        let nodes = nodes.intersection(&membership.alive());
        let isolated = match isolate_failed(&shared.primitives, &shared.plan, &nodes, number).await
        {
            Ok(isolated) => isolated,
            Err(error) => {
                shared.fail(error);
                return;
            }
        };
        // A node whose incarnation changed since the check has died and rejoined. The membership
        // already reported that death, so don't report it again.
        let is_same_life =
            |node: &NodeId| membership.incarnation(*node) == lives.get(node).copied();
        for node in isolated.dead.iter().filter(is_same_life) {
            shared.drive(|core, now| core.node_lost(now, node));
        }
        // A late node answers, so it may only be slow: an operator must judge.
        let silent = isolated.late.intersection(&late_before);
        if !silent.is_empty() {
            let interval: Duration = shared.config.heartbeat_interval;
            let nodes = shared.core().names_of_nodes(&silent);
            tracing::warn!(%nodes, number, ?interval, "heartbeats are not handled in time");
        }
        late_before = isolated.late;
    }
}
