//! Observes every frame that a node sends or receives: for tracing, and for tests that stop a
//! process at a chosen frame.

use std::fmt;
use std::rc::Rc;

/// The direction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The frame is about to be handed to the network.
    Send,
    /// The frame was taken from the network and is about to be processed.
    Receive,
}

/// The kind of link that carries a frame. It limits the kinds of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Between a node and the root: views, requests, outcomes, pings.
    Control,
    /// Operations down the tree.
    Down,
    /// Replies up the tree.
    Up,
    /// Chunks of large transfers down the tree.
    Bulk,
}

/// Called for each frame, before it is sent or processed. Without a callback, it costs a branch.
#[derive(Clone, Default)]
pub struct Observer {
    callback: Option<Rc<Callback>>,
}

type Callback = dyn Fn(Direction, LinkKind, &[u8]);

impl Observer {
    /// Calls `callback` with each frame. For a chunk that is sent, `callback` gets only the header.
    pub fn new(callback: impl Fn(Direction, LinkKind, &[u8]) + 'static) -> Observer {
        Observer { callback: Some(Rc::new(callback)) }
    }

    pub(crate) fn note(&self, direction: Direction, link: LinkKind, frame: &[u8]) {
        if let Some(callback) = &self.callback {
            callback(direction, link, frame);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observer({})", if self.callback.is_some() { "on" } else { "off" })
    }
}
