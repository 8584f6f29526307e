//! The queue of data to be sent up a bulk lane.

use crate::message::Up;
use bytes::Bytes;
use std::collections::VecDeque;

/// The data to be sent up. Its size is at most that of the parent's messages plus one request for a
/// probe. The number of asking children and the length of a stall do not matter.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Bytes>,
    /// Whether a request for a probe must be sent.
    probe: bool,
}

impl Outbox {
    /// Adds a message.
    pub(super) fn push(&mut self, up: Up) {
        self.waiting.push_back(Bytes::copy_from_slice(&up.encode()));
    }

    /// Asks the parent for a probe. The request is the same for every child; it is queued once the
    /// waiting data has been sent.
    pub(super) fn ask_for_probe(&mut self) {
        self.probe = true;
    }

    /// The data to send next. Its front may have been sent in part.
    pub(super) fn waiting(&mut self) -> &mut VecDeque<Bytes> {
        if self.waiting.is_empty() && std::mem::take(&mut self.probe) {
            self.push(Up::Probe);
        }
        &mut self.waiting
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.probe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_question_for_a_probe_waits() {
        let mut out = Outbox::default();
        out.push(Up::Hears { tag: 1, from: 2 });
        for _ in 0..1000 {
            out.ask_for_probe();
            // The lane is stalled.
            assert_eq!(out.waiting().len(), 1);
        }
        out.waiting().clear();
        assert!(!out.is_empty());
        assert_eq!(out.waiting().drain(..).next().as_deref(), Some(&Up::Probe.encode()[..]));
        assert!(out.is_empty());
        out.ask_for_probe();
        assert_eq!(out.waiting().len(), 1, "the next question is another");
    }
}
