//! The Machine Manager at work: drives the [`Core`] over the primitives.
//!
//! There is one task per duty: heartbeats, slices of each partition, reports of each node,
//! membership, clients, the journal. The tasks share the core and the driver's rooms, types that
//! each own a part of the state (`Shared`, [decision
//! 0144](../../../docs/decisions/0144-rooms-of-the-driver.md)). The core's effects are carried out
//! in order, each after the journal entries before it are durable. Only strobes do not wait.
//!
//! The driver decides nothing, and owns no socket, file or wall clock: it works through
//! [`Primitives`], [`Journal`], [`Contents`] and the channel of calls.

mod clients;
mod coscheduling;
mod deaths;
mod effects;
mod followed;
mod following;
mod heartbeats;
mod inputs;
mod job_tasks;
mod nodes;
mod outbox;
mod parts;
mod pending;
mod runs;
mod scripts;
mod shared;
mod slices;
mod staging;
mod stall;
mod step_clients;
mod step_orders;
mod subscriber;
mod subscribers;
mod waits;
mod watches;

pub use staging::Contents;

use crate::Core;
use crate::api::FromClient;
use crate::journal::{Journal, JournalError};
use shared::Shared;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Primitives, Runtime, Task};
use storm_rm::{GlobalPlan, PartitionId};

/// Settings of the driver.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Every node must handle a heartbeat at least this often.
    pub heartbeat_interval: Duration,
    /// How long nodes may take to leave at the end.
    pub farewell: Duration,
    /// If set, commands are issued and ends of jobs detected only at multiples of this time. The
    /// paper's MM does both at the beginning of each timeslice (section 4.2.1). If absent, both
    /// happen at once, so that no user waits for a slice of an idle machine.
    pub act_every: Option<Duration>,
    /// Users that the host has learnt of since the start, by name and number.
    pub known_users: Option<async_channel::Receiver<(String, u32)>>,
}

impl Default for DriverConfig {
    fn default() -> DriverConfig {
        DriverConfig {
            // A dead node is to be noticed within a second, at two heartbeats.
            heartbeat_interval: Duration::from_millis(400),
            farewell: Duration::from_secs(2),
            act_every: None,
            known_users: None,
        }
    }
}

/// Why the manager stopped.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// Events can no longer be made durable.
    #[error("the manager cannot keep its promises without its journal")]
    Journal(#[from] JournalError),
    /// The network of the cluster failed.
    #[error("the cluster's network failed")]
    Network(#[from] storm_primitives::PrimitiveError),
}

/// Runs a Machine Manager until the cluster is shut down.
///
/// # Errors
/// A [`DriverError`] when the manager must stop before the shutdown. The nodes then behave as after
/// the death of a manager: they keep their jobs and wait for the next one.
pub async fn run<P: Primitives, J: Journal + 'static, C: Contents + 'static>(
    primitives: P,
    plan: GlobalPlan,
    core: Core,
    journal: J,
    contents: C,
    calls: async_channel::Receiver<FromClient>,
    config: DriverConfig,
) -> Result<(), DriverError> {
    let shared = Rc::new(Shared::new(primitives, plan, core, contents, config));
    // The events that recovery produced must be durable and acted upon before anything else.
    shared.drive(|_, _| ());
    let _tasks = EndTasks(shared.clone());
    let runtime = shared.primitives.runtime().clone();
    let _heartbeats = runtime.spawn(heartbeats::run(shared.clone()));
    let _liveness = runtime.spawn(heartbeats::watch_liveness(shared.clone()));
    let _nodes = runtime.spawn(nodes::run(shared.clone()));
    let _starts = runtime.spawn(watches::run_starts(shared.clone()));
    let _terminations = runtime.spawn(watches::run_terminations(shared.clone()));
    let _tending = runtime.spawn(staging::tend(shared.clone()));
    let _users = runtime.spawn(clients::learn_users(shared.clone()));
    let _clients = runtime.spawn(clients::run(shared.clone(), calls));
    let partitions = shared.core().partition_count();
    let _slices: Vec<Task> = (0..partitions)
        .map(|id| runtime.spawn(slices::run(shared.clone(), PartitionId(id))))
        .collect();
    let _coscheduling: Vec<Task> = (0..partitions)
        .map(|id| runtime.spawn(coscheduling::run(shared.clone(), PartitionId(id))))
        .collect();
    effects::run(&shared, &journal).await?;
    shared.farewell().await;
    Ok(())
}

/// The tasks of jobs and clients keep the shared state alive. The tasks must therefore end with the
/// manager, even when the manager is dropped in the middle.
struct EndTasks<P, C>(Rc<Shared<P, C>>);

impl<P, C> Drop for EndTasks<P, C> {
    fn drop(&mut self) {
        self.0.runs.end_tasks();
    }
}
