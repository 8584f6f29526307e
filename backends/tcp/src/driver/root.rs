//! The root: lets nodes in, drives the sequencer, detects dead nodes.

use super::core::{Core, Identity, Role};
use super::handshake;
use super::link::{Link, ReadError};
use crate::config::{RootConfig, check_reach, name_of};
use crate::initiator::Issued;
use crate::liveness::{Liveness, Patience};
use crate::observer::LinkKind;
use crate::runtime::TcpRuntime;
use crate::sequencer::{Joined, Output, Sequencer};
use crate::shared_memory::HostId;
use crate::stream::Stream;
use crate::wire::{
    FrameBuffer, FromNode, FromRoot, Join, JoinAnswer, Member, PROTOCOL_VERSION, Refusal, Up,
    Welcome, encode,
};
use futures_util::future::LocalBoxFuture;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Incarnation, Instant, NodeId, NodeSet, Runtime};
use storm_session::RefusalLog;

/// The root's part above its engine.
pub(crate) struct RootRole {
    config: RootConfig,
    sequencer: RefCell<Sequencer>,
    liveness: RefCell<Liveness>,
    controls: RefCell<BTreeMap<NodeId, Rc<Link>>>,
    refusals: RefCell<RefusalLog>,
}

/// Starts a root. Also returns the address on which it listens.
pub(crate) fn bind(config: RootConfig) -> io::Result<(Rc<Core>, SocketAddr)> {
    let runtime = TcpRuntime::new()?;
    check_reach(config.trust.as_ref(), config.listen)?;
    let listener = storm_session::listen(config.listen)?;
    let listen = listener.local_addr()?;
    let incarnation = Incarnation(1);
    let core = Core::new(Identity {
        node: NodeId::MM,
        name: "the manager".to_owned(),
        incarnation,
        cluster: config.cluster.clone(),
        trust: config.trust.clone(),
        layout: config.layout.clone(),
        fanout: config.fanout,
        request_window: usize::MAX,
        inline_limit_bytes: u64::from(config.limits().inline_limit_bytes),
        by_reference: false,
        runtime,
        fabric: config.fabric.clone(),
        observer: config.observer.clone(),
    });
    let member = Member { node: NodeId::MM, incarnation, listen };
    let sequencer = Sequencer::new(
        config.limits(),
        config.layout.clone(),
        config.names.clone(),
        config.fanout,
        member,
    );
    // Another network places data in memory by itself, so references are of no use.
    let host = if config.fabric.is_none() { HostId::own() } else { None };
    let sequencer = sequencer.at_host(host);
    let patience = config.patience;
    let role = Rc::new(RootRole {
        sequencer: RefCell::new(sequencer),
        liveness: RefCell::new(Liveness::new(patience)),
        controls: RefCell::default(),
        refusals: RefCell::default(),
        config,
    });
    // The cell is empty: this is the only place that fills it for a root.
    let _ = core.role.set(role.clone());
    core.start();
    core.keep(handshake::accept_all(core.clone(), listener));
    core.keep(watch(core.clone(), role, patience));
    core.pump();
    Ok((core, listen))
}

/// Pings the nodes on which operations wait.
async fn watch(core: Rc<Core>, root: Rc<RootRole>, patience: Patience) {
    loop {
        core.runtime.sleep(patience.tick()).await;
        let now = core.runtime.now();
        let waited_for = root.waited_for(&core, now, patience);
        let controls = root.controls.borrow().clone();
        let unacknowledged_for =
            |node| controls.get(&node).map_or(Duration::MAX, |link| link.unacknowledged_for());
        let findings = root.liveness.borrow_mut().look(now, &waited_for, unacknowledged_for);
        // The pong proves that all requests issued before the ping have arrived.
        let number = now.since_origin().as_nanos() as u64;
        for node in findings.ping {
            root.tell(&core, node, &FromRoot::Ping { number });
        }
        if !findings.dead.is_empty() {
            let names: Vec<String> = findings.dead.iter().map(|node| root.name(node)).collect();
            tracing::warn!(nodes = %names.join(","), "no answer: dead");
            root.lose(&core, &findings.dead);
        }
        core.pump();
    }
}

