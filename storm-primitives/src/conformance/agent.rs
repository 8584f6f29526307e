//! The suite's agent at one node: executes commands on a `Primitives` handle.
//!
//! The agent does not judge results; the cases do.

use super::wire::{Request, Response};
use super::{Command, Op, OpResult, Pace, Presence, Read, Reply, Seen, Status, Store, pattern};
use crate::{
    EventId, GlobalAddr, GlobalMemory, OutOfBounds, PrimitiveError, Primitives, Runtime, Signal,
    Xfer,
};
use bytes::Bytes;
use futures_util::future::{join_all, poll_immediate};
use std::future::Future;
use std::pin::Pin;

/// The most tries of a snapshot of words. A retry means that a word changed in between; the suite
/// writes far less often.
const MAX_SNAPSHOT_TRIES: usize = 10_000;

/// Executes [`Command`]s on one node. Clones share the node.
#[derive(Clone, Debug)]
pub struct Agent<P> {
    primitives: P,
}

/// An operation that was issued and has no status yet.
type Pending = Pin<Box<dyn Future<Output = OpResult>>>;

impl<P: Primitives> Agent<P> {
    /// The agent of the node that `primitives` belongs to.
    pub fn new(primitives: P) -> Agent<P> {
        Agent { primitives }
    }

    /// Executes `request` as a task of its own and passes the response to `answer`. A request that
    /// waits does not hold up the others.
    pub fn spawn(&self, request: Request, answer: impl FnOnce(Response) + 'static) {
        let this = self.clone();
        let task = async move {
            let reply = this.execute(request.command).await;
            answer(Response { id: request.id, reply });
        };
        self.primitives.runtime().spawn(task).detach();
    }

    /// Executes one command.
    pub async fn execute(&self, command: Command) -> Reply {
        match command {
            Command::Issue { ops, pace } => Reply::Issued(self.issue(ops, pace).await),
            Command::IssueThenWrite { ops, stores } => {
                let mut started = Vec::with_capacity(ops.len());
                for op in ops {
                    started.push(self.start(op).await);
                }
                if !self.primitives.precedes_own_stores() {
                    join_all(started.into_iter().map(Started::result)).await;
                }
                match self.write(stores) {
                    Ok(()) => Reply::Written,
                    Err(error) => Reply::OutOfBounds(error),
                }
            }
            Command::Write(stores) => match self.write(stores) {
                Ok(()) => Reply::Written,
                Err(error) => Reply::OutOfBounds(error),
            },
            Command::Read(reads) => match self.read(&reads) {
                Ok(seen) => Reply::Seen(seen),
                Err(error) => Reply::OutOfBounds(error),
            },
            Command::Poll { event } => Reply::Polled(self.primitives.test_event(event)),
            Command::Await { event, then } => {
                let signal = self.primitives.await_event(event).await;
                match self.read(&then) {
                    Ok(seen) => Reply::Awaited { signal, seen },
                    Err(error) => Reply::OutOfBounds(error),
                }
            }
            Command::Sample { event, signals, words } => {
                match self.sample(event, signals, &words).await {
                    Ok(samples) => Reply::Sampled(samples),
                    Err(error) => Reply::OutOfBounds(error),
                }
            }
            Command::AwaitMember { node, presence } => {
                let view = self.primitives.membership();
                loop {
                    let epoch = view.epoch();
                    let there = view.incarnation(node);
                    let reached = match presence {
                        Presence::Gone => there.is_none(),
                        Presence::There => there.is_some(),
                        Presence::After(old) => there.is_some_and(|now| now > old),
                    };
                    if reached {
                        return self.members();
                    }
                    view.changed(epoch).await;
                }
            }
            Command::Membership => self.members(),
        }
    }

    async fn issue(&self, ops: Vec<Op>, pace: Pace) -> Vec<OpResult> {
        let mut pending = Vec::with_capacity(ops.len());
        for op in ops {
            let mut result = self.start(op).await;
            if let (Pace::OneByOne, Started::Pending(future)) = (pace, &mut result) {
                result = Started::Done(future.await);
            }
            pending.push(result);
        }
        let mut results = Vec::with_capacity(pending.len());
        for started in pending {
            results.push(started.result().await);
        }
        results
    }

