//! A reliable connected queue pair. It keeps the memory of its requests.
//!
//! The memory that a request reads is held until its completion is reported
//! ([`QueuePair::completed`]) or the queue pair is destroyed. So no adapter reads memory that is no
//! longer registered, or already has another use.

use super::completion_queue::CompletionQueue;
use super::device::Port;
use super::memory_region::MemoryRegion;
use super::protection_domain::ProtectionDomain;
use super::raw_pair::RawPair;
use crate::VerbsError;
use crate::abi::{self, Gid, QpAttr, QpCap, Sge, qp_mask};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{c_int, c_uint};
use std::ops::Range;
use std::sync::Arc;

/// How long a packet may stay unacknowledged: 4.096 us times two to this power, 134 ms. A packet
/// waits less in the queues of switches. With all repetitions, the time is 0.94 s. The root decides
/// earlier, by default after 0.8 s, whether the host is cut off. A host that paused for less time
/// therefore keeps its lanes.
const ACK_TIMEOUT: u8 = 15;
/// How many times a packet is sent again. Soft-RoCE retries for ever with 7.
const RETRIES: u8 = 6;
/// The retries if the other side has no receive request ready. The credits of a lane guarantee one,
/// so exhausted retries are a fault, and end the lane with an error.
const RECEIVER_RETRIES: u8 = 6;
/// The pause before a retry, coded: 0.64 ms.
const RECEIVER_PAUSE: u8 = 12;
/// Hops in a routed network.
const HOP_LIMIT: u8 = 64;
/// The most pieces of memory that one request reads.
const MAX_PIECES: usize = 2;
/// Receive requests posted by one call.
const RECEIVES_PER_CALL: usize = 16;
/// One of this many requests with inline data is signalled. Its completion covers all requests
/// before it.
const INLINE_PER_COMPLETION: u64 = 16;

/// A receive request that names no memory.
const RECEIVE: abi::ReceiveRequest = abi::ReceiveRequest {
    wr_id: 0,
    next: std::ptr::null_mut(),
    sg_list: std::ptr::null_mut(),
    num_sge: 0,
};

/// One end of a connection, with the data that the other side needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The number of the queue pair.
    pub number: u32,
    /// Number of its first packet, 24 bits.
    pub first_packet: u32,
    /// Address of its port.
    pub gid: Gid,
    /// Local identifier of its port; 0 on Ethernet.
    pub lid: u16,
}

/// The way to the other end.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The index of the own address in the port's table.
    pub gid_index: u8,
    /// The largest packet that both ports take, coded.
    pub mtu: u32,
}

/// A place in the memory of the other side to write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddr {
    /// The address there.
    pub addr: u64,
    /// The key to the memory.
    pub rkey: u32,
}

/// Registered memory that a request reads.
#[derive(Clone, Debug)]
pub enum Source {
    /// A part of a region.
    Part(Arc<MemoryRegion>, Range<usize>),
    /// Bytes that lie in a region with this key. They keep the region registered.
    Bytes(Bytes, u32),
}

/// How the other side learns of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// By a completion with this immediate value. It uses up a receive request of the other side
    /// and wakes a task that waits for data.
    Wakes(u32),
    /// Like [`Wakes`](Self::Wakes), but wakes no task.
    Waits(u32),
    /// Not at all: the other side has to poll its memory.
    Nothing,
}

/// The memory that one request reads, in order.
pub type Sources = [Option<Source>; MAX_PIECES];

/// A queue pair.
pub struct QueuePair {
    raw: RawPair,
    max_sends: u64,
    /// The ids of the last posted request, and of the last one known to be complete.
    posted: Cell<u64>,
    done: Cell<u64>,
    /// Requests since the last signalled one.
    unsignalled: Cell<u64>,
    /// The memory that requests under way read, by request id. Requests complete in order.
    reading: RefCell<VecDeque<(u64, Sources)>>,
}

