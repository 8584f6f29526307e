//! Operations of this process on other members' parts of a window.

use super::exposed::Exposed;
use super::owner::REQUEST;
use super::wire::{Request, Run, Verb};
use super::{Flavor, Held, Window};
use crate::datatype::Type;
use crate::fault::{Class, Fault, Outcome};
use crate::memory::Elements;
use crate::number::Number;
use crate::operation::Change;
use crate::request::{Active, Message};
use crate::table::{Handle, TYPE};
use crate::types::number_of_kind;
use std::ffi::c_int;
use std::sync::atomic::{Ordering, fence};
use storm_mpi::{Address, Pattern, RequestId, SendMode, Source, Tag, TagPattern};

/// Tags of answers, which are numbered.
pub(super) const FIRST_ANSWER: i32 = 16;
/// Tag of the messages by which members open their parts.
const POST: Tag = Tag(1);
/// Number of pending messages at which the done ones are collected.
pub(super) const COLLECT_AT: usize = 64;
/// Limit of bytes that pending messages hold as copies. A further message waits until those have
/// gone.
const COPIES_MAX_BYTES: usize = 64 << 20;
/// The kind of bytes (`MPI_BYTE`), for requests that need no numbers.
const BYTES: u8 = 3;

/// Elements of another member: the member, the displacement, the number, the type.
pub(crate) struct Place<'a> {
    pub(crate) member: usize,
    pub(crate) displacement: isize,
    pub(crate) count: usize,
    pub(crate) datatype: &'a Type,
}

/// A change of another member's elements, with the kind of their numbers.
#[derive(Clone, Copy)]
pub(crate) struct Changing {
    change: Change,
    number: Number,
    kind: u8,
}

impl Changing {
    /// Checks that the operation is defined for the type's numbers.
    pub(crate) fn new(change: Change, datatype: &Type) -> Outcome<Self> {
        let kind = match (datatype.layout.kind(), change) {
            (Some(kind), _) => kind,
            (None, Change::Replace | Change::Nothing) => BYTES,
            (None, Change::Combine(_)) => {
                return Err(Fault::new(Class::Type, "a datatype of several kinds of numbers"));
            }
        };
        match number_of_kind(kind).filter(|&number| change.is_defined_for(number)) {
            Some(number) => Ok(Changing { change, number, kind }),
            None => {
                let text = format!("operation not defined for {}", datatype.to_text());
                Err(Fault::new(Class::Op, text))
            }
        }
    }
}

impl Window {
    /// Writes elements (`MPI_Put`).
    pub(crate) fn put(&self, from: &Elements, place: &Place<'_>) -> Outcome {
        let runs = self.runs_for(from.bytes, place)?;
        if let Some(there) = self.reached(place.member) {
            there.write(&runs, &from.packed());
            return Ok(());
        }
        let request = Request { runs, ..Request::bare(Verb::Put, 0) };
        self.ask(place.member, &request, &from.packed()).map(drop)
    }

    /// Reads elements (`MPI_Get`). Either the window or the caller waits for a pending message.
    pub(crate) fn get(&self, into: &Elements, place: &Place<'_>) -> Outcome<Option<Active>> {
        let runs = self.runs(place)?;
        fits(total(&runs), into.bytes, place)?;
        if let Some(there) = self.reached(place.member) {
            into.unpack(&there.read(&runs));
            return Ok(None);
        }
        let (answer, active) = self.expect(place.member, into)?;
        let request = Request { runs, ..Request::bare(Verb::Get, answer) };
        self.ask(place.member, &request, &[])?;
        Ok(Some(active))
    }

    /// Combines elements (`MPI_Accumulate`).
    pub(crate) fn accumulate(&self, from: &Elements, place: &Place<'_>, how: Changing) -> Outcome {
        let runs = self.runs_for(from.bytes, place)?;
        if !from.bytes.is_multiple_of(how.number.bytes()) {
            let text = format!("{} bytes are no numbers of the target's", from.bytes);
            return Err(Fault::new(Class::Type, text));
        }
        if let Some(there) = self.reached(place.member) {
            there.change(&runs, (how.change, how.number), &from.packed(), false);
            return Ok(());
        }
        let request = self.changing(Verb::Accumulate, 0, runs, how);
        self.ask(place.member, &request, &from.packed()).map(drop)
    }

