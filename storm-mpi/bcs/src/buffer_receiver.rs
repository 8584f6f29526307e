//! The Buffer Receiver. It holds the receives of local ranks and the messages announced to them,
//! matches them, and decides how many bytes the link takes in this slice.
//!
//! Messages match in the order of MPI. If a receive would accept two messages from one rank, the
//! earlier one matches.

use crate::block::{self, Grant, Order, SendDescriptor};
use crate::saved::{SavedPattern, SavedRequest, Unsaved};
use crate::{BcsError, Completion, JobKey, Member, Outcome, Plan, RequestId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use storm_mpi::{Pattern, Rank, Source, Status, Tag, TagPattern};
use storm_primitives::{GlobalMemory, NodeId};

/// Bytes of the header of a landed piece: its slice, and its length.
pub(crate) const PIECE_HEAD_BYTES: u64 = 16;
/// Alignment of pieces: they begin on words.
const WORD_BYTES: u64 = 8;

/// Bytes of a link's budget that a piece takes.
pub(crate) fn piece_cost(bytes: u64) -> u64 {
    PIECE_HEAD_BYTES + bytes.next_multiple_of(WORD_BYTES)
}

/// Bytes of a piece that fit into the rest of a budget; `None` when nothing fits.
pub(crate) fn piece_fit(left: u64, room: u64) -> Option<u64> {
    let fit = room.checked_sub(PIECE_HEAD_BYTES)? / WORD_BYTES * WORD_BYTES;
    (left == 0 || fit > 0).then(|| left.min(fit))
}

#[derive(Debug)]
struct Posted {
    request: RequestId,
    pattern: Pattern,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Announced {
    node: NodeId,
    descriptor: SendDescriptor,
}

/// One rank's receives and announced messages that have not matched yet, both in order.
#[derive(Debug, Default)]
struct Inbox {
    posted: VecDeque<Posted>,
    announced: VecDeque<Announced>,
}

/// A matched message.
#[derive(Debug)]
struct Active {
    member: Member,
    request: RequestId,
    announced: Announced,
    /// Bytes that the rank has room for.
    limit: usize,
    data: Vec<u8>,
    /// Bytes that have arrived, kept or not.
    received: u64,
}

/// A piece that arrives over the link in this slice.
#[derive(Debug)]
struct Expected {
    order: Order,
    landing: u32,
    most: u32,
}

/// All receives of this node's ranks.
#[derive(Debug, Default)]
pub(crate) struct BufferReceiver {
    inboxes: BTreeMap<Member, Inbox>,
    /// Matched messages, oldest first.
    active: BTreeMap<Order, Active>,
    matched: u64,
    expected: Vec<Expected>,
}

impl BufferReceiver {
    /// Takes a receive. It matches an announced message at once, or waits for a message.
    pub(crate) fn post(
        &mut self,
        at: (u64, NodeId),
        member: Member,
        request: RequestId,
        pattern: Pattern,
        bytes: usize,
    ) {
        let inbox = self.inboxes.entry(member).or_default();
        let posted = Posted { request, pattern, bytes };
        let found = inbox.announced.iter().position(|a| accepts(&pattern, &a.descriptor));
        match found.and_then(|place| inbox.announced.remove(place)) {
            Some(announced) => self.begin(at, member, posted, announced),
            None => inbox.posted.push_back(posted),
        }
    }

    /// Takes a descriptor. It matches a posted receive, or waits for a receive.
    pub(crate) fn announce(&mut self, at: (u64, NodeId), from: NodeId, descriptor: SendDescriptor) {
        let member = Member { job: descriptor.job, rank: Rank(descriptor.to) };
        let inbox = self.inboxes.entry(member).or_default();
        let announced = Announced { node: from, descriptor };
        let found = inbox.posted.iter().position(|p| accepts(&p.pattern, &descriptor));
        match found.and_then(|place| inbox.posted.remove(place)) {
            Some(posted) => self.begin(at, member, posted, announced),
            None => inbox.announced.push_back(announced),
        }
    }

    /// The first message that such a receive would take, and that no receive has taken.
    pub(crate) fn probe(&self, member: Member, pattern: &Pattern) -> Option<Status> {
        let inbox = self.inboxes.get(&member)?;
        let found = inbox.announced.iter().find(|a| accepts(pattern, &a.descriptor))?;
        Some(status(&found.descriptor))
    }

    /// Distributes the bytes that the link takes in this slice, oldest message first. Messages
    /// within the node need no link and are granted whole.
    pub(crate) fn grant(&mut self, here: NodeId, link_bytes: u64) -> BTreeMap<NodeId, Vec<Grant>> {
        let mut grants: BTreeMap<NodeId, Vec<Grant>> = BTreeMap::new();
        let mut landing = 0;
        for (order, active) in &self.active {
            let Announced { node, descriptor } = active.announced;
            let (send, offset, order) = (descriptor.send, active.received, *order);
            let left = descriptor.bytes - offset;
            if node == here {
                let grant = Grant { send, order, offset, bytes: 0, landing: 0 };
                grants.entry(node).or_default().push(grant);
                continue;
            }
            let Some(bytes) = piece_fit(left, link_bytes - landing) else { continue };
            // The number is no more than the budget, which fits.
            let bytes = bytes as u32;
            let at = landing as u32;
            landing += piece_cost(u64::from(bytes));
            grants.entry(node).or_default().push(Grant { send, order, offset, bytes, landing: at });
        }
        grants
    }

    /// Records which bytes the sender will send for these grants.
    pub(crate) fn expect(&mut self, granted: &[Grant]) {
        let expected = granted.iter().map(|grant| Expected {
            order: grant.order,
            landing: grant.landing,
            most: grant.bytes,
        });
        self.expected.extend(expected);
    }

    /// Whether no message waits for bytes.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    /// Whether bytes may be in the landing buffer.
    pub(crate) fn expects(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Takes the landed bytes out of the network's buffer. Returns the number of bytes taken,
    /// headers included.
    pub(crate) fn drain(
        &mut self,
        slice: u64,
        plan: &Plan,
        memory: &GlobalMemory,
        done: &mut Vec<Completion>,
    ) -> Result<u64, block::Unreadable> {
        let mut taken = 0;
        for Expected { order, landing, most } in std::mem::take(&mut self.expected) {
            let addr = plan.landing(u64::from(landing));
            if memory.load_word(addr).map_err(|_| block::Unreadable)? != slice {
                // The sender's link was full: the piece arrives in a later slice.
                continue;
            }
            let bytes = memory.load_word(addr.offset(8)).map_err(|_| block::Unreadable)?;
            if bytes > u64::from(most) {
                return Err(block::Unreadable);
            }
            let at = addr.offset(PIECE_HEAD_BYTES);
            let piece = memory.read_bytes(at, bytes as usize).map_err(|_| block::Unreadable)?;
            taken += PIECE_HEAD_BYTES + piece.len() as u64;
            done.extend(self.take_in(order, &piece));
        }
        Ok(taken)
    }

    /// Takes the next bytes of a message. Returns its completion when they are the last.
    pub(crate) fn take_in(&mut self, order: Order, piece: &Bytes) -> Option<Completion> {
        let active = self.active.get_mut(&order)?;
        let kept = (active.limit - active.data.len()).min(piece.len());
        active.data.extend_from_slice(&piece[..kept]);
        active.received += piece.len() as u64;
        if active.received < active.announced.descriptor.bytes {
            return None;
        }
        let active = self.active.remove(&order)?;
        let status = status(&active.announced.descriptor);
        let outcome = Ok(Outcome::Received { status, data: active.data });
        Some(Completion { member: active.member, request: active.request, outcome })
    }

    /// Forgets everything of a job, and returns the members and requests of its receives.
    pub(crate) fn forget(&mut self, job: JobKey) -> Vec<(Member, RequestId)> {
        let mut all = Vec::new();
        for (member, inbox) in self.inboxes.extract_if(.., |member, _| member.job == job) {
            all.extend(inbox.posted.iter().map(|posted| (member, posted.request)));
        }
        for (_, active) in self.active.extract_if(.., |_, active| active.member.job == job) {
            all.push((active.member, active.request));
        }
        all
    }

    /// A job's receives, between two slices.
    pub(crate) fn save(&self, job: JobKey) -> SavedReceives {
        let inboxes = self.inboxes.iter().filter(|(member, _)| member.job == job);
        let inboxes = inboxes.map(|(member, inbox)| SavedInbox {
            rank: member.rank.0,
            posted: inbox.posted.iter().map(|posted| posted.save(*member)).collect(),
            announced: inbox.announced.iter().copied().collect(),
        });
        let active = self.active.iter().filter(|(_, active)| active.member.job == job);
        let active = active.map(|(order, active)| SavedActive {
            order: *order,
            request: SavedRequest::of(active.member, active.request),
            announced: active.announced,
            limit: active.limit as u64,
            data: active.data.clone(),
            received: active.received,
        });
        let (inboxes, active) = (inboxes.collect(), active.collect());
        SavedReceives { matched: self.matched, inboxes, active }
    }

    /// Continues the receives of a job.
    pub(crate) fn restore(&mut self, job: JobKey, saved: SavedReceives) -> Result<(), Unsaved> {
        let number = |bytes: u64| usize::try_from(bytes).map_err(|_| Unsaved);
        self.matched = self.matched.max(saved.matched);
        for SavedInbox { rank, posted, announced } in saved.inboxes {
            let inbox = self.inboxes.entry(Member { job, rank: Rank(rank) }).or_default();
            inbox.announced.extend(announced);
            for SavedPosted { request, pattern, bytes } in posted {
                let (_, request) = request.in_job(job);
                let (pattern, bytes) = (pattern.into(), number(bytes)?);
                inbox.posted.push_back(Posted { request, pattern, bytes });
            }
        }
        for SavedActive { order, request, announced, limit, data, received } in saved.active {
            let ((member, request), limit) = (request.in_job(job), number(limit)?);
            if data.len() > limit {
                return Err(Unsaved);
            }
            let active = Active { member, request, announced, limit, data, received };
            self.active.insert(order, active);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        (slice, node): (u64, NodeId),
        member: Member,
        posted: Posted,
        announced: Announced,
    ) {
        self.matched += 1;
        let order = Order { slice, node: node.0, index: self.matched };
        let Posted { request, bytes: limit, .. } = posted;
        let active = Active { member, request, announced, limit, data: Vec::new(), received: 0 };
        self.active.insert(order, active);
    }
}

impl Posted {
    fn save(&self, member: Member) -> SavedPosted {
        let request = SavedRequest::of(member, self.request);
        SavedPosted { request, pattern: self.pattern.into(), bytes: self.bytes as u64 }
    }
}

/// The receives of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedReceives {
    matched: u64,
    inboxes: Vec<SavedInbox>,
    active: Vec<SavedActive>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedInbox {
    rank: u32,
    posted: Vec<SavedPosted>,
    announced: Vec<Announced>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedPosted {
    request: SavedRequest,
    pattern: SavedPattern,
    bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedActive {
    order: Order,
    request: SavedRequest,
    announced: Announced,
    limit: u64,
    data: Vec<u8>,
    received: u64,
}

impl From<block::Unreadable> for BcsError {
    fn from(_: block::Unreadable) -> BcsError {
        BcsError::Corrupt
    }
}

fn status(descriptor: &SendDescriptor) -> Status {
    Status {
        source: Rank(descriptor.from),
        tag: Tag(descriptor.tag),
        bytes: descriptor.bytes as usize,
    }
}

fn accepts(pattern: &Pattern, descriptor: &SendDescriptor) -> bool {
    let source = match pattern.source {
        Source::Any => true,
        Source::Rank(rank) => rank.0 == descriptor.from,
    };
    let tag = match pattern.tag {
        TagPattern::Any => true,
        TagPattern::Tag(tag) => tag.0 == descriptor.tag,
    };
    source && tag && pattern.context.0 == descriptor.context
}