impl QueuePair {
    /// A pair with room for these numbers of requests. It must be connected before it can send.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        queue: &Arc<CompletionQueue>,
        max_sends: u32,
        max_receives: u32,
        max_inline_bytes: u32,
    ) -> Result<QueuePair, VerbsError> {
        let cap = QpCap {
            max_send_wr: max_sends,
            max_recv_wr: max_receives,
            max_send_sge: MAX_PIECES as u32,
            max_recv_sge: 1,
            max_inline_data: max_inline_bytes,
        };
        let raw = RawPair::new(domain, queue, abi::QPT_RC, cap)?;
        let (posted, done, unsignalled) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let (max_sends, reading) = (max_sends.into(), RefCell::default());
        Ok(QueuePair { raw, max_sends, posted, done, unsignalled, reading })
    }

    /// The pair's number, which the other side needs.
    pub fn number(&self) -> u32 {
        self.raw.number()
    }

    /// Moves the pair to the state in which receive requests can be posted (INIT).
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn initialise(&self, port: &Port) -> Result<(), VerbsError> {
        let mut attr = QpAttr {
            qp_state: abi::QPS_INIT,
            port_num: port.number,
            qp_access_flags: abi::ACCESS_REMOTE_WRITE,
            ..QpAttr::default()
        };
        use qp_mask::{ACCESS_FLAGS, PKEY_INDEX, PORT, STATE};
        self.raw.modify(&mut attr, STATE | PKEY_INDEX | PORT | ACCESS_FLAGS)
    }

    /// Connects the pair to the other end: it can receive (RTR), then send (RTS).
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn connect(
        &self,
        port: &Port,
        route: &Route,
        own: &Endpoint,
        peer: &Endpoint,
    ) -> Result<(), VerbsError> {
        let mut attr = QpAttr {
            qp_state: abi::QPS_RTR,
            path_mtu: route.mtu,
            dest_qp_num: peer.number,
            rq_psn: peer.first_packet,
            min_rnr_timer: RECEIVER_PAUSE,
            ..QpAttr::default()
        };
        attr.ah_attr.port_num = port.number;
        attr.ah_attr.dlid = peer.lid;
        if port.is_ethernet() {
            attr.ah_attr.is_global = 1;
            attr.ah_attr.grh.dgid = peer.gid;
            attr.ah_attr.grh.sgid_index = route.gid_index;
            attr.ah_attr.grh.hop_limit = HOP_LIMIT;
        }
        use qp_mask as mask;
        let ready_to_receive = mask::STATE
            | mask::AV
            | mask::PATH_MTU
            | mask::DEST_QPN
            | mask::RQ_PSN
            | mask::MAX_DEST_RD_ATOMIC
            | mask::MIN_RNR_TIMER;
        self.raw.modify(&mut attr, ready_to_receive)?;
        let mut attr = QpAttr {
            qp_state: abi::QPS_RTS,
            sq_psn: own.first_packet,
            timeout: ACK_TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RECEIVER_RETRIES,
            ..QpAttr::default()
        };
        let ready_to_send = mask::STATE
            | mask::SQ_PSN
            | mask::TIMEOUT
            | mask::RETRY_CNT
            | mask::RNR_RETRY
            | mask::MAX_QP_RD_ATOMIC;
        self.raw.modify(&mut attr, ready_to_send)
    }

    /// Moves the pair to its error state. It sends nothing more, arriving writes are dropped, and
    /// the requests under way are flushed.
    pub fn stop(&self) {
        self.raw.stop();
    }

    /// Whether there is room for another send request.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.posted.get() - self.done.get() < self.max_sends
    }

    /// The first send request that is not known to be complete.
    pub fn first_under_way(&self) -> Option<u64> {
        let next = self.done.get() + 1;
        (next <= self.posted.get()).then_some(next)
    }

    /// Writes the data of `sources` to `to` and notifies the other side. Returns the id of the
    /// request; its completion carries the same id. Ids count from 1.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the request was refused: the queue pair has no room, or was never
    /// connected.
    pub fn post_write(
        &self,
        sources: Sources,
        to: RemoteAddr,
        immediate: u32,
    ) -> Result<u64, VerbsError> {
        let mut pieces = [Sge::default(); MAX_PIECES];
        let mut count = 0;
        for source in sources.iter().flatten() {
            pieces[count] = self.piece(source);
            count += 1;
        }
        let len: usize = pieces.iter().map(|piece| piece.length as usize).sum();
        let inline = if len <= self.max_inline_bytes() { abi::SEND_INLINE } else { 0 };
        let id = self.posted.get() + 1;
        let flags = abi::SEND_SIGNALED | inline;
        let notice = Notice::Wakes(immediate);
        let mut request = request(id, &mut pieces[..count], flags, to, notice);
        // SAFETY: request and pieces live through the call, which copies them. The memory of the
        // pieces is registered in this pair's domain, which `piece` asserts. It is held in
        // `reading` until the request is complete, or until this pair is destroyed.
        unsafe { self.raw.post_send(&mut request) }?;
        self.posted.set(id);
        self.unsignalled.set(0);
        self.reading.borrow_mut().push_back((id, sources));
        Ok(id)
    }

    /// Writes `parts`, one after the other. They are copied into the request, so they may be in any
    /// memory and may be reused after this call. Returns the request's id if the request is
    /// signalled. Only some requests are signalled; their completions cover the requests before
    /// them.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if the request was refused.
    ///
    /// # Panics
    /// The parts exceed the [room](Self::max_inline_bytes).
    #[inline]
    pub fn post_inline(
        &self,
        parts: [&[u8]; MAX_PIECES],
        to: RemoteAddr,
        notice: Notice,
    ) -> Result<Option<u64>, VerbsError> {
        let mut pieces = [Sge::default(); MAX_PIECES];
        let (mut count, mut len) = (0, 0);
        for part in parts {
            // Some adapters would take a piece of length 0 for 2 GiB.
            if !part.is_empty() {
                let length = part.len() as c_uint;
                pieces[count] = Sge { addr: part.as_ptr() as u64, length, lkey: 0 };
                count += 1;
                len += part.len();
            }
        }
        assert!(len <= self.max_inline_bytes(), "it travels in the request");
        let (id, unsignalled) = (self.posted.get() + 1, self.unsignalled.get() + 1);
        // A pair with little room needs completions sooner.
        let is_signalled = unsignalled >= INLINE_PER_COMPLETION.min(self.max_sends);
        let flags = abi::SEND_INLINE | if is_signalled { abi::SEND_SIGNALED } else { 0 };
        let mut request = request(id, &mut pieces[..count], flags, to, notice);
        // SAFETY: request, pieces and parts live through the call, which copies them all.
        unsafe { self.raw.post_send(&mut request) }?;
        self.posted.set(id);
        self.unsignalled.set(if is_signalled { 0 } else { unsignalled });
        Ok(is_signalled.then_some(id))
    }

    /// Data up to this length may travel inside its request.
    #[inline]
    pub fn max_inline_bytes(&self) -> usize {
        self.raw.max_inline_bytes()
    }

    /// Posts receive requests for `count` more writes with an immediate value. They need no memory,
    /// because the writer chooses the destination of the data.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if there is no room.
    pub fn post_receives(&self, count: u32) -> Result<(), VerbsError> {
        let mut left = count as usize;
        while left > 0 {
            let mut requests = [const { RECEIVE }; RECEIVES_PER_CALL];
            let batch = left.min(RECEIVES_PER_CALL);
            let first = requests.as_mut_ptr();
            for at in 1..batch {
                // SAFETY: both places lie in the array, which is not touched until everything is
                // posted.
                unsafe { (*first.add(at - 1)).next = first.add(at) };
            }
            // SAFETY: the requests live through the call, which copies them, and name no
            // memory.
            unsafe { self.raw.post_receive(first) }?;
            left -= batch;
        }
        Ok(())
    }

    /// The send request `id` and all before it are complete. Releases their memory.
    pub fn completed(&self, id: u64) {
        self.done.set(self.done.get().max(id.min(self.posted.get())));
        let mut reading = self.reading.borrow_mut();
        while reading.front().is_some_and(|(first, _)| *first <= id) {
            reading.pop_front();
        }
    }

    fn piece(&self, source: &Source) -> Sge {
        match source {
            Source::Part(region, range) => {
                assert!(Arc::ptr_eq(region.domain(), self.raw.domain()), "one domain");
                assert!(range.start <= range.end && range.end <= region.len(), "in the region");
                let (addr, length) = (region.addr() + range.start as u64, range.len() as c_uint);
                Sge { addr, length, lkey: region.lkey() }
            }
            // A key of another domain, or of other memory, makes the request fail.
            Source::Bytes(bytes, lkey) => {
                Sge { addr: bytes.as_ptr() as u64, length: bytes.len() as c_uint, lkey: *lkey }
            }
        }
    }
}

