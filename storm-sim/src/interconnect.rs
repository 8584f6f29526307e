//! Messages between the ranks of modelled jobs. Each message takes its time on the way, whether or
//! not the receiver is scheduled. A stopped receiver finds the message when it runs again.
//!
//! Messages do not contend with each other. The daemons' primitives do not use this module; they
//! use the simulated network.

use futures_util::future::LocalBoxFuture;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;
use storm_nm::JobKey;
use storm_nm::modelled::{Endpoint, Exchange};
use storm_primitives::Runtime;
use storm_primitives::sim::SimRuntime;
use storm_rm::Rank;

use crate::hosts::time_of;

/// How long messages between ranks take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCosts {
    /// From the sending to the arrival of an empty message.
    pub latency: Duration,
    /// Further time for each MiB.
    pub per_mib: Duration,
    /// From the arrival of the last rank at a barrier to its end everywhere.
    pub barrier: Duration,
}

/// The network of all modelled jobs. Clones share it.
#[derive(Clone)]
pub(crate) struct Interconnect {
    runtime: SimRuntime,
    costs: MessageCosts,
    state: Rc<RefCell<State>>,
}

#[derive(Default)]
struct State {
    boxes: BTreeMap<(JobKey, Rank, Rank), Mailbox>,
    barriers: BTreeMap<JobKey, Barrier>,
}

/// Messages from one rank to another that have arrived, and the receiver that waits for them.
#[derive(Default)]
struct Mailbox {
    arrived: u64,
    waiter: Option<Waker>,
}

#[derive(Default)]
struct Barrier {
    /// Barriers that are over.
    opened: u64,
    inside: u32,
    waiters: Vec<Waker>,
}

impl Interconnect {
    pub(crate) fn new(runtime: SimRuntime, costs: MessageCosts) -> Interconnect {
        Interconnect { runtime, costs, state: Rc::default() }
    }

    /// A run is over: drops the messages that its ranks did not take.
    pub(crate) fn forget(&self, job: storm_rm::JobId) {
        let mut state = self.state.borrow_mut();
        state.boxes.retain(|(key, _, _), _| key.step.job != job);
        state.barriers.retain(|key, _| key.step.job != job);
    }

    fn after(&self, delay: Duration, act: impl FnOnce(&mut State) -> Vec<Waker> + 'static) {
        let state = self.state.clone();
        let timer = self.runtime.sleep(delay);
        let task = self.runtime.spawn(async move {
            timer.await;
            let wakers = act(&mut state.borrow_mut());
            wakers.into_iter().for_each(Waker::wake);
        });
        task.detach();
    }
}

impl Exchange for Interconnect {
    fn send(&self, from: Endpoint, to: Rank, bytes: u64) -> Duration {
        let MessageCosts { latency, per_mib, .. } = self.costs;
        let address = (from.job, from.rank, to);
        self.after(latency + time_of(per_mib, bytes), move |state| {
            let mailbox = state.boxes.entry(address).or_default();
            mailbox.arrived += 1;
            mailbox.waiter.take().into_iter().collect()
        });
        Duration::ZERO
    }

    fn receive(&self, at: Endpoint, from: Rank) -> LocalBoxFuture<'static, ()> {
        let state = self.state.clone();
        let address = (at.job, from, at.rank);
        Box::pin(poll_fn(move |cx| {
            let mut state = state.borrow_mut();
            let mailbox = state.boxes.entry(address).or_default();
            if mailbox.arrived > 0 {
                mailbox.arrived -= 1;
                return Poll::Ready(());
            }
            mailbox.waiter = Some(cx.waker().clone());
            Poll::Pending
        }))
    }

    fn answer(&self) -> Duration {
        2 * self.costs.latency
    }

    fn barrier(&self, at: Endpoint, size: u32) -> LocalBoxFuture<'static, ()> {
        let job = at.job;
        let mine = {
            let mut state = self.state.borrow_mut();
            let barrier = state.barriers.entry(job).or_default();
            barrier.inside += 1;
            let mine = barrier.opened + 1;
            if barrier.inside >= size {
                barrier.inside = 0;
                self.after(self.costs.barrier, move |state| {
                    let Some(barrier) = state.barriers.get_mut(&job) else { return Vec::new() };
                    barrier.opened += 1;
                    std::mem::take(&mut barrier.waiters)
                });
            }
            mine
        };
        let state = self.state.clone();
        Box::pin(poll_fn(move |cx| {
            let mut state = state.borrow_mut();
            let barrier = state.barriers.entry(job).or_default();
            if barrier.opened >= mine {
                return Poll::Ready(());
            }
            barrier.waiters.push(cx.waker().clone());
            Poll::Pending
        }))
    }
}
