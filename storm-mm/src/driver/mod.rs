//! The Machine Manager at work: drives the [`Core`] over the primitives.
//!
//! There is one task per duty: heartbeats, slices of each partition, reports of each node,
//! membership, clients, the journal. The tasks share nothing but the core. The core's effects are
//! carried out in order, each after the journal entries before it are durable. Only strobes do not
//! wait.
//!
//! The driver decides nothing, and owns no socket, file or wall clock: those come through
//! [`Primitives`], [`Journal`], [`Contents`] and the channel of calls.

mod clients;
mod coscheduling;
mod effects;
mod heartbeats;
mod inputs;
mod job_tasks;
mod nodes;
mod outbox;
mod parts;
mod pending;
mod slices;
mod staging;
mod stall;
mod subscriber;
mod waits;
mod watches;

pub use staging::Contents;

use crate::api::Call;
use crate::journal::{Journal, JournalError};
use crate::{Core, Durable, Immediate};
use inputs::Inputs;
use job_tasks::JobTasks;
use outbox::Outbox;
use pending::Pending;
use slices::Slice;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Bell, Epoch, Instant, NodeId, NodeSet, Primitives, Runtime, Task};
use storm_rm::message::Command;
use storm_rm::termination::WatchedJobs;
use storm_rm::{GlobalPlan, JobId, PartitionId};
use subscriber::Subscriber;
use waits::Waits;

/// Settings of the driver.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Every node must handle a heartbeat at least this often.
    pub heartbeat_interval: Duration,
    /// How long nodes may take to say good-bye at the end.
    pub farewell: Duration,
    /// If set, commands are issued and ends of jobs looked for only at multiples of this time, as
    /// the paper's MM does at the beginning of each timeslice (section 4.2.1). If absent, at once,
    /// so that no user waits for a slice of an idle machine.
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
    /// The network of the cluster is gone.
    #[error("the cluster's network failed")]
    Network(#[from] storm_primitives::PrimitiveError),
}

