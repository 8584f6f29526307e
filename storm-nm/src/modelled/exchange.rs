//! Messages between modelled ranks. The model of the network determines their cost.

use crate::JobKey;
use futures_util::future::LocalBoxFuture;
use std::time::Duration;
use storm_rm::Rank;

/// A rank of a run of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The run of the job.
    pub job: JobKey,
    /// The rank.
    pub rank: Rank,
}

/// The network, as the ranks of modelled jobs use it.
pub trait Exchange {
    /// Sends a message. Returns the CPU time that the sender needs for it.
    fn send(&self, from: Endpoint, to: Rank, bytes: u64) -> Duration;

    /// Waits for the next message from a rank, and takes it.
    fn receive(&self, at: Endpoint, from: Rank) -> LocalBoxFuture<'static, ()>;

    /// `2 L + 4 O`: the time for an answer whose sender is running.
    fn answer(&self) -> Duration {
        Duration::ZERO
    }

    /// Enters a barrier of all `size` ranks of the job and waits for its end.
    fn barrier(&self, at: Endpoint, size: u32) -> LocalBoxFuture<'static, ()>;
}

/// No network: sending is free, and a receiver waits for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExchange;

impl Exchange for NoExchange {
    fn send(&self, _from: Endpoint, _to: Rank, _bytes: u64) -> Duration {
        Duration::ZERO
    }

    fn receive(&self, _at: Endpoint, _from: Rank) -> LocalBoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn barrier(&self, _at: Endpoint, _size: u32) -> LocalBoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}
