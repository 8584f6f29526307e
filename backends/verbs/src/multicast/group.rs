//! A member's part in the multicast group.

use super::address::GroupAddress;
use super::assembly::Assembler;
use super::awaited::{Awaited, Step};
use super::listener::{InBlock, Listener, WINDOW};
use super::sender::Sender;
use crate::VerbsError;
use crate::adapter::Adapter;
use crate::config::Multicast;
use crate::guard::{DatagramPair, Taken, Wanted};
use crate::lane::Lane;
use crate::poller::Polled;
use crate::pool::Block;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::time::Instant;

/// Children that must receive datagrams before the root sends to all.
const WORTH_CHILDREN: usize = 2;

/// One member's part in the group.
#[derive(Debug)]
pub(crate) struct Group {
    role: Role,
    /// The lanes that wait for arrivals.
    upward: Rc<Upward>,
    /// The number of lanes to children that receive datagrams.
    hearing: Cell<usize>,
    /// How many children must receive datagrams before anything is sent.
    needed: usize,
    armed: Cell<bool>,
    failed: Cell<bool>,
    /// Chunks sent to the group, or received from it.
    chunks: Cell<u64>,
    /// Bytes of these chunks that did not arrive, here or at children.
    missed_bytes: Cell<u64>,
}

/// How much a member sent or received by multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastReport {
    /// At the root: enough of its children receive its datagrams. At another member: it receives
    /// the root's datagrams.
    pub works: bool,
    /// Chunks sent to all, or received by multicast, wholly or in part.
    pub chunks: u64,
    /// Bytes of these chunks that did not arrive, here or at children.
    pub missed_bytes: u64,
}

#[derive(Debug)]
enum Role {
    Sends(Sender),
    Listens(Listener),
}

/// The bulk lanes of one member to its parents: one, or two while a new parent takes over.
#[derive(Debug, Default)]
pub(crate) struct Upward {
    lanes: RefCell<Vec<Weak<Lane>>>,
}

/// The data of a claimed chunk.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// The block with its payload, from [`PAYLOAD_AT`](crate::adapter::PAYLOAD_AT) on.
    pub(crate) block: Block,
    /// The missing parts, in bytes.
    pub(crate) holes: Vec<Range<u32>>,
}

/// The child receives the group's datagrams until this is dropped.
#[derive(Debug)]
pub(crate) struct Hears {
    group: Rc<Group>,
    /// The number of the first chunk that it receives.
    pub(crate) from: u64,
}

impl Group {
    /// Makes a new group at the root. `None` if multicast is off. A failure is logged and also
    /// returns `None`.
    pub(crate) fn make(adapter: &Adapter, upward: &Rc<Upward>) -> Option<Rc<Group>> {
        let needed = match adapter.config.multicast? {
            Multicast::Off => return None,
            Multicast::Auto => WORTH_CHILDREN,
            Multicast::On => 1,
        };
        let name = adapter.poller.new_name();
        let role = Sender::new(adapter, name).map(Role::Sends);
        Group::start((adapter, upward), name, role, needed)
    }

    /// Joins the root's group. A failure is logged and returns `None`.
    pub(crate) fn join(
        adapter: &Adapter,
        upward: &Rc<Upward>,
        address: GroupAddress,
    ) -> Option<Rc<Group>> {
        let name = adapter.poller.new_name();
        let role = Listener::new(adapter, name, address).map(Role::Listens);
        Group::start((adapter, upward), name, role, 1)
    }

    fn start(
        (adapter, upward): (&Adapter, &Rc<Upward>),
        name: usize,
        role: Result<Role, VerbsError>,
        needed: usize,
    ) -> Option<Rc<Group>> {
        let role = match role {
            Ok(role) => role,
            Err(error) => {
                tracing::info!(%error, "no multicast: large transfers go by the tree");
                return None;
            }
        };
        let (upward, hearing) = (upward.clone(), Cell::new(0));
        let (armed, failed) = (Cell::new(false), Cell::new(false));
        let (chunks, missed_bytes) = (Cell::new(0), Cell::new(0));
        let group = Group { role, upward, hearing, needed, armed, failed, chunks, missed_bytes };
        let group = Rc::new(group);
        let polled: Rc<dyn Polled> = group.clone();
        adapter.poller.add(name, &polled);
        group.arm();
        Some(group)
    }

    /// The group's address.
    pub(crate) fn address(&self) -> GroupAddress {
        match &self.role {
            Role::Sends(sender) => sender.address,
            Role::Listens(listener) => listener.address,
        }
    }

    /// The report for users.
    pub(crate) fn report(&self) -> MulticastReport {
        let works = match &self.role {
            Role::Sends(_) => self.hearing.get() >= self.needed,
            Role::Listens(_) => self.hears_from().is_some(),
        };
        let works = works && !self.has_failed();
        let (chunks, missed_bytes) = (self.chunks.get(), self.missed_bytes.get());
        MulticastReport { works, chunks, missed_bytes }
    }

    /// Adds bytes that did not arrive, here or at a child.
    pub(crate) fn missed(&self, bytes: u64) {
        self.missed_bytes.set(self.missed_bytes.get() + bytes);
    }

    /// Whether the group is broken: it can neither send nor receive any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// Records that a child receives everything from chunk `from` on. `from` is capped at the
    /// chunks sent so far.
    pub(crate) fn child_hears(self: &Rc<Self>, from: u64) -> Hears {
        self.hearing.set(self.hearing.get() + 1);
        Hears { group: self.clone(), from: from.min(self.next()) }
    }

    /// The parent announces the next chunk.
    pub(crate) fn announced(&self, number: u64) {
        self.assembler(|assembler| assembler.announce(number));
    }

