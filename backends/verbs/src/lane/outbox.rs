//! What waits to be sent up a bulk lane.

use crate::message::Up;
use bytes::Bytes;
use std::collections::VecDeque;

/// What waits to be sent up: as much as the parent has given reason for, and one question for
/// something to hear, however many children ask and however long the lane stands.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Bytes>,
    /// Somebody asks to hear something of the group.
    probe: bool,
}

impl Outbox {
    /// One more.
    pub(super) fn push(&mut self, up: Up) {
        self.waiting.push_back(Bytes::copy_from_slice(&up.encode()));
    }

    /// A question that is the same whoever asks it: it is put behind what waits when that has
    /// been sent.
    pub(super) fn ask_for_probe(&mut self) {
        self.probe = true;
    }

    /// What to send next. Its front may have been sent in part.
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
    fn however_many_ask_one_question_waits() {
        let mut out = Outbox::default();
        out.push(Up::Hears { tag: 1, from: 2 });
        for _ in 0..1000 {
            out.ask_for_probe();
            // The lane takes nothing.
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
