//! The link of one simulated node: its delay of every message, and the messages that it holds back
//! while it is cut.

use crate::sim::fabric::Random;
use std::time::Duration;

/// Hundredths of a whole.
const WHOLE_PERCENT: u32 = 100;

/// A message is sent again at most so often; a link that loses more is cut, not
/// lossy.
const MAX_RESENDS: u32 = 64;

/// The state of one node's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) delay: Duration,
    pub(super) slow_percent: u32,
    pub(super) lost_per_mille: u32,
    pub(super) resend: Duration,
    pub(super) cut: bool,
}

impl Link {
    /// A link without fault.
    pub(super) const SOUND: Link = Link {
        delay: Duration::ZERO,
        slow_percent: WHOLE_PERCENT,
        lost_per_mille: 0,
        resend: Duration::ZERO,
        cut: false,
    };

    /// The time that this node takes for work that takes `time` on an unslowed one.
    pub(super) fn slowed(&self, time: Duration) -> Duration {
        time.saturating_mul(self.slow_percent) / WHOLE_PERCENT
    }

    /// The time of a message that takes `time` over a faultless link.
    pub(super) fn over(&self, time: Duration, random: &Random<'_>) -> Duration {
        let mut total = self.slowed(time) + self.delay;
        for _ in 0..MAX_RESENDS {
            if self.lost_per_mille == 0 || random.below(1000) >= u64::from(self.lost_per_mille) {
                break;
            }
            total += self.resend;
        }
        total
    }
}
