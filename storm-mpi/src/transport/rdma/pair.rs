//! A queue pair with a ring of bytes each way.

use super::accounts::{Inward, MAX_RUNS, Note, Outward, Overrun, Ring};
use super::offer::{MAX_PACKET_NUMBER, Offer};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use storm_verbs::VerbsError;
use storm_verbs::guard::{
    Access, Completion, CompletionChannel, CompletionQueue, Completions, Endpoint, MemoryRegion,
    Notice, Outcome, Port, ProtectionDomain, QueuePair, RemoteAddr, Route, Source, Wanted,
};

/// Limit of credits under way, with some to spare. Each credit is for half of a ring or half of the
/// runs.
const SPARE: u32 = 16;
/// Number of send requests that a pair has room for, and of receive requests that it always holds.
/// It covers the runs that the other side may send without credit, and its credits.
const REQUESTS: u32 = MAX_RUNS as u32 + SPARE;
/// Number of receive requests that may be used up without being replaced. Credits that come use up
/// some of them.
const OWED_MAX: u32 = SPARE / 2;
/// Longest payload that travels inside its request. Most adapters have room for some hundred bytes.
const MAX_INLINE_BYTES: u32 = 220;
/// The limit for adapters that refuse a pair with more.
const FEW_INLINE_BYTES: u32 = 64;

/// One end of a connection; the other is known once it is [joined](super::Adapter::join).
pub(in crate::transport) struct Pair {
    /// Declared before the memory: once the pair is dropped, no adapter writes to the memory.
    pair: QueuePair,
    queue: Arc<CompletionQueue>,
    /// The other side writes to its beginning. The ring for bytes that this side sends is behind
    /// it.
    region: Arc<MemoryRegion>,
    ring: Ring,
    first_packet: u32,
    theirs: Option<Offer>,
    outward: Outward,
    inward: Inward,
    /// Requests whose completion will be reported, each with the end of the bytes that it and
    /// earlier requests read.
    under_way: VecDeque<(u64, u64)>,
    /// Number of receive requests that were used up and not replaced yet.
    owed: u32,
    taken: Completions,
    /// The first failure of the pair. It is reported only once, and later reports are less
    /// specific.
    failed: Option<(io::ErrorKind, String)>,
    /// The first request under way at the last check, and whether its device was queried since.
    seen: Option<(u64, bool)>,
}

impl Pair {
    pub(super) fn new(
        domain: &Arc<ProtectionDomain>,
        channel: &Arc<CompletionChannel>,
        port: &Port,
        ring: Ring,
        name: usize,
    ) -> Result<Pair, VerbsError> {
        let region = MemoryRegion::new(domain, 2 * ring.bytes() as usize, Access::RemoteWrite)?;
        let queue = Arc::new(CompletionQueue::new(channel, name, 2 * REQUESTS)?);
        let pair = queue_pair(domain, &queue)?;
        pair.initialise(port)?;
        pair.post_receives(REQUESTS)?;
        queue.arm(Wanted::Arrivals)?;
        Ok(Pair {
            pair,
            queue,
            region: Arc::new(region),
            ring,
            first_packet: first_packet(),
            theirs: None,
            outward: Outward::new(ring),
            inward: Inward::new(ring),
            under_way: VecDeque::new(),
            owed: 0,
            taken: Completions::new(),
            failed: None,
            seen: None,
        })
    }

    pub(super) fn number(&self) -> u32 {
        self.pair.number()
    }

    pub(super) fn first_packet(&self) -> u32 {
        self.first_packet
    }

    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    pub(super) fn ring_addr(&self) -> u64 {
        self.region.addr()
    }

    pub(super) fn ring_rkey(&self) -> u32 {
        self.region.rkey()
    }

    pub(super) fn join(
        &mut self,
        port: &Port,
        route: &Route,
        [own, peer]: [&Endpoint; 2],
        theirs: Offer,
    ) -> Result<(), VerbsError> {
        self.pair.connect(port, route, own, peer)?;
        self.theirs = Some(theirs);
        Ok(())
    }

    /// Sends as much of the two buffers as there is room for. If bytes are left, news tells when to
    /// try again.
    pub(in crate::transport) fn send(&mut self, buffers: [&[u8]; 2]) -> io::Result<usize> {
        self.sound()?;
        let total = buffers[0].len() + buffers[1].len();
        let mut sent = self.put(buffers)?;
        if sent < total {
            // From here on, completions of own requests are news too. Requests that are already
            // complete are collected here.
            self.queue.arm(Wanted::All).map_err(io::Error::other)?;
            self.work_off()?;
            let first = sent.min(buffers[0].len());
            sent += self.put([&buffers[0][first..], &buffers[1][sent - first..]])?;
        }
        Ok(sent)
    }