/// A write with this notice for the other side. Its completion wakes no task on this side.
#[inline]
fn request(
    wr_id: u64,
    pieces: &mut [Sge],
    flags: c_uint,
    to: RemoteAddr,
    notice: Notice,
) -> abi::SendRequest {
    let (opcode, immediate, solicited) = match notice {
        Notice::Wakes(immediate) => (abi::WR_RDMA_WRITE_WITH_IMM, immediate, abi::SEND_SOLICITED),
        Notice::Waits(immediate) => (abi::WR_RDMA_WRITE_WITH_IMM, immediate, 0),
        Notice::Nothing => (abi::WR_RDMA_WRITE, 0, 0),
    };
    abi::SendRequest {
        wr_id,
        next: std::ptr::null_mut(),
        sg_list: pieces.as_mut_ptr(),
        num_sge: pieces.len() as c_int,
        opcode,
        send_flags: flags | solicited,
        imm_data: immediate.to_be(),
        remote_addr: to.addr,
        rkey: to.rkey,
        remote_qkey: 0,
        unused: [0; 9],
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // No adapter reads the memory in `reading`, or writes for the other side, once the pair is
        // destroyed. `reading` is dropped afterwards.
        if !self.raw.destroy() {
            std::mem::take(&mut *self.reading.borrow_mut()).into_iter().for_each(std::mem::forget);
        }
    }
}

impl std::fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QueuePair({:#x})", self.number())
    }
}