    /// Reads elements and combines equally many others with them (`MPI_Get_accumulate`). `from` is
    /// ignored with `MPI_NO_OP`.
    pub(crate) fn get_accumulate(
        &self,
        from: Option<&Elements>,
        into: &Elements,
        place: &Place<'_>,
        how: Changing,
    ) -> Outcome<Option<Active>> {
        let runs = self.runs(place)?;
        let there = total(&runs);
        fits(there, into.bytes, place)?;
        if let Some(from) = from {
            fits(from.bytes, there, place)?;
            fits(there, from.bytes, place)?;
        }
        let data = from.map(Elements::packed).unwrap_or_default();
        if let Some(there) = self.reached(place.member) {
            into.unpack(&there.change(&runs, (how.change, how.number), &data, true));
            return Ok(None);
        }
        let (answer, active) = self.expect(place.member, into)?;
        let request = self.changing(Verb::GetAccumulate, answer, runs, how);
        self.ask(place.member, &request, &data)?;
        Ok(Some(active))
    }

    /// Reads an element, and writes another if it has the expected value (`MPI_Compare_and_swap`).
    pub(crate) fn compare_and_swap(
        &self,
        [expected, new]: [&Elements; 2],
        into: &Elements,
        place: &Place<'_>,
    ) -> Outcome<Option<Active>> {
        let runs = self.runs(place)?;
        let (expected, new) = (expected.packed(), new.packed());
        if let Some(there) = self.reached(place.member) {
            into.unpack(&there.compare_and_swap(&runs, &expected, &new));
            return Ok(None);
        }
        let (answer, active) = self.expect(place.member, into)?;
        let request = Request { runs, ..Request::bare(Verb::CompareAndSwap, answer) };
        self.ask(place.member, &request, &[expected, new].concat())?;
        Ok(Some(active))
    }

    fn changing(&self, verb: Verb, answer: i32, runs: Vec<Run>, how: Changing) -> Request {
        Request { verb, change: how.change, kind: how.kind, answer, runs }
    }

    /// The stretches of a member's part that hold the elements. Checks that the epoch admits this
    /// process.
    fn runs(&self, place: &Place<'_>) -> Outcome<Vec<Run>> {
        if !self.epochs.borrow().admit(place.member) {
            let text = format!("no epoch for rank {}", place.member);
            return Err(Fault::new(Class::RmaSync, text));
        }
        if !place.datatype.committed.get() {
            return Err(Fault::new(Class::Type, "datatype that was not committed"));
        }
        if place.count == 0 || place.datatype.layout.size() == 0 {
            return Ok(Vec::new());
        }
        let part = self.parts[place.member];
        let is_dynamic = self.flavor == Flavor::Dynamic;
        let outside = || {
            let Place { displacement, count, .. } = place;
            let text = format!(
                "{count} elements at displacement {displacement} of {} bytes at rank {}",
                part.bytes, place.member
            );
            Fault::new(Class::RmaRange, text)
        };
        let layout = &place.datatype.layout;
        let start = place.displacement.checked_mul(part.unit as isize).ok_or_else(outside)?;
        let (first, end) = layout.bounds(place.count).ok_or_else(outside)?;
        let first = start.checked_add(first).ok_or_else(outside)?;
        let end = start.checked_add(end).ok_or_else(outside)?;
        let room = if is_dynamic { isize::MAX } else { part.bytes as isize };
        if first < 0 || end > room {
            return Err(outside());
        }
        let mut runs: Vec<Run> = Vec::new();
        layout.for_each_run(place.count, &mut |at, length| {
            let at = (start + at) as u64;
            match runs.last_mut() {
                Some(last) if last.0 + last.1 == at => last.1 += length as u64,
                Some(_) | None => runs.push((at, length as u64)),
            }
        });
        Ok(runs)
    }

    /// The stretches for `bytes` bytes of this process: the first of those that hold the elements.
    fn runs_for(&self, bytes: usize, place: &Place<'_>) -> Outcome<Vec<Run>> {
        let mut runs = self.runs(place)?;
        fits(bytes, total(&runs), place)?;
        let mut rest = bytes as u64;
        runs.retain_mut(|run| {
            run.1 = run.1.min(rest);
            rest -= run.1;
            run.1 > 0
        });
        Ok(runs)
    }

    /// A member's part, if this process reaches it in memory.
    fn reached(&self, member: usize) -> Option<Exposed> {
        if member == self.comm.me {
            // Only the owner can detect errors in attached memory.
            return (self.flavor != Flavor::Dynamic).then(|| self.owner.exposed.clone());
        }
        match &self.held {
            Held::Shared(shared) if shared.has(member) => {
                Some(shared.exposed(member, self.parts[member].bytes))
            }
            Held::Shared(_) | Held::Nothing | Held::Allocated(_) => None,
        }
    }