    fn put(&mut self, [mut head, mut payload]: [&[u8]; 2]) -> io::Result<usize> {
        let Some(theirs) = self.theirs else { return Ok(0) };
        let mut sent = 0;
        while !(head.is_empty() && payload.is_empty()) {
            let room = self.outward.room();
            if room.is_empty() || !self.pair.has_room() {
                break;
            }
            let first = head.len().min(room.len());
            let second = payload.len().min(room.len() - first);
            self.write(room.start, [&head[..first], &payload[..second]], theirs)?;
            (head, payload) = (&head[first..], &payload[second..]);
            sent += first + second;
        }
        Ok(sent)
    }

    /// Writes a run to this place of the other end's ring.
    fn write(&mut self, at: usize, parts: [&[u8]; 2], theirs: Offer) -> io::Result<()> {
        let bytes = parts[0].len() + parts[1].len();
        let to = RemoteAddr { addr: theirs.ring_addr + at as u64, rkey: theirs.ring_rkey };
        // A run is no longer than a ring.
        let note = Note::Run(bytes as u32).encode();
        let told = if bytes <= self.pair.max_inline_bytes() {
            self.pair.post_inline(parts, to, Notice::Wakes(note)).map_err(io::Error::other)?
        } else {
            let start = self.ring.bytes() as usize + at;
            let middle = start + parts[0].len();
            // SAFETY: no code takes slices of this region.
            unsafe { self.region.write(start, parts[0]) };
            // SAFETY: as above.
            unsafe { self.region.write(middle, parts[1]) };
            let source = Source::Part(self.region.clone(), start..start + bytes);
            Some(self.pair.post_write([Some(source), None], to, note).map_err(io::Error::other)?)
        };
        self.outward.sent(bytes);
        self.under_way.extend(told.map(|id| (id, self.outward.end())));
        Ok(())
    }

    /// Number of bytes that have arrived; checks for more if there are none. A failure of the pair
    /// is reported only after the last byte.
    pub(in crate::transport) fn unread(&mut self) -> io::Result<usize> {
        if self.inward.unread() == 0 {
            let looked = self.work_off();
            self.unless_unread(looked)?;
        }
        Ok(self.inward.unread())
    }

    /// Hides a failure while bytes are unread.
    fn unless_unread(&self, result: io::Result<()>) -> io::Result<()> {
        if self.inward.unread() > 0 { Ok(()) } else { result }
    }

    /// Fails if the pair has failed, in the same way each time.
    fn sound(&self) -> io::Result<()> {
        match &self.failed {
            Some((kind, why)) => Err(io::Error::new(*kind, why.clone())),
            None => Ok(()),
        }
    }

    /// Copies bytes that have arrived, from the `skip`-th on: no more than are
    /// [unread](Self::unread).
    pub(in crate::transport) fn copy(&self, skip: usize, into: &mut [u8]) {
        let [first, second] = self.inward.places(skip, into.len());
        let (mut start, mut rest) = into.split_at_mut(first.len());
        self.region.read_into(first, &mut start);
        self.region.read_into(second, &mut rest);
    }

    /// Releases bytes that have come.
    pub(in crate::transport) fn advance(&mut self, bytes: usize) -> io::Result<()> {
        self.inward.take(bytes);
        let credited = match self.inward.credit_due() {
            Some(_) if !self.pair.has_room() => self.work_off(),
            _ => self.give_credit(),
        };
        // The next check for more bytes reports a failure.
        if self.failed.is_some() { Ok(()) } else { credited }
    }

    /// Handles an event of the pair's channel: arms the channel for the next news, and collects the
    /// present news.
    pub(in crate::transport) fn hear(&mut self) -> io::Result<()> {
        self.queue.arm(Wanted::Arrivals).map_err(io::Error::other)?;
        let worked = self.work_off();
        self.unless_unread(worked)
    }

    /// Checks requests under way, whose end may not have been announced. Returns whether there is
    /// news. If the first request is the same as at the last check, it queries whether the device
    /// `is_there`.
    pub(in crate::transport) fn look_at_requests(
        &mut self,
        is_there: impl Fn() -> io::Result<()>,
    ) -> io::Result<bool> {
        let before = (self.pair.first_under_way(), self.inward.unread());
        let worked = self.work_off();
        self.unless_unread(worked)?;
        let first = self.pair.first_under_way();
        if let Some(stuck) = first.filter(|first| self.seen.is_some_and(|(seen, _)| seen == *first))
        {
            // Requests without a completion of their own cannot be judged, so asking once is
            // enough.
            let asked = self.seen.is_some_and(|(_, asked)| asked);
            if (!asked || !self.under_way.is_empty())
                && let Err(error) = is_there()
            {
                self.failed.get_or_insert((error.kind(), error.to_string()));
            }
            self.seen = Some((stuck, true));
        } else {
            self.seen = first.map(|first| (first, false));
        }
        Ok(self.failed.is_some() || before != (first, self.inward.unread()))
    }

