//! The host of a real node: storm-pl for the processes, files, pipes.
//!
//! Everything runs on one thread with a tokio runtime, on SCHED_FIFO where the system permits it.
//! Files are touched on the runtime's blocking threads, which are ordinary ones. [`serve`] is the
//! whole daemon except for its command line and its network, which its caller chooses.

mod at_rest;
mod booster;
mod cache;
mod cache_sink;
mod config;
mod cores;
mod departure;
mod descriptors;
mod flexible;
mod interpreter;
mod job_directory;
mod launch_plan;
mod ledger;
mod live_host;
mod live_job;
mod node_facts;
mod pad_pool;
mod program_text;
mod rank_streams;
mod script_commands;
mod serve;
mod shared_files;
mod shared_memory;
mod slices_left;
mod switcher;

pub use at_rest::{let_go_at_rest, let_go_of_text};
pub use cache_sink::CacheSink;
pub use config::{Hear, LiveConfig, PmixStarter, RelayOfNode, keeper_of_other_cluster};
pub use departure::Departure;
pub use live_host::{AttachError, LiveHost};
pub use node_facts::memory_mib as host_memory_mib;
pub use script_commands::ScriptCommands;
pub use serve::{LiveKeeper, ServeError, serve, start_keeper};