    /// Sends a request to a member. Returns its number, with which it is [settled](Self::settle)
    /// together with all earlier ones.
    pub(super) fn ask(&self, member: usize, request: &Request, data: &[u8]) -> Outcome<u64> {
        let number = self.asked.get() + 1;
        self.asked.set(number);
        let message = request.encode(data);
        // The number is recorded before the send: sending may wait, and another thread may ask
        // meanwhile.
        self.unsettled.borrow_mut().insert(member, number);
        self.send(member, REQUEST, message)?;
        Ok(number)
    }

    /// Records that a member has done all requests up to `number`. Later requests of other threads
    /// are not settled.
    pub(super) fn settle(&self, member: usize, number: u64) {
        let mut unsettled = self.unsettled.borrow_mut();
        if unsettled.get(&member) == Some(&number) {
            unsettled.remove(&member);
        }
    }

    fn send(&self, member: usize, tag: Tag, message: Vec<u8>) -> Outcome {
        let to = self.comm.group.members()[member];
        let address = Address { to, context: self.comm.context().point_to_point(), tag };
        let copies = self.copies.get() + message.len();
        let active = self.session.start_packed(address, SendMode::Standard, message)?;
        self.remember(member, active)?;
        self.copies.set(copies);
        if copies > COPIES_MAX_BYTES {
            self.copies.set(0);
            self.wait_for(|_, active| matches!(active, Active::Sending { .. }))?;
        }
        Ok(())
    }

    /// Waits for some pending messages. They stay in the table meanwhile, because another thread
    /// that flushes has to find them.
    fn wait_for(&self, of: impl Fn(usize, &Active) -> bool) -> Outcome {
        let awaited: Vec<RequestId> = {
            let under_way = self.under_way.borrow();
            let these = under_way.iter().filter(|(at, active)| of(*at, active));
            these.filter_map(|(_, active)| active.id()).collect()
        };
        self.wait_until_over(&awaited)?;
        let all = std::mem::take(&mut *self.under_way.borrow_mut());
        let (over, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(at, active)| of(*at, active) && self.is_over(active));
        self.under_way.borrow_mut().extend(others);
        // If one message fails, the others still deliver their data.
        let mut outcome = Ok(());
        for (_, active) in over {
            outcome = outcome.and(self.collect(active));
        }
        outcome
    }

    /// Waits until all of these are over, or another thread has collected them.
    fn wait_until_over(&self, these: &[RequestId]) -> Outcome {
        Ok(these.iter().try_for_each(|&id| self.session.process.wait_until_done(id))?)
    }

