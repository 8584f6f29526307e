//! The accepting side of a connection up to the point where it is known what it
//! is for. Strangers get little attention: a short frame, a short time, and not
//! too many at once.

use super::core::{Core, Role};
use super::{lanes, link::Link};
use crate::observer::LinkKind;
use crate::stream::Stream;
use crate::wire::{FrameBuffer, Hello, Lane, PROTOCOL_VERSION, TreeHello};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::Runtime;
use tokio::net::TcpListener;

/// How long a connection may take to say what it is for.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How many connections may be about to say so.
const MAX_STRANGERS: usize = 1024;
/// After an error of `accept`, such as no descriptor being left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Accepts connections as long as the member lives.
pub(crate) async fn accept_all(core: Rc<Core>, listener: TcpListener) {
    let strangers = Rc::new(Cell::new(0));
    let mut refusing = false;
    loop {
        let stream = match listener.accept().await {
            Ok((tcp, _)) => Stream::new(tcp),
            Err(error) => Err(error),
        };
        match stream {
            Ok(stream) if strangers.get() < MAX_STRANGERS => {
                refusing = false;
                strangers.set(strangers.get() + 1);
                let (core, strangers) = (core.clone(), strangers.clone());
                let runtime = core.runtime.clone();
                let greet = async move {
                    let hello = hear(&core, &stream).await;
                    strangers.set(strangers.get() - 1);
                    if let Some((hello, buffer)) = hello {
                        serve(core, hello, stream, buffer).await;
                    }
                };
                runtime.spawn(greet).detach();
            }
            // Said once, not by each of them.
            Ok(_) if refusing => {}
            Ok(_) => {
                refusing = true;
                tracing::warn!(node = %core.node, "too many connections say nothing");
            }
            Err(error) => {
                tracing::warn!(node = %core.node, %error, "a connection was not accepted");
                core.runtime.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What the connection is for.
async fn hear(core: &Core, stream: &Stream) -> Option<(Hello, FrameBuffer)> {
    let mut buffer = FrameBuffer::new();
    let hello = async {
        loop {
            match buffer.next_frame() {
                Ok(Some(frame)) => return frame.message::<Hello>().ok(),
                Ok(None) => {}
                Err(_) => return None,
            }
            if !matches!(stream.read(buffer.spare()).await, Ok(1..)) {
                return None;
            }
        }
    };
    let hello = core.runtime.timeout(HELLO_TIMEOUT, hello).await.flatten();
    if hello.is_none() {
        tracing::debug!(node = %core.node, "a connection did not say what it is for");
    }
    hello.map(|hello| (hello, buffer))
}

async fn serve(core: Rc<Core>, hello: Hello, stream: Stream, mut buffer: FrameBuffer) {
    match hello {
        Hello::Join(join) => {
            if let Some(Role::Root(_)) = core.role.get() {
                super::root::serve(core, join, stream, buffer).await;
            }
        }
        Hello::Tree(tree) => {
            if is_welcome(&core, &tree) {
                buffer.admit();
                let kind = match tree.lane {
                    Lane::Express => LinkKind::Down,
                    Lane::Bulk => LinkKind::Bulk,
                };
                let link = Link::new(stream, kind, core.observer.clone());
                lanes::serve(core, tree, link, buffer).await;
            }
        }
    }
}

/// Whether this node is, or may be about to become, the parent of the sender.
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
