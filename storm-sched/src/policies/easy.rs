//! EASY backfilling (Lifka, JSSPP 1995; Mu'alem and Feitelson, TPDS 12(6), 2001; A2a of the policy
//! reference). The head of the queue starts as soon as it fits. Until then, other jobs may start in
//! queue order if, by the users' estimates, they do not delay the head.
//!
//! There is one pass for each event. A submission causes a pass only if the new job itself fits. A
//! job that is too large for the nodes that are up does not delay others: until more nodes are up,
//! the next job counts as the head.

use crate::space::{Discipline, News, Order, Passing, Space, SpaceSharing};
use crate::{Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "backfill";

/// EASY backfilling.
pub type Easy = SpaceSharing<Backfill>;

/// The discipline in which the head has a reservation and the other jobs go in queue order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backfill;

impl Easy {
    /// The policy on an idle machine.
    #[must_use]
    pub fn new(machine: Machine, params: &PolicyParams) -> Self {
        Self::under(Backfill, machine, params)
    }

    /// For the registry.
    #[must_use]
    pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
        Box::new(Self::new(machine, params))
    }
}

impl Discipline for Backfill {
    fn name(&self) -> &'static str {
        NAME
    }

    fn passing(&self) -> Passing {
        Passing::Harmless
    }

    fn decide(&mut self, space: &mut Space, news: &[News]) {
        if !space.is_worth_a_pass(news) {
            return;
        }
        let blocked = space.start_prefix(Order::Queue, |job| job.shadow());
        if let Some((head, shadow)) = blocked {
            space.backfill(Order::Queue, head, shadow);
        }
    }
}