    /// Collects completions, and gives credit for bytes that were taken.
    fn work_off(&mut self) -> io::Result<()> {
        self.take_completions()?;
        if self.owed >= OWED_MAX {
            self.replace_receives()?;
        }
        if self.inward.credit_due().is_some() && !self.pair.has_room() {
            // The queue stays armed until an own request is complete, which is news from here on.
            self.queue.arm(Wanted::All).map_err(io::Error::other)?;
            self.take_completions()?;
        }
        self.give_credit()
    }

    fn take_completions(&mut self) -> io::Result<()> {
        while self.queue.take(&mut self.taken).map_err(io::Error::other)? {
            let taken = std::mem::take(&mut self.taken);
            for Completion { id, outcome } in taken.iter() {
                if self.failed.is_none()
                    && let Err(error) = self.on_completion(id, outcome)
                {
                    self.failed = Some((error.kind(), error.to_string()));
                }
            }
        }
        self.sound()
    }

    /// Replaces the receive requests that were used up.
    fn replace_receives(&mut self) -> io::Result<()> {
        let owed = std::mem::take(&mut self.owed);
        self.pair.post_receives(owed).map_err(io::Error::other)
    }

    fn on_completion(&mut self, id: u64, outcome: Outcome) -> io::Result<()> {
        let overrun = |Overrun| {
            io::Error::other(
                "what its adapter says of itself cannot be: more than there is room for",
            )
        };
        match outcome {
            Outcome::Sent => {
                self.pair.completed(id);
                while self.under_way.front().is_some_and(|(first, _)| *first <= id) {
                    if let Some((_, end)) = self.under_way.pop_front() {
                        self.outward.completed(end);
                    }
                }
                Ok(())
            }
            Outcome::Written { immediate, len } => {
                self.owed += 1;
                match Note::decode(immediate) {
                    Note::Run(bytes) if bytes == len => self.inward.arrived(bytes).map_err(overrun),
                    Note::Credit(credit) => self.outward.credit(credit).map_err(overrun),
                    Note::Run(_) => Err(overrun(Overrun)),
                }
            }
            Outcome::Received { .. } => Err(overrun(Overrun)),
            Outcome::Flushed => Err(io::ErrorKind::ConnectionReset.into()),
            Outcome::Failed { status } => {
                let status = self.queue.status_name(status);
                Err(io::Error::new(io::ErrorKind::ConnectionReset, format!("RDMA: {status}")))
            }
        }
    }

    /// Reports to the other side what was taken, if credit is due and there is a request for it.
    fn give_credit(&mut self) -> io::Result<()> {
        let Some(theirs) = self.theirs else { return Ok(()) };
        let Some(due) = self.inward.credit_due().filter(|_| self.pair.has_room()) else {
            return Ok(());
        };
        // The receive requests must be ready before the other side may send more.
        self.replace_receives()?;
        self.inward.credited(due);
        let to = RemoteAddr { addr: theirs.ring_addr, rkey: theirs.ring_rkey };
        let notice = Notice::Wakes(Note::Credit(due).encode());
        let told = self.pair.post_inline([&[], &[]], to, notice).map_err(io::Error::other)?;
        self.under_way.extend(told.map(|id| (id, self.outward.end())));
        Ok(())
    }
}

/// Makes a queue pair with as much room inside its requests as the adapter gives.
fn queue_pair(
    domain: &Arc<ProtectionDomain>,
    queue: &Arc<CompletionQueue>,
) -> Result<QueuePair, VerbsError> {
    let with = |inline| QueuePair::new(domain, queue, REQUESTS, REQUESTS, inline);
    let less = || with(FEW_INLINE_BYTES).or_else(|_| with(0));
    with(MAX_INLINE_BYTES).or_else(|refused| less().map_err(|_| refused))
}

/// Chooses a random first packet number, so that packets of an earlier pair of the same number are
/// not taken for this pair's.
fn first_packet() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness, 0 is good enough, because the number of the pair is different each time.
    let _ = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    u32::from_le_bytes(bytes) & MAX_PACKET_NUMBER
}
