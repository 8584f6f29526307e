//! EASY with shortest job backfilled first (Tsafrir, Etsion and Feitelson, TPDS 18(6), 2007; A2a of
//! the policy reference). The policy is [`super::easy`] with another order of the jobs that may
//! pass the head: the shortest estimate first, and equal estimates in queue order.

use crate::space::{Discipline, News, Order, Passing, Space, SpaceSharing};
use crate::{Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "easy-sjbf";

/// EASY with shortest job backfilled first.
pub type EasySjbf = SpaceSharing<BackfillShortest>;

/// The discipline in which the head has a reservation and the other jobs are tried by their
/// estimates.
#[derive(Debug, Clone, Copy, Default)]
pub struct BackfillShortest;

impl EasySjbf {
    /// The policy on an idle machine.
    #[must_use]
    pub fn new(machine: Machine, params: &PolicyParams) -> Self {
        Self::under(BackfillShortest, machine, params)
    }

    /// For the registry.
    #[must_use]
    pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
        Box::new(Self::new(machine, params))
    }
}

impl Discipline for BackfillShortest {
    fn name(&self) -> &'static str {
        NAME
    }

    fn passing(&self) -> Passing {
        Passing::Harmless
    }

    fn keeps_estimates(&self) -> bool {
        true
    }

    fn decide(&mut self, space: &mut Space, news: &[News]) {
        if !space.is_worth_a_pass(news) {
            return;
        }
        let blocked = space.start_prefix(Order::Queue, |job| job.shadow());
        if let Some((head, shadow)) = blocked {
            space.backfill(Order::ShortestFirst, head, shadow);
        }
    }
}
