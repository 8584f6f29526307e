//! First come, first served, with shared space: one row, and the head of the queue starts as soon
//! as it fits. The policy is A1 of the policy reference, and the first algorithm in the list of the
//! paper's section 2.1.
//!
//! No job passes the head, even while the head waits for a node that is down.

use crate::space::{Discipline, News, Order, Passing, Space, SpaceSharing, Verdict};
use crate::{Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "fcfs";

/// Space sharing in queue order.
pub type Fcfs = SpaceSharing<InOrder>;

/// The discipline in which the head starts and no job passes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct InOrder;

impl Fcfs {
    /// The policy on an idle machine.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        Self::under(InOrder, machine, &PolicyParams::default())
    }

    /// For the registry.
    #[must_use]
    pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
        Box::new(Self::under(InOrder, machine, params))
    }
}

impl Discipline for InOrder {
    fn name(&self) -> &'static str {
        NAME
    }

    fn passing(&self) -> Passing {
        Passing::Never
    }

    fn decide(&mut self, space: &mut Space, news: &[News]) {
        if !space.is_worth_a_pass(news) {
            return;
        }
        space.offer(Order::Queue, |job| if job.fits() { Verdict::Start } else { Verdict::Stop });
    }
}
