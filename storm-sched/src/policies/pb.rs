//! Periodic boost (Nagar, Banerjee, Sivasubramaniam, Das, *A closer look at coscheduling approaches
//! for a network of workstations*, SPAA 1999; A6 of the policy reference). Jobs are placed as under
//! [`local`](super::local). From time to time, each node prefers processes that wait for a message
//! which has already arrived.
//!
//! The node managers boost processes. The application's message-passing library tells them which
//! processes to prefer.

use crate::policies::Gang;
use crate::{Coscheduling, Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "pb";

/// For the registry.
#[must_use]
pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
    Box::new(Gang::at_once(Coscheduling::PeriodicBoost, machine, params))
}
