//! EASY with shortest job backfilled first (Tsafrir, Etsion and Feitelson,
//! TPDS 18(6), 2007; A2a of the policy reference): as [`super::easy`], but the
//! jobs that may pass the head are looked at in the order of their estimates,
//! the shortest first, among equals in queue order.

use crate::space::{Discipline, News, Order, Passing, Shadow, Space, SpaceSharing, Verdict};
use crate::{JobId, Machine, Policy, PolicyParams};

/// The name in the registry.
pub const NAME: &str = "easy-sjbf";

/// EASY with shortest job backfilled first.
pub type EasySjbf = SpaceSharing<BackfillShortest>;

/// The head has a reservation; the others go by their estimates.
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
        let mut blocked: Option<(JobId, Shadow)> = None;
        space.offer(Order::Queue, |job| {
            if job.free_pes() == 0 {
                return Verdict::Stop;
            }
            if job.fits() {
                return Verdict::Start;
            }
            blocked = job.shadow().map(|shadow| (job.job(), shadow));
            if blocked.is_some() { Verdict::Stop } else { Verdict::Wait }
        });
        let Some((head, mut shadow)) = blocked else { return };
        space.offer(Order::ShortestFirst, |job| {
            if job.free_pes() == 0 {
                Verdict::Stop
            } else if job.job() != head && job.fits() && shadow.admits(job) {
                Verdict::Start
            } else {
                Verdict::Wait
            }
        });
    }
}
