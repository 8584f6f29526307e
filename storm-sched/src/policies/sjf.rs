//! Shortest job first, by the users' estimates (A2 of the policy reference). The job with the
//! shortest estimate starts as soon as it fits, and no job passes it. Among equals, the queue order
//! decides.
//!
//! Priorities count among equals only, and a long job can wait for ever. The policy is a baseline
//! for comparisons, not for running a site.

use crate::space::{Discipline, News, Order, Passing, Space, SpaceSharing};
use crate::{Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "sjf";

/// Shortest job first.
pub type Sjf = SpaceSharing<ByEstimate>;

/// The discipline in which the job with the shortest estimate is the head.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByEstimate;

impl Sjf {
    /// The policy on an idle machine.
    #[must_use]
    pub fn new(machine: Machine, params: &PolicyParams) -> Self {
        Self::under(ByEstimate, machine, params)
    }

    /// For the registry.
    #[must_use]
    pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
        Box::new(Self::new(machine, params))
    }
}

impl Discipline for ByEstimate {
    fn name(&self) -> &'static str {
        NAME
    }

    fn order(&self) -> Order {
        Order::ShortestFirst
    }

    fn passing(&self) -> Passing {
        Passing::Shortest
    }

    fn decide(&mut self, space: &mut Space, news: &[News]) {
        if !space.is_worth_a_pass(news) {
            return;
        }
        space.start_prefix(Order::ShortestFirst, |job| job.is_placeable().then_some(()));
    }
}
