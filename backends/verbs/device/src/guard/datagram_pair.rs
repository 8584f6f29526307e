//! A queue pair for datagrams (UD), with the memory for arriving datagrams. It can be a member of a
//! multicast group.

use super::address_handle::AddressHandle;
use super::completion_channel::CompletionChannel;
use super::completion_queue::{Completion, CompletionQueue, Outcome, Wanted};
use super::device::Port;
use super::memory_region::{Access, MemoryRegion};
use super::protection_domain::ProtectionDomain;
use super::raw_pair::RawPair;
use crate::VerbsError;
use crate::abi::{
    self, Gid, QpAttr, QpCap, ReceiveRequest, SEND_SIGNALED, SEND_SOLICITED, SendRequest, Sge,
    WC_WR_FLUSH_ERR, qp_mask,
};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_uint;
use std::sync::Arc;

/// The adapter writes the address of the sender (GRH) in front of each datagram.
const ADDRESS_BYTES: u32 = 40;
/// The queue pair number that addresses all members of a group.
const GROUP_NUMBER: u32 = 0xff_ffff;
/// The bit that marks ids of receive requests.
const RECEIVE: u64 = 1 << 63;

/// The capacity of a pair.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Datagrams under way.
    pub sends: u32,
    /// The most datagrams that have arrived and are not processed yet.
    pub receives: u32,
    /// The longest datagram, in bytes: the MTU of the network.
    pub datagram_bytes: u32,
    /// The length of each datagram's header, which is not part of its payload, in bytes.
    pub head_bytes: u32,
}

/// The destination of datagrams.
#[derive(Debug)]
pub struct Destination {
    /// The group.
    pub group: AddressHandle,
    /// The Q_Key of its members.
    pub qkey: u32,
}

/// A queue pair for datagrams.
pub struct DatagramPair {
    raw: RawPair,
    /// The queue of this pair alone.
    queue: Arc<CompletionQueue>,
    room: Room,
    /// The memory for arriving datagrams, one place per receive request.
    arrivals: Option<Arc<MemoryRegion>>,
    /// The headers of datagrams under way, one place per send request.
    heads: Option<Arc<MemoryRegion>>,
    to: Option<Destination>,
    /// The number of datagrams ever posted.
    posted: Cell<u64>,
    /// The payloads under way, each with the count of sent datagrams after its last.
    sending: RefCell<VecDeque<(u64, Bytes)>>,
    /// The groups that this pair is a member of.
    groups: RefCell<Vec<Gid>>,
}

/// The result of [`DatagramPair::take`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// Datagrams have come.
    pub received: bool,
    /// A payload has left.
    pub sent: bool,
    /// A request has failed, and the pair with it: `enum ibv_wc_status`.
    pub failed: Option<u32>,
}