/// Serves the control link of a node that wants to join, until the link ends.
async fn serve(
    core: Rc<Core>,
    root: Rc<RootRole>,
    mut join: Join,
    stream: Stream,
    mut buffer: FrameBuffer,
) {
    let from = stream.peer_addr().map_or(join.listen.ip(), |peer| peer.ip());
    if join.listen.ip().is_unspecified() {
        join.listen.set_ip(from);
    }
    let link = Link::new(stream, LinkKind::Control, core.observer.clone());
    let joined = root.admit(&join);
    let Joined { node, incarnation } = match joined {
        Ok(joined) => joined,
        Err(refusal) => {
            root.note_refusal(&core, from, &join.name, &refusal);
            link.send(encode(&JoinAnswer::Refused(refusal), &[]));
            link.flush();
            return;
        }
    };
    buffer.admit();
    core.pump();
    root.welcome(&core, node, incarnation, &link);
    let name = join.name;
    tracing::info!(node = %name, "joined");
    core.runtime_spawn(link.clone().write_rest());
    let end = read_control(&core, &root, node, &link, &mut buffer).await;
    if let Err(error) = &end {
        tracing::warn!(node = %name, %error, "a node is cut off");
    }
    // The node may have been cut off, and may have joined again over another link.
    let current = root.controls.borrow().get(&node).is_some_and(|now| Rc::ptr_eq(now, &link));
    if current {
        let process_ended = matches!(end, Ok(End::Unannounced)) && link.was_ended();
        match &end {
            Ok(End::Withdrawn) => {
                tracing::info!(node = %name, "wants to join no more; it never started")
            }
            _ => tracing::info!(node = %name, process_ended, "gone"),
        }
        if process_ended {
            core.membership.process_ended(node, incarnation);
        }
        // A host that is gone closes no link. The root notices its silence, and no longer uses this
        // link by then.
        let is_closed = match &end {
            Ok(End::Withdrawn) => false,
            Ok(End::Parting | End::Unannounced) => true,
            Err(error) => is_reset(error),
        };
        if is_closed {
            core.membership.link_closed(node, incarnation);
        }
        root.lose(&core, &NodeSet::single(node));
        core.pump();
    }
    link.close();
}

/// Whether the other side closed a link before it had read everything.
fn is_reset(error: &ReadError) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return io.kind() == io::ErrorKind::ConnectionReset;
        }
        source = error.source();
    }
    false
}

/// How a control link ends without breaking.
enum End {
    /// The node announced that it closes the link and continues.
    Parting,
    /// The node announced its end before it sent anything else: it never started.
    Withdrawn,
    /// The node announced nothing: its kernel closed the link, unless this side did.
    Unannounced,
}

async fn read_control(
    core: &Rc<Core>,
    root: &RootRole,
    node: NodeId,
    link: &Rc<Link>,
    buffer: &mut FrameBuffer,
) -> Result<End, ReadError> {
    let mut started = false;
    while let Some(frames) = link.read(buffer, LinkKind::Control).await? {
        for frame in frames {
            if link.is_closed() {
                return Ok(End::Unannounced);
            }
            root.liveness.borrow_mut().heard(node);
            let mut sequencer = root.sequencer.borrow_mut();
            sequencer.set_now(core.runtime.now());
            match frame.message::<FromNode>()? {
                FromNode::Request(request) => {
                    let result = sequencer.request(node, request, frame.payload());
                    result.map_err(io::Error::other)?;
                }
                FromNode::Data { request, offset } => {
                    let result = sequencer.data(node, request, offset, &frame.payload());
                    result.map_err(io::Error::other)?;
                }
                FromNode::LinkLost { epoch } => sequencer.link_lost(epoch),
                FromNode::References { taken } => sequencer.references(node, taken),
                FromNode::Pong { number } => {
                    if sequencer.answered(node, Instant::from_nanos(number)) {
                        let node = sequencer.name(node);
                        tracing::warn!(%node, "operations of this node were acknowledged that it \
                                               had not issued");
                    }
                }
                FromNode::Parting if started => return Ok(End::Parting),
                FromNode::Parting => return Ok(End::Withdrawn),
            }
            started = true;
        }
        core.pump();
    }
    Ok(End::Unannounced)
}

impl RootRole {
    /// Lets a node in, or returns the refusal.
    fn admit(&self, join: &Join) -> Result<Joined, Refusal> {
        let own = name_of(self.config.fabric.as_ref());
        if join.version == PROTOCOL_VERSION && join.fabric != own {
            return Err(Refusal::Fabric { root: own.to_owned(), node: join.fabric.clone() });
        }
        let joined = self.sequencer.borrow_mut().join(join, &self.config.cluster);
        joined.map_err(|refusal| match refusal {
            Refusal::Layout { root, node, .. } => {
                Refusal::Layout { root, node, plan: self.config.plan.clone() }
            }
            refusal => refusal,
        })
    }

    fn name(&self, node: NodeId) -> String {
        self.sequencer.borrow().name(node)
    }

    /// Logs a refusal. Repeated tries of a node do not fill the log.
    fn note_refusal(&self, core: &Core, from: IpAddr, name: &str, refusal: &Refusal) {
        let (now, from) = (core.runtime.now().since_origin(), from.to_canonical());
        if let Some(unlogged) = self.refusals.borrow_mut().note(from, refusal.kind(), now) {
            let hint = refusal.hint();
            tracing::warn!(name, %from, %refusal, %hint, unlogged, "a node was refused");
        }
    }

    fn now(&self) -> Instant {
        TcpRuntime::clock()
    }

    fn tell(&self, core: &Core, node: NodeId, message: &FromRoot) {
        if let Some(link) = self.controls.borrow().get(&node) {
            core.send(link, encode(message, &[]));
        }
    }

