//! Matching of messages and receives.
//!
//! Two queues hold the receives posted before their message, and the messages that arrived before
//! their receive. Each is searched from its oldest entry, and one source's messages arrive in the
//! order of their sends, so messages do not overtake (MPI-4.1, section 3.5).

use super::frame::Announced;
use super::requests::RequestId;
use crate::envelope::{Envelope, Pattern, Status};
use crate::rank::Rank;
use std::collections::VecDeque;

/// A message that no receive has matched yet.
#[derive(Debug)]
pub(super) struct Unexpected {
    pub(super) from: Rank,
    pub(super) envelope: Envelope,
    pub(super) body: Body,
}

impl Unexpected {
    fn status(&self) -> Status {
        let Envelope { tag, bytes, .. } = self.envelope;
        Status { source: self.from, tag, bytes }
    }

    /// The sender's request, if the message is still at the sender.
    fn announced(&self) -> Option<RequestId> {
        match &self.body {
            Body::Announced(announced) => Some(announced.send),
            Body::Eager(_) => None,
        }
    }
}

/// The place of a message's bytes.
#[derive(Debug)]
pub(super) enum Body {
    /// The message is here.
    Eager(Vec<u8>),
    /// The message is at the sender.
    Announced(Announced),
}

#[derive(Debug, Default)]
pub(super) struct Matching {
    posted: VecDeque<(Pattern, RequestId)>,
    unexpected: VecDeque<Unexpected>,
    /// Messages that were taken from `unexpected`, for receives that are yet to be posted.
    held: Vec<(MessageId, Unexpected)>,
    /// Number of messages that were ever held.
    taken: u64,
}

/// Names a message that a probe has taken. Only a receive with this name gets the message, and the
/// name is invalid afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageId(u64);

impl Matching {
    pub(super) fn post(&mut self, pattern: Pattern, recv: RequestId) {
        self.posted.push_back((pattern, recv));
    }

    pub(super) fn keep(&mut self, message: Unexpected) {
        self.unexpected.push_back(message);
    }

    /// Takes the oldest posted receive that accepts the message.
    pub(super) fn take_posted(&mut self, from: Rank, envelope: &Envelope) -> Option<RequestId> {
        let at = self.posted.iter().position(|(pattern, _)| pattern.accepts(from, envelope))?;
        self.posted.remove(at).map(|(_, recv)| recv)
    }

    /// The oldest posted receive that accepts the message.
    #[inline]
    pub(super) fn first_posted(&self, from: Rank, envelope: &Envelope) -> Option<RequestId> {
        let accepts = |(pattern, _): &&(Pattern, _)| pattern.accepts(from, envelope);
        self.posted.iter().find(accepts).map(|&(_, recv)| recv)
    }

    /// Whether a posted receive accepts the message.
    #[inline]
    pub(super) fn is_posted(&self, from: Rank, envelope: &Envelope) -> bool {
        !self.posted.is_empty()
            && self.posted.iter().any(|(pattern, _)| pattern.accepts(from, envelope))
    }

    /// Takes the oldest kept message that the pattern accepts.
    pub(super) fn take_unexpected(&mut self, pattern: &Pattern) -> Option<Unexpected> {
        let at = self.unexpected.iter().position(|m| pattern.accepts(m.from, &m.envelope))?;
        self.unexpected.remove(at)
    }

    /// The oldest kept message that the pattern accepts. It stays there.
    #[inline]
    pub(super) fn look_for(&self, pattern: &Pattern) -> Option<Status> {
        if self.unexpected.is_empty() {
            return None;
        }
        let found = self.unexpected.iter().find(|m| pattern.accepts(m.from, &m.envelope))?;
        Some(found.status())
    }

    /// Drops a kept message whose return its sender requests. Returns false if there is none,
    /// because a receive, or a probe for a later receive, has taken it.
    pub(super) fn drop_announced(&mut self, from: Rank, send: RequestId) -> bool {
        let is_it = |m: &Unexpected| m.from == from && m.announced() == Some(send);
        let at = self.unexpected.iter().position(is_it);
        at.is_some_and(|at| self.unexpected.remove(at).is_some())
    }

    /// Takes the oldest kept message that the pattern accepts, and holds it.
    pub(super) fn hold(&mut self, pattern: &Pattern) -> Option<(MessageId, Status)> {
        let message = self.take_unexpected(pattern)?;
        let (id, status) = (MessageId(self.taken), message.status());
        self.taken += 1;
        self.held.push((id, message));
        Some((id, status))
    }

    pub(super) fn take_held(&mut self, id: MessageId) -> Option<Unexpected> {
        let at = self.held.iter().position(|(held, _)| *held == id)?;
        Some(self.held.swap_remove(at).1)
    }

    /// Cancels a posted receive. Returns false if it has been matched or never existed.
    pub(super) fn withdraw(&mut self, recv: RequestId) -> bool {
        let at = self.posted.iter().position(|&(_, posted)| posted == recv);
        at.is_some_and(|at| self.posted.remove(at).is_some())
    }

    pub(super) fn clear(&mut self) {
        self.posted.clear();
        self.unexpected.clear();
        self.held.clear();
    }
}
