//! The operating system alone (A6 of the policy reference): jobs get places in the Ousterhout
//! matrix as under [gang scheduling](super::gang), and then all rows run at once. Nothing is
//! stopped or resumed; each node's operating system shares out its processors among the
//! processes of as many jobs as there are rows.
//!
//! Processes that wait for messages of others that do not run now lose their time, the more the
//! oftener they wait: this is what coscheduling is measured against.

use crate::policies::Gang;
use crate::{Coscheduling, Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "local";

/// For the registry.
#[must_use]
pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
    Box::new(Gang::at_once(Coscheduling::Local, machine, params))
}
