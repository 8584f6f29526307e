//! Implicit coscheduling (Arpaci-Dusseau, *Implicit coscheduling: coordinated scheduling with
//! implicit information in distributed systems*, ACM TOCS 19(3), 2001; A6 of the policy
//! reference): the placement of [`local`](super::local), and processes that wait look for the
//! message as long as an answer takes, then sleep. That a message comes says that its sender
//! runs: so the processes of a job come to run together without anybody ordering it.
//!
//! The waiting is done in the application's message-passing library; the nodes measure and tell
//! it for how long.

use crate::policies::Gang;
use crate::{Coscheduling, Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "ics";

/// For the registry.
#[must_use]
pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
    Box::new(Gang::at_once(Coscheduling::Implicit, machine, params))
}
