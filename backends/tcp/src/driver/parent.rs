//! The link to the parent: opens both lanes, reads them, and reports to the root if they break
//! while both ends live.

use super::core::Core;
use super::link::{Link, ReadError};
use super::node_role::NodeRole;
use super::parent_link::ParentLink;
use super::references::{Lender, Refusal};
use crate::fabric::{Carrier, End};
use crate::observer::{Direction, LinkKind};
use crate::runtime::TcpRuntime;
use crate::shared_memory::{HostId, Piece, Reference};
use crate::stream::Stream;
use crate::wire::{
    Chunk, Down, FrameBuffer, FromNode, Hello, Lane, LaneAnswer, Member, Operation,
    PROTOCOL_VERSION, TreeHello, encode,
};
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;
use storm_primitives::{Epoch, NodeId, Runtime};

/// The first pause after an attempt in which the parent was not reached.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Pauses double up to this. A dead parent is out of the tree within this time.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// How long a parent may take to open a session.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the link to `parent` and serves it until it ends. Retries until the link is open; a new
/// view drops this future.
pub(crate) async fn connect(core: Rc<Core>, role: Rc<NodeRole>, parent: Member, epoch: Epoch) {
    let mut pause = FIRST_PAUSE;
    let (express, bulk) = loop {
        match open_both(&core, &role, &parent, epoch).await {
            Ok(lanes) => break lanes,
            Err(error) => {
                tracing::debug!(node = %core.name, parent = %parent.listen, %error, "not reached");
                core.runtime.sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    };
    let (node, incarnation) = (parent.node, parent.incarnation);
    role.set_parent(ParentLink { node, incarnation, express: express.clone(), bulk: bulk.clone() });
    core.runtime_spawn(express.clone().write_rest());
    let lanes = [(Lane::Bulk, bulk.clone()), (Lane::Express, bulk)];
    for (lane, bulk) in lanes {
        let (core, role) = (core.clone(), role.clone());
        let lender = (node, incarnation);
        core.clone().runtime_spawn(serve(core, role, lender, express.clone(), bulk, lane));
    }
    role.attach(&core, &express);
    core.pump();
}

async fn open_both(
    core: &Core,
    role: &NodeRole,
    parent: &Member,
    epoch: Epoch,
) -> io::Result<(Rc<Link>, Rc<Link>)> {
    let open = async |lane: Lane, kind: LinkKind| {
        let opened =
            core.runtime.timeout(DIAL_TIMEOUT, open_lane(core, role, parent, epoch, lane)).await;
        let (stream, carrier) = opened.unwrap_or(Err(io::ErrorKind::TimedOut.into()))?;
        io::Result::Ok(Link::carried(stream, carrier, kind, core.observer.clone()))
    };
    let lanes = (open(Lane::Express, LinkKind::Up), open(Lane::Bulk, LinkKind::Bulk));
    futures_util::try_join!(lanes.0, lanes.1)
}

/// Opens one lane to the parent: the connection, and the carrier if another network carries the
/// frames.
async fn open_lane(
    core: &Core,
    role: &NodeRole,
    parent: &Member,
    epoch: Epoch,
    lane: Lane,
) -> io::Result<(Stream, Option<Rc<dyn Carrier>>)> {
    let addr = if parent.node == NodeId::MM { role.root } else { parent.listen };
    let stream = Stream::connect(addr, core.trust.as_ref()).await.map_err(io::Error::other)?;
    let opening = match &core.fabric {
        Some(fabric) => Some(fabric.open(parent.node, lane, End::Child)?),
        None => None,
    };
    let hello = Hello::Tree(TreeHello {
        version: PROTOCOL_VERSION,
        cluster: core.cluster.clone(),
        node: core.node,
        incarnation: core.incarnation,
        epoch,
        lane,
        host: core.references.are_taken().then(HostId::own).flatten(),
        offer: opening.as_ref().map(|opening| opening.offer()),
    });
    let frame = encode(&hello, &[]);
    let kind = match lane {
        Lane::Express => LinkKind::Up,
        Lane::Bulk => LinkKind::Bulk,
    };
    core.observer.note(Direction::Send, kind, &frame);
    let mut out = [frame].into_iter().collect();
    while !stream.write_some(&mut out)? {
        stream.writable().await?;
    }
    let Some(opening) = opening else { return Ok((stream, None)) };
    let mut buffer = FrameBuffer::new();
    loop {
        if let Some(frame) = buffer.next_frame().map_err(io::Error::other)? {
            let answer: LaneAnswer = frame.message().map_err(io::Error::other)?;
            return Ok((stream, Some(opening.connect(&answer.offer)?)));
        }
        if stream.read(buffer.spare()).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Reads one lane until it ends. The whole link has then ended.
async fn serve(
    core: Rc<Core>,
    role: Rc<NodeRole>,
    parent: Lender,
    express: Rc<Link>,
    bulk: Rc<Link>,
    lane: Lane,
) {
    let result = match lane {
        Lane::Express => read_operations(&core, &role, parent, &express).await,
        Lane::Bulk => read_chunks(&core, &role, parent, &bulk).await,
    };
    if let Err(error) = result {
        tracing::warn!(node = %core.name, %error, "the link to the parent is closed");
    }
    express.close();
    bulk.close();
    core.pump();
    lost(&core, &role, &express).await;
}

async fn read_operations(
    core: &Rc<Core>,
    role: &Rc<NodeRole>,
    parent: Lender,
    link: &Rc<Link>,
) -> Result<(), ReadError> {
    let mut buffer = FrameBuffer::new();
    buffer.admit();
    let mut has_signalled = false;
    while let Some(frames) = link.read(&mut buffer, LinkKind::Down).await? {
        let batch = core.batch();
        for frame in frames {
            let down: Down = frame.message()?;
            if has_signalled && matches!(down.operation, Operation::Compare { .. }) {
                has_signalled = false;
                batch.yield_now().await;
            }
            if link.is_closed() {
                return Ok(());
            }
            has_signalled |= down.operation.signals();
            let engine = &core.engine;
            match &down.shared {
                None => engine.borrow_mut().on_down(&down, &frame.payload(), &frame.raw),
                // The reference belongs to another view. Its data may be gone, and the engine
                // ignores it anyway.
                Some(_) if down.epoch != engine.borrow().epoch() => {}
                Some(reference) => {
                    let piece = open(core, role, parent, reference)?;
                    engine.borrow_mut().on_lent(&down, piece);
                }
            }
        }
        drop(batch);
    }
    Ok(())
}

async fn read_chunks(
    core: &Rc<Core>,
    role: &Rc<NodeRole>,
    parent: Lender,
    link: &Rc<Link>,
) -> Result<(), ReadError> {
    let mut buffer = FrameBuffer::new();
    buffer.admit();
    while let Some(frames) = link.read(&mut buffer, LinkKind::Bulk).await? {
        for frame in frames {
            if link.is_closed() {
                return Ok(());
            }
            let chunk: Chunk = frame.message()?;
            let piece = match &chunk.shared {
                None => frame.payload().into(),
                // The chunk belongs to another view, as a reference of an operation may.
                Some(_) if chunk.epoch != core.engine.borrow().epoch() => continue,
                Some(reference) => open(core, role, parent, reference)?,
            };
            core.engine.borrow_mut().on_chunk(&chunk, piece).map_err(io::Error::other)?;
        }
        core.pump();
    }
    Ok(())
}

/// Opens a reference. If no reference of this parent can work, this member refuses references for a
/// while and reports the refusal to the root.
fn open(
    core: &Rc<Core>,
    role: &Rc<NodeRole>,
    parent: Lender,
    reference: &Reference,
) -> io::Result<Piece> {
    let error = match Piece::open(reference) {
        Ok(piece) => {
            core.references.opened();
            return Ok(piece);
        }
        Err(error) => error,
    };
    let outlook = error.outlook();
    tracing::info!(node = %core.name, parent = %core.peer(parent.0), ?outlook, %error, "no reference");
    if let Some(refusal) = core.references.failed(parent, outlook) {
        role.tell_references(core, false);
        let (weak, role) = (Rc::downgrade(core), Rc::downgrade(role));
        core.runtime_spawn(take_again(weak, role, core.runtime.clone(), refusal));
    }
    Err(io::Error::other(error))
}

/// Ends a refusal when its time is over: reopens the link to the parent, with references.
async fn take_again(core: Weak<Core>, role: Weak<NodeRole>, runtime: TcpRuntime, refusal: Refusal) {
    runtime.sleep(refusal.lasts).await;
    let (Some(core), Some(role)) = (core.upgrade(), role.upgrade()) else { return };
    if !core.has_ended() && core.references.retry(refusal) {
        role.tell_references(&core, true);
        role.break_parent();
        core.pump();
    }
}

/// Reports to the root that a link in use broke. The root answers with a new view.
async fn lost(core: &Rc<Core>, role: &NodeRole, express: &Rc<Link>) {
    let Some(pause) = role.forget_parent(express) else { return };
    core.runtime.sleep(pause).await;
    if role.has_parent() || core.has_ended() {
        return;
    }
    let epoch = core.engine.borrow().epoch();
    core.send(role.control(), encode(&FromNode::LinkLost { epoch }, &[]));
    core.pump();
}