    /// Records a pending message. It is waited for only when necessary.
    pub(super) fn remember(&self, member: usize, active: Active) -> Outcome {
        if self.is_over(&active) {
            return self.session.finish(&self.comm, active).map(drop);
        }
        let mut under_way = self.under_way.borrow_mut();
        under_way.push((member, active));
        if under_way.len() < self.collect_at.get() {
            return Ok(());
        }
        let all = std::mem::take(&mut *under_way);
        let (over, kept): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, active)| self.is_over(active));
        self.collect_at.set(COLLECT_AT.max(2 * kept.len()));
        *under_way = kept;
        drop(under_way);
        over.into_iter().try_for_each(|(_, active)| self.collect(active))
    }

    fn collect(&self, active: Active) -> Outcome {
        self.session.finish(&self.comm, active).map(drop)
    }

    fn is_over(&self, active: &Active) -> bool {
        match active {
            // After a failure nothing is pending any more.
            Active::Sending { id, .. }
            | Active::AskedBack { id, .. }
            | Active::Receiving { id, .. } => self.session.process.is_done(*id).unwrap_or(true),
            Active::Background(outstanding) => outstanding.is_done(),
            Active::Over(_) => true,
        }
    }

    /// Records an answer for which the program has a request.
    pub(crate) fn requested(&self, member: usize, id: RequestId, request: Handle) {
        let mut requested = self.requested.borrow_mut();
        requested.push((member, id, request));
        if requested.len() < self.forget_at.get() {
            return;
        }
        // Answers that the program has collected are no longer known.
        requested.retain(|&(_, id, _)| self.session.process.is_done(id).is_ok());
        self.forget_at.set(COLLECT_AT.max(2 * requested.len()));
    }

    /// Waits for such answers of some members, and puts their data into place. The data must be
    /// there even if the program has not collected the request.
    fn wait_for_requested(&self, of: impl Fn(usize) -> bool) -> Outcome {
        let process = &self.session.process;
        let mut these = self.requested.borrow().clone();
        these.retain(|&(at, ..)| of(at));
        let awaited: Vec<RequestId> = these.iter().map(|&(_, id, _)| id).collect();
        self.wait_until_over(&awaited)?;
        for (_, id, request) in these {
            // Answers that the program or another thread has collected are unknown.
            if process.is_done(id).is_ok() {
                self.session.land(request, id)?;
            }
        }
        self.requested.borrow_mut().retain(|&(_, id, _)| process.is_done(id).is_ok());
        Ok(())
    }

    /// Records an answer that this window waits for.
    pub(crate) fn awaited(&self, member: usize, active: Active) -> Outcome {
        self.remember(member, active)
    }

    fn expect(&self, member: usize, into: &Elements) -> Outcome<(i32, Active)> {
        let answer = self.next_answer();
        let from = Some(self.pattern(member, Tag(answer)));
        let active =
            self.session.start(&self.comm, &Message::Receive { into: into.clone(), from })?;
        Ok((answer, active))
    }

    pub(super) fn next_answer(&self) -> i32 {
        let answer = self.answers.get();
        self.answers.set(if answer == i32::MAX { FIRST_ANSWER } else { answer + 1 });
        answer
    }

    /// Waits for a message without data.
    pub(super) fn hear(&self, member: usize, tag: Tag) -> Outcome {
        self.session.process.recv(self.pattern(member, tag), &mut [])?;
        Ok(())
    }

    /// Tells a member that this process's part is open to it.
    pub(super) fn let_in(&self, member: usize) -> Outcome {
        self.send(member, POST, Vec::new())
    }

    /// Waits until a member's part is open to this process.
    pub(super) fn be_let_in(&self, member: usize) -> Outcome {
        self.hear(member, POST)
    }

    fn pattern(&self, member: usize, tag: Tag) -> Pattern {
        let source = Source::Rank(self.comm.group.members()[member]);
        let context = self.comm.context().point_to_point();
        Pattern { context, source, tag: TagPattern::Tag(tag) }
    }

    /// Waits until the buffers of operations on these members may be reused, and serves other
    /// members' requests. Programs flush in loops that wait for a value of their own part.
    pub(crate) fn flush_local(&self, of: impl Fn(usize) -> bool) -> Outcome {
        // Parts are reached in memory: writes to them must come before reads that follow a flush.
        fence(Ordering::SeqCst);
        self.wait_for(|member, _| of(member))?;
        self.wait_for_requested(of)?;
        self.session.process.progress(false)?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Waits until all operations on these members are done at the members too.
    pub(crate) fn flush(&self, members: &[usize]) -> Outcome {
        let mut answers = Vec::new();
        for &member in members {
            if self.unsettled.borrow().contains_key(&member) {
                let answer = self.next_answer();
                let number = self.ask(member, &Request::bare(Verb::Flush, answer), &[])?;
                answers.push((member, answer, number));
            }
        }
        for (member, answer, number) in answers {
            self.hear(member, Tag(answer))?;
            self.settle(member, number);
        }
        self.flush_local(|member| members.contains(&member))
    }

    /// Like [`Window::flush`], for all members.
    pub(crate) fn flush_all(&self) -> Outcome {
        let unsettled: Vec<usize> = self.unsettled.borrow().keys().copied().collect();
        self.flush(&unsettled)?;
        self.flush_local(|_| true)
    }

    /// A member by its number in C; `None` for `MPI_PROC_NULL`.
    pub(crate) fn member(&self, rank: c_int) -> Outcome<Option<usize>> {
        if rank == crate::abi::PROC_NULL {
            return Ok(None);
        }
        self.comm.member(rank).map(Some)
    }
}

/// Bytes of data in these stretches.
fn total(runs: &[Run]) -> usize {
    runs.iter().map(|run| run.1 as usize).sum()
}

/// Checks that the data fits its destination (MPI-4.1, section 12.3), which may be larger.
fn fits(bytes: usize, room: usize, place: &Place<'_>) -> Outcome {
    if bytes <= room {
        return Ok(());
    }
    let (count, datatype) = (place.count, place.datatype.to_text());
    let text = format!("{bytes} bytes for room of {room}, with {count} elements of {datatype}");
    Err(Fault::new(Class::Arg, text))
}

/// Handles of types are in the order of the kinds.
const _: () = assert!(TYPE.handle(BYTES as usize + 1) == 0x0300_0004);
