//! The links above a node: the control link to the root, and the link to the parent.

use super::core::{Core, Role};
use super::link::Link;
use super::parent_link::ParentLink;
use crate::initiator::Issued;
use crate::runtime::TcpRuntime;
use crate::stream::Stream;
use crate::wire::{
    FrameBuffer, FromNode, Join, Member, RequestId, Up, Welcome, encode, encode_head,
};
use futures_util::future::LocalBoxFuture;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, Task};

/// The pause before a node reports the loss of a link that had lasted. The cause may be a death
/// that the root already knows.
const FIRST_LOSS_PAUSE: Duration = Duration::from_millis(5);
/// The longest such pause. It keeps a link that breaks again and again from occupying the cluster.
const MAX_LOSS_PAUSE: Duration = Duration::from_millis(500);
/// A link that was in use for this long counts as good.
const LASTING: Duration = Duration::from_secs(5);

/// The links of a node. Replies go to the parent, everything else to the root.
pub(crate) struct NodeRole {
    control: Rc<Link>,
    pub(crate) root: SocketAddr,
    inline_limit_bytes: u64,
    chunk_bytes: usize,
    parent: RefCell<Option<ParentLink>>,
    dialing: RefCell<Option<Task>>,
    /// When the link to the parent was last made.
    linked_at: Cell<Instant>,
    /// How long to wait before the loss of a link is reported.
    loss_pause: Cell<Duration>,
    heard: Cell<bool>,
}

impl NodeRole {
    pub(crate) fn new(control: Rc<Link>, root: SocketAddr, welcome: &Welcome) -> NodeRole {
        NodeRole {
            control,
            root,
            inline_limit_bytes: u64::from(welcome.inline_limit_bytes),
            chunk_bytes: welcome.chunk_bytes.max(1) as usize,
            parent: RefCell::default(),
            dialing: RefCell::default(),
            linked_at: Cell::default(),
            loss_pause: Cell::new(FIRST_LOSS_PAUSE),
            heard: Cell::new(true),
        }
    }

    /// The root has sent something.
    pub(crate) fn hear(&self) {
        self.heard.set(true);
    }

    /// Whether the root has sent anything since the last call.
    pub(crate) fn take_heard(&self) -> bool {
        self.heard.replace(false)
    }

    pub(crate) fn control(&self) -> &Rc<Link> {
        &self.control
    }

    pub(crate) fn has_parent(&self) -> bool {
        self.parent.borrow().is_some()
    }

    pub(crate) fn set_parent(&self, link: ParentLink) {
        self.linked_at.set(TcpRuntime::clock());
        if let Some(old) = self.parent.borrow_mut().replace(link) {
            old.close();
        }
    }

    /// The link over `express` has ended. If it was the one in use, returns how long to wait before
    /// the loss is reported to the root. The pause doubles while links do not last.
    pub(crate) fn forget_parent(&self, express: &Rc<Link>) -> Option<Duration> {
        let mut parent = self.parent.borrow_mut();
        let current = parent.as_ref().is_some_and(|link| Rc::ptr_eq(&link.express, express));
        if !current {
            return None;
        }
        *parent = None;
        let lasted = TcpRuntime::clock() - self.linked_at.get() >= LASTING;
        let pause = if lasted { FIRST_LOSS_PAUSE } else { self.loss_pause.get() };
        self.loss_pause.set((pause * 2).min(MAX_LOSS_PAUSE));
        Some(pause)
    }

    /// Ends the link to the parent. A new view opens it again.
    pub(crate) fn break_parent(&self) {
        if let Some(parent) = &*self.parent.borrow() {
            parent.close();
        }
    }

    /// Tells the root whether data may come by reference.
    pub(crate) fn tell_references(&self, core: &Core, taken: bool) {
        core.send(&self.control, encode(&FromNode::References { taken }, &[]));
    }

    /// Reports to the parent that this node has its view, and which data it holds.
    pub(crate) fn attach(&self, core: &Core, express: &Rc<Link>) {
        let mut engine = core.engine.borrow_mut();
        core.send(express, encode(&engine.attach_message(), &[]));
        engine.report_stages();
    }

    /// Sends the data of a transfer that may begin. The pieces share the initiator's memory; the
    /// socket's backpressure sets the pace.
    pub(crate) fn send_data(&self, core: &Core, request: RequestId) {
        let Some(data) = core.initiator.borrow().data(request) else { return };
        for start in (0..data.len()).step_by(self.chunk_bytes) {
            let payload = data.slice(start..(start + self.chunk_bytes).min(data.len()));
            let message = FromNode::Data { request, offset: start as u64 };
            core.send(&self.control, encode_head(&message, payload.len()));
            self.control.send_payload(payload);
        }
    }

    /// The express lane to this parent, if the link in use is to it.
    pub(crate) fn link_to(&self, parent: &Member) -> Option<Rc<Link>> {
        let current = self.parent.borrow();
        current.as_ref().filter(|link| link.is_to(parent)).map(|link| link.express.clone())
    }

    /// Closes the link in use, which leads to a former parent.
    pub(crate) fn leave_parent(&self) {
        if let Some(old) = self.parent.borrow_mut().take() {
            old.close();
        }
    }

    /// Replaces the attempt to reach a parent.
    pub(crate) fn set_dialing(&self, task: Task) {
        *self.dialing.borrow_mut() = Some(task);
    }
}

impl Role for NodeRole {
    fn submit(&self, core: &Core, issued: Issued) {
        let inline = issued.data.len() as u64 <= self.inline_limit_bytes;
        let payload = if inline { issued.data.as_ref() } else { &[] };
        core.send(&self.control, encode(&FromNode::Request(issued.request), payload));
    }

    /// Sends a reply to the parent. Without a parent, the reply is dropped: a new parent asks for
    /// all replies again.
    fn send_up(&self, core: &Core, up: Up) {
        if let Some(parent) = &*self.parent.borrow() {
            core.send(&parent.express, encode(&up, &[]));
        }
    }

    fn join(
        self: Rc<Self>,
        _: Rc<Core>,
        _: Join,
        _: Stream,
        _: FrameBuffer,
    ) -> Option<LocalBoxFuture<'static, ()>> {
        None
    }

    fn end_with_process(&self) {
        self.control.set_last_word(None);
    }

    fn close(&self, core: &Core) {
        self.control.close();
        self.leave_parent();
        *self.dialing.borrow_mut() = None;
        // From now on this node learns nothing about the other members.
        core.membership.lost(NodeId::MM);
    }
}
