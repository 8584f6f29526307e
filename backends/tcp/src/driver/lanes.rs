//! The two lanes from each child of this node: opening and closing.

use super::core::Core;
use super::link::Link;
use crate::observer::LinkKind;
use crate::shared_memory::HostId;
use crate::wire::{FrameBuffer, Lane, TreeHello, Up, encode_head};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use storm_primitives::{Epoch, NodeId};

/// The bound on children. A child may connect before this node knows that it is its child, but
/// there are never this many.
const MAX_CHILDREN: usize = 4096;

/// The lanes by child.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    children: RefCell<BTreeMap<NodeId, ChildLanes>>,
}

#[derive(Debug, Default)]
struct ChildLanes {
    epoch: Epoch,
    /// The child is on this host and takes references to its memory.
    is_here: bool,
    express: Option<Rc<Link>>,
    bulk: Option<Rc<Link>>,
}

impl Lanes {
    /// The express lane of `child`, and whether it takes references to memory of this host.
    pub(crate) fn express(&self, child: NodeId) -> Option<(Rc<Link>, bool)> {
        let children = self.children.borrow();
        let lanes = children.get(&child)?;
        Some((lanes.express.clone()?, lanes.is_here))
    }

    /// Wakes the bulk lane of `child`, which has something to send.
    pub(crate) fn poke_bulk(&self, child: NodeId) {
        if let Some(lanes) = self.children.borrow().get(&child)
            && let Some(bulk) = &lanes.bulk
        {
            bulk.poke();
        }
    }

    /// Closes the lanes of nodes that are no children under the view of `epoch`.
    pub(crate) fn keep_only(&self, epoch: Epoch, is_child: impl Fn(NodeId) -> bool) {
        self.children.borrow_mut().retain(|node, lanes| {
            let keep = is_child(*node) || lanes.epoch > epoch;
            if !keep {
                lanes.close();
            }
            keep
        });
    }

    pub(crate) fn close_all(&self) {
        std::mem::take(&mut *self.children.borrow_mut()).values().for_each(ChildLanes::close);
    }

    /// Adds a lane and closes the lane that it replaces. False if there are too many.
    fn add(&self, hello: &TreeHello, link: &Rc<Link>, is_here: bool) -> bool {
        let mut children = self.children.borrow_mut();
        if children.len() >= MAX_CHILDREN && !children.contains_key(&hello.node) {
            return false;
        }
        let lanes = children.entry(hello.node).or_default();
        lanes.epoch = hello.epoch;
        lanes.is_here = is_here;
        let slot = match hello.lane {
            Lane::Express => &mut lanes.express,
            Lane::Bulk => &mut lanes.bulk,
        };
        if let Some(old) = slot.replace(link.clone()) {
            old.close();
        }
        true
    }
}

impl ChildLanes {
    fn close(&self) {
        self.express.iter().chain(&self.bulk).for_each(|link| link.close());
    }
}

/// Serves a lane that a child has opened, to its end.
pub(crate) async fn serve(core: Rc<Core>, hello: TreeHello, link: Rc<Link>, buffer: FrameBuffer) {
    let is_here = hello.host.is_some() && hello.host == HostId::own();
    if core.has_ended() || !core.lanes.add(&hello, &link, is_here) {
        return link.close();
    }
    let child = hello.node;
    match hello.lane {
        Lane::Express => {
            core.runtime_spawn(link.clone().write_rest());
            read_replies(&core, child, &link, buffer).await;
            link.close();
        }
        Lane::Bulk => {
            let reader = core.clone();
            let watched = link.clone();
            core.runtime_spawn(async move { watch(&reader, &watched, buffer).await });
            link.write_from(|| next_chunk(&core, child, is_here)).await;
        }
    }
}

async fn read_replies(core: &Rc<Core>, child: NodeId, link: &Rc<Link>, mut buffer: FrameBuffer) {
    loop {
        let frames = match link.read(&mut buffer, LinkKind::Up).await {
            Ok(Some(frames)) => frames,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(node = %core.name, child = %core.peer(child), %error, "a child's lane is closed");
                return;
            }
        };
        for frame in frames {
            match frame.message::<Up>() {
                Ok(up) if !link.is_closed() => core.engine.borrow_mut().on_up(child, up),
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(node = %core.name, child = %core.peer(child), %error, "a child's lane is closed");
                    return;
                }
            }
        }
        core.pump();
    }
}

/// Waits for the end of the bulk lane; nothing else comes up on it.
async fn watch(core: &Core, link: &Rc<Link>, mut buffer: FrameBuffer) {
    match link.read(&mut buffer, LinkKind::Bulk).await {
        Ok(None) => {}
        Ok(Some(_)) => tracing::warn!(node = %core.name, "frames came up a bulk lane"),
        Err(error) => tracing::debug!(node = %core.name, %error, "a bulk lane is closed"),
    }
    link.close();
}

/// The next frame for `child`. It refers to memory if the child `is_here`.
fn next_chunk(core: &Core, child: NodeId, is_here: bool) -> Option<(Bytes, Bytes)> {
    let (mut chunk, piece) = core.engine.borrow_mut().next_chunk(child)?;
    chunk.shared = is_here.then(|| piece.reference()).flatten();
    let payload = if chunk.shared.is_some() { Bytes::new() } else { piece.bytes().clone() };
    Some((encode_head(&chunk, payload.len()), payload))
}
