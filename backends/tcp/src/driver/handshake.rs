//! The accepting side of a connection, until its peer and its purpose are known.
//!
//! An unknown peer gets few resources: messages of one length, then a short frame, all within a
//! short time. The number of unknown peers is bounded.

use super::child;
use super::core::Core;
use super::link::Link;
use crate::fabric::{Carrier, End};
use crate::observer::LinkKind;
use crate::stream::Stream;
use crate::wire::{
    AnyHello, DecodeError, Frame, FrameBuffer, Hello, JoinAnswer, Lane, LaneAnswer,
    PROTOCOL_VERSION, Refusal, TreeHello, encode,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Runtime, Task};
use storm_session::{MAGIC, RefusalLog, SessionError};
use tokio::net::{TcpListener, TcpStream};

/// How long a connection may take to name its peer and its purpose.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How many connections may be in the handshake. Beyond the limit, the oldest is dropped: a node
/// needs milliseconds, so silent strangers do not keep it out.
const MAX_STRANGERS: usize = 1024;
/// The pause after an error of `accept`, for example when no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Why a connection was dropped before its purpose was known.
#[derive(Debug, thiserror::Error)]
enum Stranger {
    /// The session could not be set up.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The peer has a key, but this cluster has none.
    #[error("it shows a key, and this cluster has none")]
    Keyed,
    /// The first message is not a hello.
    #[error(transparent)]
    Garbled(#[from] DecodeError),
    /// The peer is a node of another version. Its hello cannot be read.
    #[error("{0}")]
    Refused(Refusal),
    /// The bytes after the handshake were not made by the session's other end.
    #[error("its message was changed on the way")]
    Broken,
    /// The connection broke or ended.
    #[error("the connection ended")]
    Ended,
    /// The peer took too long.
    #[error("it did not state its purpose within {HELLO_TIMEOUT:?}")]
    Late,
    /// The connection was dropped in favour of newer ones.
    #[error("more than {MAX_STRANGERS} connections did not state their purpose")]
    Crowded,
}

impl Stranger {
    /// A short reason. Refusals for the same reason are logged together.
    fn reason(&self) -> &'static str {
        match self {
            Stranger::Session(SessionError::NoKey { .. }) => "no key",
            Stranger::Session(SessionError::OtherKey { .. }) => "other key",
            Stranger::Session(_) => "no session",
            Stranger::Keyed => "keyed",
            Stranger::Garbled(_) | Stranger::Broken => "garbled",
            Stranger::Ended => "ended",
            Stranger::Refused(_) => "refused",
            Stranger::Late => "late",
            Stranger::Crowded => "crowded",
        }
    }
}

/// Greets the connections of one listener.
#[derive(Default)]
struct Greeter {
    /// The connections in the handshake, in order of arrival.
    strangers: RefCell<BTreeMap<u64, (SocketAddr, Task)>>,
    refusals: RefCell<RefusalLog>,
}

