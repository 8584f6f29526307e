//! The Buffer Sender: messages that local ranks have posted, until their bytes have been sent.

use crate::block::{self, Notice, SendDescriptor};
use crate::saved::SavedRequest;
use crate::{JobKey, Member, RequestId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use storm_mpi::Address;
use storm_primitives::NodeId;

/// A message that is not completely sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) member: Member,
    pub(crate) request: RequestId,
    pub(crate) data: Bytes,
}

/// All messages of this node's ranks, and notices for other nodes.
#[derive(Debug, Default)]
pub(crate) struct BufferSender {
    next: u64,
    /// Messages by name; they leave in no fixed order.
    outgoing: BTreeMap<u64, Outgoing>,
    /// Notices by destination, in the order of posting, which is the order in which messages match.
    untold: BTreeMap<NodeId, VecDeque<Notice>>,
}

impl BufferSender {
    /// Buffers a message.
    pub(crate) fn add(
        &mut self,
        member: Member,
        request: RequestId,
        address: Address,
        data: Bytes,
        to: NodeId,
    ) {
        self.next += 1;
        let descriptor = SendDescriptor {
            job: member.job,
            send: self.next,
            from: member.rank.0,
            to: address.to.0,
            context: address.context.0,
            tag: address.tag.0,
            bytes: data.len() as u64,
        };
        self.outgoing.insert(self.next, Outgoing { member, request, data });
        self.untold.entry(to).or_default().push_back(Notice::Send(descriptor));
    }

    /// Tells `to` that a job is over, ahead of all waiting descriptors. So every node of the job
    /// learns of it in the same slice.
    pub(crate) fn say_over(&mut self, job: JobKey, to: NodeId) {
        self.untold.entry(to).or_default().push_front(Notice::JobOver(job));
    }

    /// Queues another notice for `to`, behind the waiting descriptors.
    pub(crate) fn say(&mut self, notice: Notice, to: NodeId) {
        self.untold.entry(to).or_default().push_back(notice);
    }

    /// The blocks of this slice, at most one per destination. Notices that do not fit wait.
    pub(crate) fn blocks(&mut self, slice: u64, most: u64) -> Vec<(NodeId, Bytes)> {
        let mut blocks = Vec::new();
        for (to, notices) in &mut self.untold {
            let (block, packed) = block::pack(slice, most, notices.iter());
            notices.drain(..packed);
            blocks.push((*to, block));
        }
        self.untold.retain(|_, notices| !notices.is_empty());
        blocks
    }

    /// Whether other nodes have received all notices.
    pub(crate) fn has_told_all(&self) -> bool {
        self.untold.is_empty()
    }

    /// A message that waits for its bytes to be granted.
    pub(crate) fn get(&self, send: u64) -> Option<&Outgoing> {
        self.outgoing.get(&send)
    }

    /// Takes a message whose last bytes are being sent.
    pub(crate) fn take(&mut self, send: u64) -> Option<Outgoing> {
        self.outgoing.remove(&send)
    }

    /// Forgets the messages of a job, and returns their members and requests.
    pub(crate) fn forget(&mut self, job: JobKey) -> Vec<(Member, RequestId)> {
        for notices in self.untold.values_mut() {
            notices.retain(|notice| match notice {
                Notice::Send(descriptor) => descriptor.job != job,
                Notice::Ready { job: of, .. } => *of != job,
                Notice::JobOver(_) => true,
            });
        }
        self.untold.retain(|_, notices| !notices.is_empty());
        let mine = self.outgoing.extract_if(.., |_, out| out.member.job == job);
        mine.map(|(_, out)| (out.member, out.request)).collect()
    }

    /// A job's messages and notices.
    pub(crate) fn save(&self, job: JobKey) -> SavedSends {
        let mine = self.outgoing.iter().filter(|(_, out)| out.member.job == job);
        let outgoing = mine.map(|(send, out)| {
            (*send, SavedRequest::of(out.member, out.request), out.data.clone())
        });
        let untold = self.untold.iter().map(|(to, notices)| {
            let mine = notices.iter().filter(|notice| notice.job() == job);
            (*to, mine.cloned().collect())
        });
        SavedSends { next: self.next, outgoing: outgoing.collect(), untold: untold.collect() }
    }

    /// Continues the messages and notices of a job.
    pub(crate) fn restore(&mut self, job: JobKey, saved: SavedSends) {
        self.next = self.next.max(saved.next);
        for (send, request, data) in saved.outgoing {
            let (member, request) = request.in_job(job);
            self.outgoing.insert(send, Outgoing { member, request, data });
        }
        for (to, notices) in saved.untold.into_iter().filter(|(_, notices)| !notices.is_empty()) {
            self.untold.entry(to).or_default().extend(notices);
        }
    }
}

/// A job's messages that are not completely sent, and its notices for other nodes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedSends {
    next: u64,
    outgoing: Vec<(u64, SavedRequest, Bytes)>,
    untold: Vec<(NodeId, Vec<Notice>)>,
}