    /// Issues `op` before it returns; does not wait for its status.
    async fn start(&self, op: Op) -> Started {
        match op {
            Op::Xfer { dest, addr, data, remote_event, status } => {
                let xfer =
                    Xfer { dest, addr, data: data.to_bytes(), remote_event, local_event: None };
                self.start_xfer(xfer, status)
            }
            Op::Caw(caw) => {
                let answer = self.primitives.compare_and_write(caw);
                let mut future: Pending = Box::pin(async move { OpResult::Caw(answer.await) });
                // Takes its place in the order when first polled: now.
                match poll_immediate(&mut future).await {
                    Some(result) => Started::Done(result),
                    None => Started::Pending(future),
                }
            }
            Op::AbandonedCaw(caw) => {
                let answer = self.primitives.compare_and_write(caw);
                let _maybe = poll_immediate(Box::pin(answer)).await;
                Started::Done(OpResult::Unwatched)
            }
        }
    }

    fn start_xfer(&self, xfer: Xfer, status: Status) -> Started {
        match status {
            Status::Wait => {
                let done = self.primitives.events().local();
                self.primitives.xfer_and_signal(xfer.signal_local(done.id()));
                let this = self.primitives.clone();
                Started::Pending(Box::pin(async move {
                    OpResult::Xfer(this.await_event(done.id()).await)
                }))
            }
            Status::Event(event) => {
                self.primitives.xfer_and_signal(xfer.signal_local(event));
                Started::Done(OpResult::Unwatched)
            }
            Status::Ignore => {
                self.primitives.xfer_and_signal(xfer);
                Started::Done(OpResult::Unwatched)
            }
            Status::Abandon => {
                let done = self.primitives.events().local();
                self.primitives.xfer_and_signal(xfer.signal_local(done.id()));
                Started::Done(OpResult::Unwatched)
            }
        }
    }

    fn write(&self, stores: Vec<Store>) -> Result<(), OutOfBounds> {
        let memory = self.primitives.memory();
        stores.into_iter().try_for_each(|store| match store {
            Store::Word(addr, value) => memory.store_word(addr, value),
            Store::Bytes(addr, data) => memory.write(addr, &data.to_bytes()),
        })
    }

    fn read(&self, reads: &[Read]) -> Result<Vec<Seen>, OutOfBounds> {
        let memory = self.primitives.memory();
        let one = |read: &Read| match *read {
            Read::Word(addr) => Ok(Seen::Word(memory.load_word(addr)?)),
            Read::Bytes(addr, len) => Ok(Seen::Bytes(Bytes::from(range(memory, addr, len)?))),
            Read::Hash(addr, len) => Ok(Seen::Hash(pattern::hash(&range(memory, addr, len)?))),
        };
        reads.iter().map(one).collect()
    }

    async fn sample(
        &self,
        event: EventId,
        signals: u32,
        words: &[GlobalAddr],
    ) -> Result<Vec<Vec<u64>>, OutOfBounds> {
        let mut samples = Vec::new();
        for _ in 0..signals {
            let signal: Signal = self.primitives.await_event(event).await;
            if let Err(PrimitiveError::UnknownEvent { .. }) = signal {
                break;
            }
            samples.push(self.snapshot(words)?);
        }
        Ok(samples)
    }

    /// The words at one instant. Words only grow, so two equal readings in a row show values that
    /// held together between them.
    fn snapshot(&self, words: &[GlobalAddr]) -> Result<Vec<u64>, OutOfBounds> {
        let memory = self.primitives.memory();
        let collect = || -> Result<Vec<u64>, OutOfBounds> {
            words.iter().map(|&addr| memory.load_word(addr)).collect()
        };
        let mut last = collect()?;
        for _ in 0..MAX_SNAPSHOT_TRIES {
            let again = collect()?;
            if again == last {
                break;
            }
            last = again;
        }
        Ok(last)
    }

    fn members(&self) -> Reply {
        let view = self.primitives.membership();
        Reply::Members { epoch: view.epoch(), alive: view.incarnations() }
    }
}

enum Started {
    Done(OpResult),
    Pending(Pending),
}

impl Started {
    async fn result(self) -> OpResult {
        match self {
            Started::Done(result) => result,
            Started::Pending(future) => future.await,
        }
    }
}

fn range(memory: &GlobalMemory, addr: GlobalAddr, len: u64) -> Result<Vec<u8>, OutOfBounds> {
    memory.check(addr, len)?;
    // Within memory, hence within the address space.
    memory.read_vec(addr, len as usize)
}