impl DatagramPair {
    /// Makes a pair that can send to `to` at once, if `to` is given. `channel` delivers its
    /// notifications under `name`.
    ///
    /// # Errors
    /// [`VerbsError::Call`], [`VerbsError::LockedMemory`].
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        (channel, name): (&Arc<CompletionChannel>, usize),
        port: &Port,
        qkey: u32,
        room: Room,
        to: Option<Destination>,
    ) -> Result<DatagramPair, VerbsError> {
        if let Some(to) = &to {
            assert!(Arc::ptr_eq(to.group.domain(), domain), "one domain");
        }
        let cap = QpCap {
            max_send_wr: room.sends.max(1),
            max_recv_wr: room.receives.max(1),
            max_send_sge: 2,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        // No other node receives these keys, but keys can be guessed.
        let memory = |count: u32, bytes: u32, access| match count {
            0 => Ok(None),
            _ => MemoryRegion::new(domain, count as usize * bytes as usize, access)
                .map(|region| Some(Arc::new(region))),
        };
        let arrival_bytes = ADDRESS_BYTES + room.datagram_bytes;
        let arrivals = memory(room.receives, arrival_bytes, Access::Receive)?;
        let heads = memory(room.sends, room.head_bytes, Access::Read)?;
        let len = room.sends + room.receives + 2;
        let queue = Arc::new(CompletionQueue::new(channel, name, len)?);
        let raw = RawPair::new(domain, &queue, abi::QPT_UD, cap)?;
        let (posted, sending, groups) = (Cell::new(0), RefCell::default(), RefCell::default());
        let pair = DatagramPair { raw, queue, room, arrivals, heads, to, posted, sending, groups };
        pair.initialise(port, qkey)?;
        for place in 0..room.receives {
            pair.post_receive(place)?;
        }
        Ok(pair)
    }

    fn initialise(&self, port: &Port, qkey: u32) -> Result<(), VerbsError> {
        use qp_mask::{PKEY_INDEX, PORT, QKEY, SQ_PSN, STATE};
        let state = |qp_state| QpAttr { qp_state, ..QpAttr::default() };
        let mut attr = QpAttr { port_num: port.number, qkey, ..state(abi::QPS_INIT) };
        self.raw.modify(&mut attr, STATE | PKEY_INDEX | PORT | QKEY)?;
        self.raw.modify(&mut state(abi::QPS_RTR), STATE)?;
        self.raw.modify(&mut state(abi::QPS_RTS), STATE | SQ_PSN)
    }

    /// Makes the pair a member of a group. On RoCE the host has to be a member as well
    /// (`IP_ADD_MEMBERSHIP`).
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn attach(&self, group: Gid) -> Result<(), VerbsError> {
        let device = self.raw.domain().device();
        // SAFETY: the pair is alive, `group` is valid for the call.
        let code =
            unsafe { (device.functions().attach_mcast)(self.raw.as_ptr(), &raw const group, 0) };
        if code != 0 {
            return Err(device.returned("ibv_attach_mcast", code));
        }
        self.groups.borrow_mut().push(group);
        Ok(())
    }

    /// Processes completions: passes each datagram to `each`, and frees its place for another.
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn take(&self, mut each: impl FnMut(&[u8])) -> Result<Taken, VerbsError> {
        let (mut taken, mut result) = (Taken::default(), Ok(()));
        self.queue.poll(|Completion { id, outcome }| match outcome {
            Outcome::Received { len } => {
                taken.received = true;
                let posted = self.show((id & !RECEIVE) as u32, len, &mut each);
                result = std::mem::replace(&mut result, Ok(())).and(posted);
            }
            Outcome::Sent | Outcome::Written { .. } => {
                taken.sent = true;
                self.completed(id);
            }
            Outcome::Flushed => taken.failed = taken.failed.or(Some(WC_WR_FLUSH_ERR)),
            Outcome::Failed { status } => taken.failed = taken.failed.or(Some(status)),
        })?;
        result.map(|()| taken)
    }

    fn show(&self, place: u32, len: u32, each: &mut impl FnMut(&[u8])) -> Result<(), VerbsError> {
        let Some(arrivals) = &self.arrivals else { return Ok(()) };
        let start = self.start_of(place);
        let end = start + len.min(self.place_bytes()) as usize;
        let data = (start + ADDRESS_BYTES as usize).min(end)..end;
        // SAFETY: no code or adapter writes to the place. The completion of its request was just
        // taken from a queue that only this pair uses. The next request is posted below, after the
        // slice is gone. No other node received the key to the region.
        each(unsafe { arrivals.slice(data) });
        self.post_receive(place)
    }

    /// Asks the channel for a notification of the next completion ([`CompletionQueue::arm`]).
    ///
    /// # Errors
    /// [`VerbsError::Call`].
    pub fn arm(&self, wanted: Wanted) -> Result<(), VerbsError> {
        self.queue.arm(wanted)
    }

    /// The library's name of a status.
    pub fn status_name(&self, status: u32) -> String {
        self.queue.status_name(status)
    }

    /// Whether there is room to send a payload of `len` bytes.
    pub fn has_room(&self, len: usize) -> bool {
        self.under_way() + self.datagrams(len) <= self.room.sends as usize
    }

    fn under_way(&self) -> usize {
        self.sending.borrow().iter().map(|(_, payload)| self.datagrams(payload.len())).sum()
    }

    /// How many datagrams a payload takes.
    fn datagrams(&self, len: usize) -> usize {
        len.div_ceil(self.piece()).max(1)
    }

    /// The longest part of a payload that a datagram carries.
    fn piece(&self) -> usize {
        (self.room.datagram_bytes.saturating_sub(self.room.head_bytes)).max(1) as usize
    }

    /// Sends `payload` in pieces, one for each datagram. The payload lies in a region of this
    /// domain with the key `lkey`. `head` returns the header of the datagram whose piece begins at
    /// the given offset. An empty payload is one datagram.
    ///
    /// # Errors
    /// [`VerbsError::Call`] if a request was refused. The pair cannot be used any more.
    ///
    /// # Panics
    /// There is no [room](Self::has_room), no destination, or a header is not `head_bytes` long.
    pub fn send<H: AsRef<[u8]>>(
        &self,
        payload: Bytes,
        lkey: u32,
        head: impl Fn(usize) -> H,
    ) -> Result<(), VerbsError> {
        let (Some(heads), Some(to)) = (&self.heads, &self.to) else { panic!("it does not send") };
        assert!(self.has_room(payload.len()), "there is room");
        let count = self.datagrams(payload.len());
        let piece = |number: usize| {
            let at = number * self.piece();
            let head = self.lay_down(heads, self.posted.get() + number as u64, head(at).as_ref());
            let length = self.piece().min(payload.len() - at) as c_uint;
            [head, Sge { addr: payload.as_ptr() as u64 + at as u64, length, lkey }]
        };
        let mut pieces: Vec<[Sge; 2]> = (0..count).map(piece).collect();
        let end = self.posted.get() + count as u64;
        let request = |(number, pieces): (usize, &mut [Sge; 2])| SendRequest {
            wr_id: end,
            next: std::ptr::null_mut(),
            sg_list: pieces.as_mut_ptr(),
            num_sge: if pieces[1].length == 0 { 1 } else { 2 },
            opcode: abi::WR_SEND,
            // Only the last datagram is signalled: the receiver wakes once, and one completion
            // covers all.
            send_flags: if number + 1 == count { SEND_SIGNALED | SEND_SOLICITED } else { 0 },
            imm_data: 0,
            remote_addr: to.group.as_ptr() as u64,
            rkey: GROUP_NUMBER,
            remote_qkey: to.qkey,
            unused: [0; 9],
        };
        let mut requests: Vec<SendRequest> = pieces.iter_mut().enumerate().map(request).collect();
        let first = requests.as_mut_ptr();
        for number in 1..count {
            // SAFETY: both places lie in the vector, which is not touched until everything is
            // posted.
            unsafe { (*first.add(number - 1)).next = first.add(number) };
        }
        self.posted.set(end);
        self.sending.borrow_mut().push_back((end, payload));
        // SAFETY: `requests` and `pieces` live through the call, which copies them. Payload and
        // handle are held, and headers are not overwritten, until the last request is complete or
        // this pair is destroyed. A key that is not the payload's makes the request fail.
        unsafe { self.raw.post_send(first) }
    }

    /// Copies the header of the datagram with this count to its place. The place is free, because
    /// there are as many places as requests.
    fn lay_down(&self, heads: &MemoryRegion, count: u64, head: &[u8]) -> Sge {
        assert_eq!(head.len(), self.room.head_bytes as usize, "as was said");
        let place = (count % u64::from(self.room.sends)) as usize;
        let at = place * head.len();
        // SAFETY: no code takes slices of the headers.
        unsafe { heads.write(at, head) };
        Sge { addr: heads.addr() + at as u64, length: head.len() as c_uint, lkey: heads.lkey() }
    }

    /// Records that the send request with this id and all before it are complete.
    fn completed(&self, id: u64) {
        let mut sending = self.sending.borrow_mut();
        while sending.front().is_some_and(|(end, _)| *end <= id) {
            sending.pop_front();
        }
    }

    /// Whether a payload is under way.
    pub fn is_sending(&self) -> bool {
        !self.sending.borrow().is_empty()
    }

    /// Stops sending and receiving.
    pub fn stop(&self) {
        self.raw.stop();
    }

    fn place_bytes(&self) -> u32 {
        ADDRESS_BYTES + self.room.datagram_bytes
    }

    fn start_of(&self, place: u32) -> usize {
        place as usize * self.place_bytes() as usize
    }

    fn post_receive(&self, place: u32) -> Result<(), VerbsError> {
        let Some(arrivals) = &self.arrivals else { return Ok(()) };
        let mut piece = Sge {
            addr: arrivals.addr() + self.start_of(place) as u64,
            length: self.place_bytes(),
            lkey: arrivals.lkey(),
        };
        let mut request = ReceiveRequest {
            wr_id: RECEIVE | u64::from(place),
            next: std::ptr::null_mut(),
            sg_list: &raw mut piece,
            num_sge: 1,
        };
        // SAFETY: request and piece live through the call, which copies them. The piece lies in
        // `arrivals`, which this pair holds, at a place below the number of receives. No slice of
        // the place exists, because its request is complete.
        unsafe { self.raw.post_receive(&mut request) }
    }
}

impl Drop for DatagramPair {
    fn drop(&mut self) {
        let functions = self.raw.domain().device().functions();
        for group in self.groups.borrow().iter() {
            // SAFETY: the pair is alive and a member of the group.
            unsafe { (functions.detach_mcast)(self.raw.as_ptr(), std::ptr::from_ref(group), 0) };
        }
        // No adapter uses the memory that `self` holds once the pair is destroyed, so the memory
        // may be dropped after this.
        if !self.raw.destroy() {
            std::mem::forget((self.arrivals.take(), self.heads.take(), self.to.take()));
            std::mem::take(&mut *self.sending.borrow_mut()).into_iter().for_each(std::mem::forget);
        }
    }
}

impl std::fmt::Debug for DatagramPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatagramPair({:#x})", self.raw.number())
    }
}
