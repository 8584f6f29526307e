//! Flexible coscheduling (Frachtenberg, Feitelson, Petrini, Fernandez, *Flexible coscheduling:
//! mitigating load imbalance and improving utilization of heterogeneous resources*, IPDPS 2003, and
//! IEEE TPDS 16(11), 2005; A5 of the policy reference): places, rows and strobes of
//! [gang scheduling](super::gang), which each node keeps for the processes that need them.
//!
//! A node sees of each process how often it communicates and how long it waits. Who communicates
//! often and hardly waits (CS) has its slot to itself; who waits long all the same (F) goes first in
//! its slot and leaves its processor while it waits; who communicates seldom (DC) runs wherever
//! nobody goes first. The nodes do that; the policy decides as under gang scheduling, and jobs
//! are held to have run while their row was active.

use crate::policies::Gang;
use crate::{Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "fcs";

/// For the registry.
#[must_use]
pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
    Box::new(Gang::new(machine, params).flexible())
}