/// Runs a Machine Manager until the cluster is shut down.
///
/// # Errors
/// A [`DriverError`] when the manager must stop before. The nodes then behave as after the death of
/// a manager: they keep their jobs and wait for the next one.
pub async fn run<P: Primitives, J: Journal + 'static, C: Contents + 'static>(
    primitives: P,
    plan: GlobalPlan,
    core: Core,
    journal: J,
    contents: C,
    calls: async_channel::Receiver<Call>,
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
    let partitions = shared.core.borrow().partition_count();
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

/// The tasks of jobs and clients keep the shared state alive, so they must end with the manager,
/// even when the manager is dropped in the middle.
struct EndTasks<P, C>(Rc<Shared<P, C>>);

impl<P, C> Drop for EndTasks<P, C> {
    fn drop(&mut self) {
        self.0.job_tasks.end_all();
    }
}

/// The state that the tasks share.
struct Shared<P, C> {
    primitives: P,
    plan: GlobalPlan,
    contents: C,
    config: DriverConfig,
    started: Instant,
    core: RefCell<Core>,
    /// Effects and actions that wait until the journal entries before them are durable.
    pending: Pending,
    /// The contents of the next heartbeat.
    outbox: Outbox,
    /// The epoch of the membership up to which deaths were handled here.
    deaths_known: Cell<Epoch>,
    deaths_known_bell: Bell,
    slice_bells: Vec<Bell>,
    /// The slice under way of each partition.
    slices: RefCell<Vec<Slice>>,
    /// Rung where jobs communicate in slices, after every act of the core.
    coscheduling_bells: Vec<Bell>,
    starting: RefCell<WatchedJobs>,
    starting_bell: Bell,
    terminating: RefCell<WatchedJobs>,
    terminating_bell: Bell,
    job_tasks: JobTasks,
    subscribers: RefCell<BTreeMap<JobId, Vec<Rc<Subscriber>>>>,
    /// Clients that wait for jobs to end.
    waits: Waits,
    /// Jobs whose nodes were told to hold their output.
    held_output: RefCell<BTreeSet<JobId>>,
    /// Input that waits for its readers.
    inputs: Inputs,
    file_failures: staging::FileFailures,
    channels: staging::Channels,
    failure: RefCell<Option<DriverError>>,
}

impl<P: Primitives, C: Contents + 'static> Shared<P, C> {
    fn new(
        primitives: P,
        plan: GlobalPlan,
        core: Core,
        contents: C,
        config: DriverConfig,
    ) -> Shared<P, C> {
        Shared {
            started: primitives.runtime().now(),
            slice_bells: (0..core.partition_count()).map(|_| Bell::default()).collect(),
            slices: RefCell::new((0..core.partition_count()).map(|_| Slice::default()).collect()),
            coscheduling_bells: (0..core.partition_count()).map(|_| Bell::default()).collect(),
            channels: staging::Channels::new(plan.config.channels),
            primitives,
            plan,
            contents,
            config,
            core: RefCell::new(core),
            pending: Pending::default(),
            outbox: Outbox::default(),
            deaths_known: Cell::default(),
            deaths_known_bell: Bell::default(),
            starting: RefCell::default(),
            starting_bell: Bell::default(),
            terminating: RefCell::default(),
            terminating_bell: Bell::default(),
            job_tasks: JobTasks::default(),
            subscribers: RefCell::default(),
            waits: Waits::default(),
            held_output: RefCell::default(),
            inputs: Inputs::default(),
            file_failures: staging::FileFailures::default(),
            failure: RefCell::default(),
        }
    }

    fn now(&self) -> Instant {
        self.primitives.runtime().now()
    }

    /// Lets the core act, and queues its effects.
    fn drive<T>(&self, act: impl FnOnce(&mut Core, Instant) -> T) -> T {
        self.pass_ordered_slices();
        let result = self.act(self.now(), act);
        self.wake_for_slices();
        result
    }

    fn act<T>(&self, now: Instant, act: impl FnOnce(&mut Core, Instant) -> T) -> T {
        let (result, effects) = {
            let mut core = self.core.borrow_mut();
            let result = act(&mut core, now);
            (result, core.take_effects())
        };
        for effect in effects.immediate {
            match effect {
                Immediate::Strobe(nodes, strobe) => self.outbox.strobe(nodes, strobe),
                Immediate::SlicesChanged(partition) => {
                    self.slice_bells[usize::from(partition.0)].ring();
                }
            }
        }
        effects.durable.into_iter().for_each(|effect| self.pending.effect(effect));
        self.pending.ring();
        let core = self.core.borrow();
        for (id, bell) in (0..).zip(&self.coscheduling_bells) {
            if core.is_coscheduled(PartitionId(id)) {
                bell.ring();
            }
        }
        drop(core);
        result
    }

    /// Queues an action after all effects that the core has queued so far.
    fn defer(&self, action: impl FnOnce() + 'static) {
        self.pending.action(action);
        self.pending.ring();
    }

    /// Waits for the instant at which the manager may act.
    async fn time_to_act(&self) {
        let Some(every) = self.config.act_every else { return };
        let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1);
        let past_ns = self.now().as_nanos() % every_ns;
        if past_ns > 0 {
            let left = Duration::from_nanos(every_ns - past_ns);
            self.primitives.runtime().sleep(left).await;
        }
    }

    /// Sends a command at once, ahead of the effects that wait for the journal.
    fn say(&self, nodes: NodeSet, command: Command) {
        self.outbox.say(nodes, command);
    }

    /// Sends a command after all effects that the core has queued so far. A command to a node that
    /// joins comes after the answer to its join, since the node believes nothing before.
    fn say_in_turn(&self, nodes: NodeSet, command: Command) {
        self.pending.effect(Durable::Command(nodes, command));
        self.pending.ring();
    }

    fn fail(&self, error: impl Into<DriverError>) {
        self.failure.borrow_mut().get_or_insert(error.into());
        self.pending.ring();
    }

    /// Tells the nodes to leave and waits until they have, or for a while.
    async fn farewell(self: &Rc<Self>) {
        let nodes = self.primitives.membership().alive().difference(&NodeSet::single(NodeId::MM));
        self.say(nodes, Command::Shutdown);
        let membership = self.primitives.membership().clone();
        let all_left = async {
            let mut epoch = membership.epoch();
            while membership.alive().len() > 1 {
                epoch = membership.changed(epoch).await;
            }
        };
        self.primitives.runtime().timeout(self.config.farewell, all_left).await;
    }
}
