//! The operating system alone (A6 of the policy reference). Jobs get places in the Ousterhout
//! matrix as under [gang scheduling](super::gang), but all rows run at once. Nothing is stopped or
//! resumed. Each node's operating system shares its processors among the processes of as many jobs
//! as there are rows.
//!
//! A process that waits for messages loses time while their senders do not run. The more often it
//! waits, the more it loses. Coscheduling is measured against this loss.

use crate::policies::Gang;
use crate::{Coscheduling, Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "local";

/// For the registry.
#[must_use]
pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
    Box::new(Gang::at_once(Coscheduling::Local, machine, params))
}
