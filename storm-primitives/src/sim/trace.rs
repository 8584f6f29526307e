//! The events of a simulation, in order. The same seed gives the same trace, byte for byte.
//!
//! The trace can be turned off: that of many thousand nodes does not fit in memory.

use crate::{Instant, NodeId};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// An event on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// The virtual time.
    pub at: Instant,
    /// The node.
    pub node: NodeId,
    /// The event, as text.
    pub what: String,
}

impl fmt::Display for TraceEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.at, self.node, self.what)
    }
}

/// The record of a simulation. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    entries: Rc<RefCell<Vec<TraceEntry>>>,
    silent: Rc<Cell<bool>>,
}

impl Trace {
    /// Adds an entry.
    pub fn record(&self, at: Instant, node: NodeId, what: impl Into<String>) {
        self.record_with(at, node, || what.into());
    }

    /// Adds an entry. The text is made only if the trace is turned on.
    pub fn record_with(&self, at: Instant, node: NodeId, what: impl FnOnce() -> String) {
        if !self.silent.get() {
            self.entries.borrow_mut().push(TraceEntry { at, node, what: what() });
        }
    }

    /// Records nothing from now on, or resumes recording.
    pub fn silence(&self, silent: bool) {
        self.silent.set(silent);
    }

    /// Everything so far.
    pub fn entries(&self) -> Vec<TraceEntry> {
        self.entries.borrow().clone()
    }

    /// The trace as text, one line per entry, to compare two runs.
    pub fn to_text(&self) -> String {
        self.entries.borrow().iter().map(|entry| format!("{entry}\n")).collect()
    }
}
