//! The parts that the root and the nodes share: the engine, its children, and the loop that
//! carries frames between them.

use super::lanes::Lanes;
use super::link::Link;
use super::references::References;
use crate::engine::{Engine, Output, Passed};
use crate::fabric::Fabric;
use crate::initiator::{Initiator, Issued, Waiter};
use crate::runtime::TcpRuntime;
use crate::sequencer::check;
use crate::stream::Stream;
use crate::wire::{Down, FrameBuffer, Join, Primitive, Up, View, encode_head};
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use storm_primitives::{
    EventTable, GlobalMemory, Incarnation, Layout, Membership, NodeId, PrimitiveError, Runtime,
    Task,
};
use storm_session::Trust;
use tokio::sync::Notify;

/// One member of the cluster: the state that its tasks share.
pub(crate) struct Core {
    pub(crate) node: NodeId,
    /// Its name, for messages to users.
    pub(crate) name: String,
    pub(crate) incarnation: Incarnation,
    pub(crate) cluster: String,
    pub(crate) trust: Option<Trust>,
    pub(crate) layout: Layout,
    pub(crate) memory: GlobalMemory,
    pub(crate) events: EventTable,
    pub(crate) membership: Membership,
    pub(crate) runtime: TcpRuntime,
    pub(crate) fabric: Option<Rc<dyn Fabric>>,
    pub(crate) observer: crate::Observer,
    pub(crate) engine: RefCell<Engine>,
    pub(crate) lanes: Lanes,
    pub(crate) initiator: RefCell<Initiator>,
    pub(crate) role: OnceCell<Rc<dyn Role>>,
    /// Links with frames to be written.
    dirty: RefCell<Vec<Rc<Link>>>,
    /// An operation was issued. The pump must run before the thread sleeps.
    issued: Notify,
    /// A batch of operations is being processed. Replies and requests are sent when it ends. If the
    /// reader of a lost link is still in a batch when the next begins, they are sent sooner, in the
    /// same order.
    in_batch: Cell<bool>,
    /// The tasks that keep this member working; dropped when it ends.
    pub(crate) tasks: RefCell<Vec<Task>>,
    /// Whether data may come as references to memory of this host.
    pub(crate) references: References,
    ended: Cell<bool>,
    end: Notify,
}

/// The member's place in the tree, with the links above it.
pub(crate) trait Role {
    /// Hands a request of this member to the root.
    fn submit(&self, core: &Core, issued: Issued);

    /// Takes a reply of this member and of the members below it.
    fn send_up(&self, core: &Core, up: Up);

    /// Carries out what the sequencer has decided. Only the root has a sequencer.
    fn pump(&self, _core: &Rc<Core>) {}

    /// Serves a node that wants to join, until its link ends. Only the root lets nodes in.
    fn join(
        self: Rc<Self>,
        core: Rc<Core>,
        join: Join,
        stream: Stream,
        buffer: FrameBuffer,
    ) -> Option<LocalBoxFuture<'static, ()>>;

    /// From now on, this member ends its link to the root only when its process ends.
    fn end_with_process(&self) {}

    /// This member is no longer part of the cluster.
    fn close(&self, core: &Core);
}

/// The identity of a new member.
pub(crate) struct Identity {
    pub(crate) node: NodeId,
    pub(crate) name: String,
    pub(crate) incarnation: Incarnation,
    pub(crate) cluster: String,
    pub(crate) trust: Option<Trust>,
    pub(crate) layout: Layout,
    pub(crate) fanout: u32,
    pub(crate) request_window: usize,
    pub(crate) inline_limit_bytes: u64,
    pub(crate) by_reference: bool,
    pub(crate) runtime: TcpRuntime,
    pub(crate) fabric: Option<Rc<dyn Fabric>>,
    pub(crate) observer: crate::Observer,
}

/// Operations that are processed together.
pub(crate) struct Batch(Rc<Core>);

