//! A deterministic machine in one thread: an executor with a virtual clock and
//! an in-memory network that implements the primitives.
//!
//! One seed fixes everything: which ready task runs next, how long each message takes, and
//! therefore the whole trace. Tests of algorithms and daemons run here, so that no algorithm or
//! daemon can depend on a socket, a runtime or the wall clock.
//!
//! This module does not model a particular network. [`NetworkConfig`] draws random delays within
//! bounds; the timing of a real QsNet is another [`Fabric`], in another crate.
//!
//! ```
//! use storm_primitives::{sim, Layout, NodeId, NodeSet, Primitives, Xfer};
//!
//! let mut layout = Layout::builder();
//! let region = layout.region("greeting", 5);
//! let arrived = layout.event("arrived");
//! let simulation = sim::Simulation::new(42);
//! let network = sim::SimNetwork::new(&simulation, 4, &layout.build(), Default::default());
//! let (mm, n3) = (network.node(NodeId::MM), network.node(NodeId(3)));
//! let greeting = simulation.run(async move {
//!     let hello = Xfer::new(NodeSet::compute(4), region.addr, &b"hello"[..]);
//!     mm.xfer_and_signal(hello.signal_remote(arrived));
//!     n3.await_event(arrived).await?;
//!     Ok::<_, storm_primitives::PrimitiveError>(n3.memory().read_vec(region.addr, 5)?)
//! });
//! assert_eq!(greeting.unwrap().unwrap(), b"hello");
//! ```

mod executor;
mod fabric;
mod group;
mod link;
mod network;
mod network_config;
mod node;
mod node_fault;
mod operation;
mod runtime;
mod tasks;
mod timers;
mod trace;

pub use executor::{Effort, SimError, Simulation};
pub use fabric::{Arrivals, Fabric, Operation, OperationKind, Random};
pub use network::SimNetwork;
pub use network_config::NetworkConfig;
pub use node::SimPrimitives;
pub use node_fault::{NodeFault, ScriptedFault};
pub use runtime::SimRuntime;
pub use trace::{Trace, TraceEntry};
