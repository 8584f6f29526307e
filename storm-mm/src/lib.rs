//! The Machine Manager (MM): one per cluster. It keeps the job table, gives jobs their processing
//! elements, strobes the time slices, collects the ends of jobs and answers clients.
//!
//! * [`Core`] decides: a state machine without I/O. The core receives events with their times and
//!   returns effects.
//! * [`driver`] acts: it carries out the core's effects over the primitives with the algorithms of
//!   `storm-rm`, generic over the backend and over time.
//! * [`journal`] remembers: every event is durable before it is acknowledged.
//! * [`api`] is the protocol of clients.
//!
//! This crate does not touch processes or files of nodes (the Node Manager does). It does not
//! choose where jobs run (`storm-sched` does), and depends on no backend.

pub mod api;
pub mod cluster;
mod config;
pub mod driver;
mod history;
pub mod job;
pub mod journal;
mod live;
mod manager;
mod node_book;
mod service_config;

pub use config::{
    CoreConfig, DEFAULT_ARRAY_MAX, DEFAULT_HISTORY_LIMIT, DEFAULT_KILL_GRACE,
    DEFAULT_LAUNCH_TIMEOUT, DEFAULT_RECOVERY_TIMEOUT, DEFAULT_STROBE_SPAN, DEFAULT_USER_JOBS_MAX,
    PartitionConfig,
};
pub use live::{SpoolContents, SpooledFile};
pub use manager::{
    ActiveRows, AskedStep, ClusterTimer, Core, Draft, Durable, Effects, Immediate, JobTimer,
    Launch, NextEdge, Notice, PartitionError, Resumed, STEPS_MAX, StageJob, StageOutcome,
    StepOrder, StepOrderKind, StepRequest, StepTimer, Timer, Watch,
};
pub use node_book::NodeBook;
pub use service_config::{
    AccountConfig, DEFAULT_ACCOUNT, DEFAULT_PRIORITY_INTERVAL, NamedIn, PriorityConfig, QosConfig,
    ServiceConfig, UnknownUser,
};
pub use storm_sched::NodeSpec as NodeConfig;
