//! Serves the lanes of this node's children: receives replies, sends chunks.

use super::core::Core;
use super::link::Link;
use crate::observer::LinkKind;
use crate::shared_memory::HostId;
use crate::wire::{FrameBuffer, Lane, TreeHello, Up, encode_head};
use bytes::Bytes;
use std::rc::Rc;
use storm_primitives::NodeId;

/// Serves a lane that a child has opened, until the lane ends.
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

/// Waits for the end of the bulk lane. A child sends nothing on it.
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
