//! Primitives around primitives: faults, traces and delays over any backend.
//!
//! Each middleware is a [`Layer`]: it wraps a [`Primitives`](crate::Primitives) handle of one node
//! and is itself a handle. [`Tracer`] and [`Delay`] keep the contract, which the conformance suite
//! checks. [`FaultInjector`] keeps it for every operation that it does not make fail.

mod delay;
mod fault_injector;
mod fault_plan;
mod lane;
mod layer;
mod trace_record;
mod tracer;

pub use delay::{Delay, DelayRange};
pub use fault_injector::FaultInjector;

pub use fault_plan::{Fault, FaultPlan};
pub use layer::Layer;
pub use trace_record::{Outcome, TraceRecord, TracedOp};
pub use tracer::Tracer;