    fn welcome(&self, core: &Core, node: NodeId, incarnation: Incarnation, link: &Rc<Link>) {
        let limits = self.config.limits();
        let welcome = Welcome {
            node,
            incarnation,
            fanout: self.config.fanout,
            inline_limit_bytes: limits.inline_limit_bytes,
            chunk_bytes: limits.chunk_bytes,
            request_window: limits.request_window,
        };
        core.send(link, encode(&JoinAnswer::Welcome(welcome), &[]));
        let view = self.sequencer.borrow().snapshot();
        core.send(link, encode(&FromRoot::View(view), &[]));
        self.liveness.borrow_mut().joined(node);
        self.controls.borrow_mut().insert(node, link.clone());
        link.flush();
    }

    /// These nodes are dead: the root ignores their messages from now on.
    fn lose(&self, core: &Rc<Core>, nodes: &NodeSet) {
        for node in nodes.iter() {
            self.liveness.borrow_mut().lost(node);
            if let Some(link) = self.controls.borrow_mut().remove(&node) {
                link.close();
            }
        }
        let mut sequencer = self.sequencer.borrow_mut();
        sequencer.set_now(core.runtime.now());
        sequencer.lost(nodes);
    }

    /// The nodes whose replies have been missing for longer than the stall timeout.
    fn waited_for(&self, core: &Core, now: Instant, patience: Patience) -> NodeSet {
        let passed = now.since_origin().saturating_sub(patience.stall_timeout);
        let limit = Instant::ORIGIN + passed;
        let (seqs, stages) = self.sequencer.borrow().older_than(limit);
        let awaited = self.sequencer.borrow().awaited_since(limit);
        let engine = core.engine.borrow();
        let operations = seqs.into_iter().map(|seq| engine.missing(seq));
        let transfers = stages.into_iter().map(|stage| engine.missing_stage(stage));
        operations.chain(transfers).fold(awaited, |all, some| all.union(&some))
    }
}

impl Role for RootRole {
    /// Takes the root's own requests.
    fn submit(&self, _core: &Core, issued: Issued) {
        let mut sequencer = self.sequencer.borrow_mut();
        sequencer.set_now(self.now());
        if let Err(error) = sequencer.request(NodeId::MM, issued.request, issued.data) {
            // The root numbers its own requests and sends all of their data, so this error is a
            // bug.
            tracing::error!(%error, "the root cannot process its own message");
        }
    }

    /// Takes the combined messages of the root's engine.
    fn send_up(&self, _core: &Core, up: Up) {
        let mut sequencer = self.sequencer.borrow_mut();
        match up {
            Up::Acks { acks, issued, .. } => {
                sequencer.issued(issued);
                acks.into_iter().for_each(|(seq, verdict)| sequencer.complete(seq, verdict));
            }
            Up::Staged { stage, .. } => sequencer.staged(stage),
            Up::Attach(_) => {}
        }
    }

    /// Carries out the sequencer's outputs.
    fn pump(&self, core: &Rc<Core>) {
        loop {
            let Some(output) = self.sequencer.borrow_mut().take_output() else { return };
            match output {
                Output::View(view) => {
                    if let Err(error) = core.on_view(&view) {
                        tracing::error!(%error, "the root cannot process its own message");
                    }
                    let frame = encode(&FromRoot::View(view), &[]);
                    for link in self.controls.borrow().values() {
                        core.send(link, frame.clone());
                    }
                }
                Output::Down(down, payload) => {
                    let limit = self.config.limits().inline_limit_bytes as usize;
                    let mut engine = core.engine.borrow_mut();
                    if payload.len() > limit {
                        engine.on_lent(&down, payload.into());
                    } else {
                        let raw = encode(&down, &payload);
                        engine.on_down(&down, &payload, &raw);
                    }
                }
                Output::Chunk(chunk, payload) => {
                    let payload = match &core.fabric {
                        Some(fabric) => {
                            let members = self.controls.borrow().len();
                            fabric.place(payload, 2 * chunk.dest.len() > members)
                        }
                        None => payload,
                    };
                    let result = core.engine.borrow_mut().on_chunk(&chunk, payload);
                    if let Err(error) = result {
                        tracing::error!(%error, "the root cannot process its own message");
                    }
                }
                Output::Done { to: NodeId::MM, request, outcome } => {
                    core.initiator.borrow_mut().finish(request, outcome);
                }
                Output::Done { to, request, outcome } => {
                    self.tell(core, to, &FromRoot::Done { request, outcome });
                }
                Output::Grant { to, request } => self.tell(core, to, &FromRoot::Grant { request }),
            }
        }
    }

    fn join(
        self: Rc<Self>,
        core: Rc<Core>,
        join: Join,
        stream: Stream,
        buffer: FrameBuffer,
    ) -> Option<LocalBoxFuture<'static, ()>> {
        Some(Box::pin(serve(core, self, join, stream, buffer)))
    }

    fn close(&self, _core: &Core) {
        std::mem::take(&mut *self.controls.borrow_mut()).values().for_each(|link| link.close());
    }
}