impl Batch {
    /// Yields to tasks that were just signalled. They may store values that the next operation
    /// reads.
    pub(crate) async fn yield_now(&self) {
        self.0.pass_on();
        tokio::task::yield_now().await;
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.0.in_batch.set(false);
        self.0.pump();
    }
}

impl Core {
    /// A label of another member for logs: its listen address. Only the root knows names.
    pub(crate) fn peer(&self, node: NodeId) -> String {
        let engine = self.engine.try_borrow();
        let member = engine.ok().and_then(|engine| engine.topology().member(node).cloned());
        member.map_or_else(|| "unknown".to_owned(), |member| member.listen.to_string())
    }

    pub(crate) fn new(identity: Identity) -> Rc<Core> {
        let Identity { node, name, incarnation, cluster, trust, layout, runtime, fabric, .. } =
            identity;
        // Another network places data in memory by itself, so references are of no use.
        let takes_references = identity.by_reference && fabric.is_none();
        // Sparse memory keeps references: a large transfer is not copied into it and out again.
        let memory = GlobalMemory::sparse(&layout);
        let events = EventTable::new(&layout);
        let engine = Engine::new(node, identity.fanout, memory.clone(), events.clone());
        let (window, inline) = (identity.request_window, identity.inline_limit_bytes);
        let initiator = Initiator::new(events.clone(), window, inline);
        Rc::new(Core {
            node,
            name,
            incarnation,
            cluster,
            trust,
            layout,
            memory,
            events,
            membership: Membership::new(),
            runtime,
            fabric,
            observer: identity.observer,
            engine: RefCell::new(engine),
            lanes: Lanes::default(),
            initiator: RefCell::new(initiator),
            role: OnceCell::new(),
            dirty: RefCell::default(),
            issued: Notify::new(),
            in_batch: Cell::new(false),
            tasks: RefCell::default(),
            references: References::new(takes_references),
            ended: Cell::new(false),
            end: Notify::new(),
        })
    }

    /// Starts the tasks that every member runs.
    pub(crate) fn start(self: &Rc<Core>) {
        let core = self.clone();
        self.keep(async move {
            loop {
                core.issued.notified().await;
                core.pump();
            }
        });
    }

    /// Runs `future` until this member ends.
    pub(crate) fn keep(&self, future: impl Future<Output = ()> + 'static) {
        let task = self.runtime.spawn(future);
        self.tasks.borrow_mut().push(task);
    }

