//! Buffered coscheduling (Petrini and Feng, IPDPS 2000; BCS-MPI, SC'03; A4 of the policy reference):
//! jobs are placed in the rows of a matrix as under gang scheduling, and what their ranks send moves
//! in slices that all nodes of the partition begin together.
//!
//! A row whose ranks all wait on a node gives that node's slice to another row. That is seen and done
//! there (`storm-nm`), slice by slice; what is decided here is who is in which row, and which row goes
//! first in each quantum.

use super::Gang;
use crate::{Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "bcs";

/// Makes it.
#[derive(Debug)]
pub struct Bcs;

impl Bcs {
    /// For the registry.
    #[must_use]
    pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
        Box::new(Gang::new(machine, params).buffered(NAME, params.slice_us.duration()))
    }
}