    /// Drops chunks that were for others.
    pub(crate) fn sweep(&self, now: Instant) {
        self.assembler(|assembler| assembler.sweep(now));
    }

    /// A child asks for a probe.
    pub(crate) fn child_asks(&self) {
        match &self.role {
            Role::Sends(sender) => {
                let _ = self.take();
                let sent = sender.probe(Instant::now());
                self.check(sent);
                self.arm();
            }
            Role::Listens(_) => self.upward.each(|lane| lane.ask_for_probe()),
        }
    }

    /// Sends `payload` to all, if this is the root and enough children receive datagrams. Returns
    /// its number. The payload's memory is registered with the key `lkey`.
    pub(crate) fn send(&self, payload: &Bytes, lkey: u32) -> Option<u64> {
        let Role::Sends(sender) = &self.role else { return None };
        if self.has_failed() || self.hearing.get() < self.needed {
            return None;
        }
        // Datagrams that have left make room.
        let _ = self.take();
        let number = self.check(sender.send(payload, lkey)).flatten();
        self.arm();
        if number.is_some() {
            if self.chunks.get() == 0 {
                tracing::info!("large transfers are sent to all at once, by multicast");
            }
            self.chunks.set(self.chunks.get() + 1);
        }
        number
    }

    /// Whether a member that is not late still has the received parts of this chunk.
    pub(crate) fn is_recent(&self, number: u64) -> bool {
        number.saturating_add(WINDOW) >= self.next()
    }

    /// The number of the next chunk, as far as this member knows.
    fn next(&self) -> u64 {
        match &self.role {
            Role::Sends(sender) => sender.next.get(),
            Role::Listens(listener) => listener.assembler.borrow().next(),
        }
    }

    /// The first chunk that this member receives, once it has received a datagram.
    pub(crate) fn hears_from(&self) -> Option<u64> {
        self.assembler(|assembler| assembler.first()).flatten()
    }

    /// The next step for a chunk that this member waits for.
    pub(crate) fn step(&self, awaited: &Awaited, now: Instant) -> Step {
        let step = |assembler: &mut Assembler<InBlock>| awaited.step(assembler, now);
        self.assembler(step).unwrap_or(Step::Ask)
    }

    /// Takes the arrived parts of a chunk, with at most `max_holes` holes; `None` if nothing has
    /// arrived.
    pub(crate) fn claim(&self, awaited: &Awaited, max_holes: usize) -> Option<Claimed> {
        let claimed = self.assembler(|it| it.claim(awaited.number, awaited.total)).flatten()?;
        let holes = claimed.holes(max_holes);
        self.chunks.set(self.chunks.get() + 1);
        Some(Claimed { block: claimed.into_store().0, holes })
    }

    fn assembler<T>(&self, what: impl FnOnce(&mut Assembler<InBlock>) -> T) -> Option<T> {
        match &self.role {
            Role::Sends(_) => None,
            Role::Listens(listener) => Some(what(&mut listener.assembler.borrow_mut())),
        }
    }

    /// Processes completions and wakes the lanes that wait for them.
    fn take(&self) -> bool {
        if self.has_failed() {
            return false;
        }
        let taken = match &self.role {
            Role::Sends(sender) => sender.pair.take(|_| {}),
            Role::Listens(listener) => listener.take(),
        };
        let Taken { received, failed, .. } = self.check(taken).unwrap_or_default();
        if let Some(status) = failed {
            self.fail(&self.pair().status_name(status));
        }
        if received {
            self.upward.each(|lane| lane.something_came());
        }
        received
    }

    fn pair(&self) -> &DatagramPair {
        match &self.role {
            Role::Sends(sender) => &sender.pair,
            Role::Listens(listener) => &listener.pair,
        }
    }

    fn check<T>(&self, result: Result<T, VerbsError>) -> Option<T> {
        result.map_err(|error| self.fail(&error.to_string())).ok()
    }

    fn fail(&self, reason: &str) {
        if !self.failed.replace(true) {
            tracing::warn!(reason, "multicast has failed: large transfers go by the tree");
            self.pair().stop();
        }
    }
}

impl Upward {
    /// Adds a lane, until the lane is dropped.
    pub(crate) fn add(&self, lane: &Rc<Lane>) {
        let mut lanes = self.lanes.borrow_mut();
        lanes.retain(|lane| lane.strong_count() > 0);
        lanes.push(Rc::downgrade(lane));
    }

    fn each(&self, what: impl Fn(&Lane)) {
        let lanes: Vec<_> = self.lanes.borrow().iter().filter_map(Weak::upgrade).collect();
        lanes.iter().for_each(|lane| what(lane));
    }
}

impl Polled for Group {
    fn notified(&self) {
        self.armed.set(false);
        self.take();
    }

    fn progress(&self) -> bool {
        self.take()
    }

    fn arm(&self) -> bool {
        let wanted = match &self.role {
            // The completions of payloads under way release the payloads.
            Role::Sends(sender) if sender.pair.is_sending() => Wanted::All,
            Role::Sends(_) => return false,
            Role::Listens(_) => Wanted::Arrivals,
        };
        if self.has_failed() || self.armed.replace(true) {
            return false;
        }
        self.check(self.pair().arm(wanted));
        // The notification does not cover earlier completions.
        self.take()
    }

    fn is_stuck(&self) -> bool {
        false
    }

    fn device_gone(&self) {
        self.failed.set(true);
    }
}

impl Drop for Hears {
    fn drop(&mut self) {
        self.group.hearing.set(self.group.hearing.get() - 1);
    }
}