    /// Runs `future` as a task of its own. It ends with the link that it serves.
    pub(crate) fn runtime_spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.runtime.spawn(future).detach();
    }

    /// Issues an operation of this node, in this node's order. Returns before anything is sent, so
    /// that many operations share one write.
    pub(crate) fn issue(&self, primitive: Primitive, data: Bytes, waiter: Waiter) {
        let checked = check(&primitive, self.layout.size(), self.layout.events());
        let refused = match checked {
            Err(error) => Some(error),
            Ok(()) if self.ended.get() => Some(PrimitiveError::Disconnected),
            Ok(()) => None,
        };
        match refused {
            Some(error) => self.initiator.borrow().tell(waiter, Err(error)),
            None => {
                self.initiator.borrow_mut().issue(primitive, data, waiter);
                self.issued.notify_one();
            }
        }
    }

    /// Sends issued requests to the root, as far as the window has room.
    pub(crate) fn submit_issued(self: &Rc<Core>) {
        loop {
            let Some(issued) = self.initiator.borrow_mut().next_to_send() else { return };
            if let Some(role) = self.role.get() {
                role.submit(self, issued);
            }
        }
    }

    /// Processes all pending input, then writes the resulting frames.
    pub(crate) fn pump(self: &Rc<Core>) {
        if self.in_batch.get() {
            return self.pass_on();
        }
        loop {
            // A completed request makes room for a waiting one.
            self.submit_issued();
            if let Some(role) = self.role.get() {
                role.pump(self);
            }
            let own = self.initiator.borrow().last_prompt();
            let mut engine = self.engine.borrow_mut();
            engine.set_own(own);
            let output = engine.take_output();
            drop(engine);
            let Some(output) = output else { break };
            self.carry(output);
        }
        self.flush();
    }

    /// Writes the frames that go down the tree.
    fn pass_on(self: &Rc<Core>) {
        loop {
            let output = self.engine.borrow_mut().take_passed();
            let Some(output) = output else { break };
            self.carry(output);
        }
        self.flush();
    }

    fn carry(self: &Rc<Core>, output: Output) {
        match output {
            Output::Parent(up) => self.send_up(up),
            Output::Child(child, passed) => self.send_down(child, passed),
            Output::BulkReady(child) => self.lanes.poke_bulk(child),
        }
    }

    /// Collects replies and requests until the returned batch is dropped. Only for nodes.
    pub(crate) fn batch(self: &Rc<Core>) -> Batch {
        self.in_batch.set(true);
        Batch(self.clone())
    }

    fn send_up(self: &Rc<Core>, up: Up) {
        if let Some(role) = self.role.get() {
            role.send_up(self, up);
        }
    }

    fn send_down(&self, child: NodeId, passed: Passed) {
        let Some((link, is_here)) = self.lanes.express(child) else { return };
        match passed {
            Passed::Frame(raw) => self.send(&link, raw),
            Passed::Lent(down, piece) => {
                let shared = is_here.then(|| piece.reference()).flatten();
                let payload = if shared.is_some() { Bytes::new() } else { piece.bytes().clone() };
                let down = Down { shared, ..Down::clone(&down) };
                self.send(&link, encode_head(&down, payload.len()));
                if !payload.is_empty() {
                    link.send_payload(payload);
                }
            }
        }
    }

    /// Queues a frame, to be written at the end of this turn of the executor.
    pub(crate) fn send(&self, link: &Rc<Link>, frame: Bytes) {
        if link.send(frame) {
            self.dirty.borrow_mut().push(link.clone());
        }
    }

    fn flush(&self) {
        let dirty = std::mem::take(&mut *self.dirty.borrow_mut());
        dirty.iter().for_each(|link| link.flush());
    }

    /// Updates the membership to the current view.
    pub(crate) fn take_members(&self) {
        let engine = self.engine.borrow();
        let members = engine.topology().members();
        let gone = self.membership.alive().difference(&engine.topology().nodes());
        gone.iter().for_each(|node| self.membership.lost(node));
        for member in members {
            self.membership.joined(member.node, member.incarnation);
        }
    }

    /// The tree has changed.
    pub(crate) fn on_view(&self, view: &View) -> Result<(), crate::engine::ProtocolError> {
        self.engine.borrow_mut().on_view(view)?;
        self.take_members();
        let engine = self.engine.borrow();
        self.lanes.keep_only(view.epoch, |node| engine.is_child(node));
        Ok(())
    }

    /// Like [`finish`](Self::finish), for a process that is about to end. The root may then treat
    /// the end of the link as the end of the process.
    pub(crate) fn finish_with_process(&self) {
        if let Some(role) = self.role.get() {
            role.end_with_process();
        }
        self.finish();
    }

    /// This member is no longer part of the cluster: all its operations fail.
    pub(crate) fn finish(&self) {
        if self.ended.replace(true) {
            return;
        }
        self.lanes.close_all();
        if let Some(role) = self.role.get() {
            role.close(self);
        }
        self.initiator.borrow_mut().fail_all();
        self.tasks.borrow_mut().clear();
        self.end.notify_waiters();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// Completes when this member is no longer part of the cluster.
    pub(crate) async fn ended(&self) {
        let notified = self.end.notified();
        if !self.ended.get() {
            notified.await;
        }
    }
}