/// Accepts connections until the member ends.
pub(crate) async fn accept_all(core: Rc<Core>, listener: TcpListener) {
    let greeter = Rc::new(Greeter::default());
    let mut number = 0;
    loop {
        match listener.accept().await {
            Ok((tcp, from)) => {
                number += 1;
                greeter.make_room(&core);
                let greet = greet(core.clone(), greeter.clone(), number, tcp, from);
                let task = core.runtime.spawn(greet);
                greeter.strangers.borrow_mut().insert(number, (from, task));
            }
            Err(error) => {
                tracing::warn!(node = %core.name, %error, "a connection was not accepted");
                core.runtime.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn greet(
    core: Rc<Core>,
    greeter: Rc<Greeter>,
    number: u64,
    tcp: TcpStream,
    from: SocketAddr,
) {
    let heard = core.runtime.timeout(HELLO_TIMEOUT, hear(&core, tcp)).await;
    match heard.unwrap_or(Err(Stranger::Late)) {
        // From here on, the connection is no longer limited with the unknown peers.
        Ok((hello, stream, buffer)) => {
            core.runtime_spawn(serve(core.clone(), hello, stream, buffer));
        }
        Err(why) => greeter.refused(&core, from, &why),
    }
    greeter.strangers.borrow_mut().remove(&number);
}

impl Greeter {
    /// Makes room for one more.
    fn make_room(&self, core: &Core) {
        let mut strangers = self.strangers.borrow_mut();
        if strangers.len() < MAX_STRANGERS {
            return;
        }
        let oldest = strangers.pop_first();
        drop(strangers);
        if let Some((_, (from, _))) = oldest {
            self.refused(core, from, &Stranger::Crowded);
        }
    }

    fn refused(&self, core: &Core, from: SocketAddr, why: &Stranger) {
        let ended = matches!(
            why,
            Stranger::Ended | Stranger::Session(SessionError::Io(_) | SessionError::Closed)
        );
        if ended {
            // Port probes connect and send nothing.
            tracing::debug!(node = %core.name, %from, %why, "a connection sent nothing");
            return;
        }
        let (now, address) = (core.runtime.now().since_origin(), from.ip().to_canonical());
        if let Some(unlogged) = self.refusals.borrow_mut().note(address, why.reason(), now) {
            tracing::warn!(node = %core.name, %from, %why, unlogged, "a connection was refused");
        }
    }
}

/// Reads the hello of a new connection: its peer and its purpose.
async fn hear(core: &Core, tcp: TcpStream) -> Result<(Hello, Stream, FrameBuffer), Stranger> {
    let mut stream = Stream::new(tcp).map_err(SessionError::Io)?;
    if let Some(trust) = &core.trust {
        let result = stream.authenticate(trust).await;
        if let Err(SessionError::NoKey { ours }) = &result {
            // The peer may be a node that was started without its key and speaks plain text.
            let refusal = Refusal::KeyNeeded { key: ours.to_string() };
            stream.discard_arrived();
            let answer = encode(&JoinAnswer::Refused(refusal), &[]);
            // Best effort: the peer may have closed the connection.
            let _ = stream.write_some(&mut [answer].into_iter().collect());
        }
        result?;
    }
    let mut buffer = FrameBuffer::new();
    loop {
        match buffer.next_frame() {
            Ok(Some(frame)) => match frame.message() {
                Ok(hello) => return Ok((hello, stream, buffer)),
                Err(error) => return Err(refuse_version(&frame, &stream).unwrap_or(error.into())),
            },
            Ok(None) => {}
            Err(_) if core.trust.is_none() && buffer.begins_with(&MAGIC) => {
                // Best effort: the peer may have closed the connection.
                let _ = stream.refuse_keyed().await;
                return Err(Stranger::Keyed);
            }
            Err(error) => return Err(error.into()),
        }
        match stream.read(buffer.spare()).await {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(Stranger::Broken);
            }
            Ok(0) | Err(_) => return Err(Stranger::Ended),
        }
    }
}

/// Refuses a node of another version. Its hello has other fields.
fn refuse_version(frame: &Frame, stream: &Stream) -> Option<Stranger> {
    let AnyHello::Join { version } = frame.beginning().ok()?;
    if version == PROTOCOL_VERSION {
        return None;
    }
    let refusal = Refusal::Version { root: PROTOCOL_VERSION, node: version };
    let answer = encode(&JoinAnswer::Refused(refusal.clone()), &[]);
    // Best effort: the peer may have closed the connection.
    let _ = stream.write_some(&mut [answer].into_iter().collect());
    Some(Stranger::Refused(refusal))
}

async fn serve(core: Rc<Core>, hello: Hello, stream: Stream, mut buffer: FrameBuffer) {
    match hello {
        Hello::Join(join) => {
            let role = core.role.get().cloned();
            if let Some(served) = role.and_then(|role| role.join(core, join, stream, buffer)) {
                served.await;
            }
        }
        Hello::Tree(tree) => {
            if !is_welcome(&core, &tree) {
                return;
            }
            buffer.admit();
            let kind = match tree.lane {
                Lane::Express => LinkKind::Down,
                Lane::Bulk => LinkKind::Bulk,
            };
            match carry(&core, &tree, &stream).await {
                Ok(carrier) => {
                    let link = Link::carried(stream, carrier, kind, core.observer.clone());
                    child::serve(core, tree, link, buffer).await;
                }
                Err(error) => {
                    tracing::warn!(node = %core.name, child = %core.peer(tree.node), %error, "no lane");
                }
            }
        }
    }
}

/// Makes and connects this side's end of a lane on another network, if the lane has one.
async fn carry(
    core: &Core,
    hello: &TreeHello,
    stream: &Stream,
) -> io::Result<Option<Rc<dyn Carrier>>> {
    let (fabric, theirs) = match (&core.fabric, &hello.offer) {
        (None, None) => return Ok(None),
        (Some(fabric), Some(theirs)) => (fabric, theirs),
        (None, Some(_)) | (Some(_), None) => {
            return Err(io::Error::other("its lanes are on another network than this node's"));
        }
    };
    let opening = fabric.open(hello.node, hello.lane, End::Parent)?;
    let answer = encode(&LaneAnswer { offer: opening.offer() }, &[]);
    let carrier = opening.connect(theirs)?;
    // Connect first: the peer sends as soon as it reads the answer.
    let mut out = [answer].into_iter().collect();
    while !stream.write_some(&mut out)? {
        stream.writable().await?;
    }
    Ok(Some(carrier))
}

/// Whether this node is the parent of the sender, or may be about to become it.
fn is_welcome(core: &Core, hello: &TreeHello) -> bool {
    if hello.version != PROTOCOL_VERSION || hello.cluster != core.cluster {
        return false;
    }
    let engine = core.engine.borrow();
    if hello.epoch > engine.epoch() {
        return true;
    }
    let member = engine.topology().member(hello.node);
    member.is_some_and(|member| member.incarnation == hello.incarnation)
        && engine.is_child(hello.node)
}
