//! A reliable connected queue pair, and requests that keep their memory.
//!
//! What a request reads is held until its completion is handed back
//! ([`QueuePair::completed`]) or the queue pair is gone: no adapter reads memory that
//! is used for something else or not registered any more.

use super::completion_queue::CompletionQueue;
use super::device::Port;
use super::memory_region::MemoryRegion;
use super::protection_domain::ProtectionDomain;
use super::raw_pair::RawPair;
use crate::VerbsError;
use crate::abi::{self, Gid, QpAttr, QpCap, Sge, qp_mask};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{c_int, c_uint};
use std::ops::Range;
use std::sync::Arc;

/// How long a packet may stay unacknowledged: 4.096 us times two to this power, 67 ms.
/// Longer than any queue of a switch, short enough to notice a lost host soon.
const ACK_TIMEOUT: u8 = 14;
/// How often it is sent again; soft-RoCE takes 7 for "for ever".
const RETRIES: u8 = 6;
/// The same where the other side has no receive request ready. It always has, by the
/// credits of a lane: that it has none is a fault, which shows.
const RECEIVER_RETRIES: u8 = 6;
/// Pause before that, coded: 0.64 ms.
const RECEIVER_PAUSE: u8 = 12;
/// Hops in a routed network.
const HOP_LIMIT: u8 = 64;
/// Pieces of memory that one request gathers.
const MAX_PIECES: usize = 2;

/// One end of a connection, as the other side needs to know it.
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

/// How to get to the other end.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Place of the own address in the table of the port.
    pub gid_index: u8,
    /// The largest packet that both ports take, coded.
    pub mtu: u32,
}

/// Where in the memory of the other side to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddr {
    /// The address there.
    pub addr: u64,
    /// The key to it.
    pub rkey: u32,
}

/// Registered memory that a request reads.
#[derive(Clone, Debug)]
pub enum Source {
    /// A part of a region.
    Part(Arc<MemoryRegion>, Range<usize>),
    /// Bytes that lie in a region with this key, and keep it.
    Bytes(Bytes, u32),
}

/// What one request reads, one after the other.
pub type Sources = [Option<Source>; MAX_PIECES];

/// A queue pair.
pub struct QueuePair {
    raw: RawPair,
    max_sends: usize,
    /// What requests under way read, by the ids of the requests, which complete in order.
    reading: RefCell<VecDeque<(u64, Sources)>>,
}

impl QueuePair {
    /// One with room for so many requests; nothing can be sent yet.
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
        Ok(QueuePair { raw, max_sends: max_sends as usize, reading: RefCell::default() })
    }

    /// Its number, which the other side needs.
    pub fn number(&self) -> u32 {
        self.raw.number()
    }

    /// Takes it to the state in which receive requests can be posted (INIT).
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

    /// Connects it to the other end: it can receive (RTR), then send (RTS).
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

    /// Takes it to its error state: nothing is sent any more, nothing that comes is
    /// written, and the requests under way are flushed.
    pub fn stop(&self) {
        self.raw.stop();
    }

    /// Whether there is room for another send request.
    pub fn has_room(&self) -> bool {
        self.reading.borrow().len() < self.max_sends
    }

    /// Writes what `sources` hold to `to` and has the other side told `immediate`.
    /// `id` must be larger than those before.
    ///
    /// # Errors
    /// [`VerbsError::Call`] when it was not taken: the queue pair has no room, or was
    /// never connected.
    pub fn post_write(
        &self,
        id: u64,
        sources: Sources,
        to: RemoteAddr,
        immediate: u32,
    ) -> Result<(), VerbsError> {
        let mut pieces = [Sge::default(); MAX_PIECES];
        let mut count = 0;
        for source in sources.iter().flatten() {
            pieces[count] = self.piece(source);
            count += 1;
        }
        let len: usize = pieces.iter().map(|piece| piece.length as usize).sum();
        let inline = len <= self.raw.max_inline_bytes();
        // Who waits for arrivals there is woken by it; nobody here by its completion.
        let flags = abi::SEND_SIGNALED | abi::SEND_SOLICITED;
        let flags = if inline { flags | abi::SEND_INLINE } else { flags };
        let mut request = abi::SendRequest {
            wr_id: id,
            next: std::ptr::null_mut(),
            sg_list: pieces.as_mut_ptr(),
            num_sge: count as c_int,
            opcode: abi::WR_RDMA_WRITE_WITH_IMM,
            send_flags: flags,
            imm_data: immediate.to_be(),
            remote_addr: to.addr,
            rkey: to.rkey,
            remote_qkey: 0,
            unused: [0; 9],
        };
        // SAFETY: request and pieces live through the call, which copies them. The memory
        // of the pieces is registered in this pair's domain, which `piece` asserts, and
        // held in `reading` until the request is complete, or until this pair is destroyed.
        unsafe { self.raw.post_send(&mut request) }?;
        self.reading.borrow_mut().push_back((id, sources));
        Ok(())
    }

    /// Makes ready for one more write with an immediate value. What is written goes where
    /// the writer says, so this needs no memory.
    ///
    /// # Errors
    /// [`VerbsError::Call`] when there is no room.
    pub fn post_receive(&self) -> Result<(), VerbsError> {
        let mut request = abi::ReceiveRequest {
            wr_id: 0,
            next: std::ptr::null_mut(),
            sg_list: std::ptr::null_mut(),
            num_sge: 0,
        };
        // SAFETY: the request lives through the call, which copies it, and names no memory.
        unsafe { self.raw.post_receive(&mut request) }
    }

    /// The send request `id` is complete, and all before it: their memory is free.
    pub fn completed(&self, id: u64) {
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

impl Drop for QueuePair {
    fn drop(&mut self) {
        // When it is gone no adapter reads what `reading` holds, which is dropped after
        // this, nor writes for the other side.
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
