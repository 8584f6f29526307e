//! Implicit coscheduling (Arpaci-Dusseau, *Implicit coscheduling: coordinated scheduling with
//! implicit information in distributed systems*, ACM TOCS 19(3), 2001; A6 of the policy reference).
//! Jobs are placed as under [`local`](super::local). A waiting process spins for as long as an
//! answer takes, then sleeps. An arriving message implies that its sender is running. So the
//! processes of a job come to run together without a command from outside.
//!
//! The application's message-passing library waits. The nodes measure, and tell the library how
//! long to spin.

use crate::policies::Gang;
use crate::{Coscheduling, Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "ics";

/// For the registry.
#[must_use]
pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
    Box::new(Gang::at_once(Coscheduling::Implicit, machine, params))
}
