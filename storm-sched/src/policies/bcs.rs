//! Buffered coscheduling (Petrini and Feng, IPDPS 2000; BCS-MPI, SC'03; A4 of the policy
//! reference). Jobs are placed in the rows of a matrix, as under gang scheduling. The messages of
//! their ranks move in slices that all nodes of the partition begin together.
//!
//! If all ranks of a row on a node wait, the node gives the rest of its slice to another row. The
//! node manager (`storm-nm`) does it on its own, slice by slice. This policy decides the row of
//! each job, and the row that is first in each quantum.

use super::Gang;
use crate::{Machine, Policy, PolicyParams};

/// The policy's name in the registry.
pub const NAME: &str = "bcs";

/// Makes the policy: [gang scheduling](super::gang) with slices of communication.
#[derive(Debug)]
pub struct Bcs;

impl Bcs {
    /// The constructor for the registry.
    #[must_use]
    pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
        Box::new(Gang::new(machine, params).buffered(NAME, params.slice_us.duration()))
    }
}
