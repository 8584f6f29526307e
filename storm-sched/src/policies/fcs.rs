//! Flexible coscheduling (Frachtenberg, Feitelson, Petrini, Fernandez, *Flexible coscheduling:
//! mitigating load imbalance and improving utilization of heterogeneous resources*, IPDPS 2003, and
//! IEEE TPDS 16(11), 2005; A5 of the policy reference). Jobs have the places, rows and strobes of
//! [gang scheduling](super::gang). Each node applies the strobes only to the processes that need
//! them.
//!
//! A node sees how often each process communicates and how long it waits, and gives it a class:
//! - CS communicates often and hardly waits: it has its row to itself.
//! - F communicates often and still waits long: it goes first in its row and gives up its
//!   processor while it waits.
//! - DC communicates seldom: it runs wherever no other process has precedence.
//!
//! The policy decides as under gang scheduling, and assumes that a job runs while its row is
//! active.

use crate::policies::Gang;
use crate::{Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "fcs";

/// For the registry.
#[must_use]
pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
    Box::new(Gang::new(machine, params).flexible())
}
