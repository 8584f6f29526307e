//! Modelled jobs: applications that compute, exchange messages and wait for each other. Each is a
//! script for the ranks on a modelled node.

mod wavefront;

use serde::{Deserialize, Serialize};
use std::time::Duration;
use storm_nm::modelled::{RankContext, Script, Step};
use storm_rm::Rank;
use wavefront::Grid;

/// The default number of blocks of cells that a wavefront sends one after the other. It is the same
/// as sweep3d's `mk` and angle blocks in this repository.
const DEFAULT_BLOCKS: u32 = 10;
/// Default length of a wavefront's boundary message in bytes.
const DEFAULT_MESSAGE_BYTES: u64 = 4096;

fn default_blocks() -> u32 {
    DEFAULT_BLOCKS
}

fn default_message_bytes() -> u64 {
    DEFAULT_MESSAGE_BYTES
}

/// Work of a rank under a balanced load, in hundredths of the others' work.
const BALANCED_PERCENT: u32 = 100;

fn balanced() -> u32 {
    BALANCED_PERCENT
}

/// A modelled application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Application {
    /// Every rank computes for this long. Zero is the do-nothing program of the paper's section
    /// 4.2.
    Compute {
        /// CPU time of each rank.
        #[serde(with = "crate::scenario::written_time")]
        time: Duration,
    },
    /// SWEEP3D's pattern: a sweep from one corner of the grid of ranks to the other, pipelined in
    /// blocks, then a sweep back.
    #[serde(rename_all = "kebab-case")]
    Wavefront {
        /// Sweeps there and back.
        iterations: u32,
        /// Blocks of a sweep.
        #[serde(default = "default_blocks")]
        blocks: u32,
        /// CPU time of a rank for one block.
        #[serde(with = "crate::scenario::written_time")]
        block_time: Duration,
        /// Length of a message to a neighbour.
        #[serde(default = "default_message_bytes")]
        message_bytes: u64,
    },
    /// Compute, then a barrier, again and again.
    #[serde(rename_all = "kebab-case")]
    BulkSynchronous {
        /// How often.
        iterations: u32,
        /// CPU time between two barriers.
        #[serde(with = "crate::scenario::written_time")]
        compute: Duration,
        /// The work of the heavy half of the ranks, in percent of `compute`.
        #[serde(default = "balanced")]
        imbalance_percent: u32,
        /// Which half that is.
        #[serde(default)]
        heavy: Heavy,
        /// Time of the last rank for its work, in hundredths of the first rank's time. The times of
        /// the ranks in between grow in proportion.
        #[serde(default = "balanced")]
        heterogeneity_percent: u32,
    },
    /// Pairs of ranks send one message back and forth.
    #[serde(rename_all = "kebab-case")]
    PingPong {
        /// How often.
        iterations: u32,
        /// Length of the message.
        message_bytes: u64,
    },
}

/// The half of the ranks that has more work than the other half, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Heavy {
    /// The first.
    #[default]
    Lower,
    /// The second.
    Upper,
}

impl Heavy {
    fn has(self, rank: Rank, size: u32) -> bool {
        match self {
            Heavy::Lower => rank.0 < size / 2,
            Heavy::Upper => rank.0 >= size - size / 2,
        }
    }
}

impl Application {
    /// Supersteps of equal work for all.
    pub fn bulk_synchronous(iterations: u32, compute: Duration) -> Application {
        Application::BulkSynchronous {
            iterations,
            compute,
            imbalance_percent: BALANCED_PERCENT,
            heavy: Heavy::default(),
            heterogeneity_percent: BALANCED_PERCENT,
        }
    }

    pub(crate) fn script(&self, context: &RankContext<'_>) -> Script {
        match self {
            Application::Compute { time } if time.is_zero() => Script::of(Vec::new()),
            Application::Compute { time } => Script::compute(*time),
            Application::Wavefront { iterations, blocks, block_time, message_bytes } => {
                let grid = Grid::of(context.size);
                let sweep =
                    |forth| grid.sweep(context.rank, forth, *blocks, *block_time, *message_bytes);
                repeat(*iterations, vec![sweep(true), sweep(false)])
            }
            Application::BulkSynchronous {
                iterations,
                compute,
                imbalance_percent,
                heavy,
                heterogeneity_percent,
            } => {
                let heavy = heavy.has(context.rank, context.size);
                let percent = if heavy { *imbalance_percent } else { BALANCED_PERCENT };
                let compute = compute.saturating_mul(percent) / BALANCED_PERCENT;
                let compute = slowed(compute, *heterogeneity_percent, context.rank, context.size);
                repeat(*iterations, vec![Step::Compute(compute), Step::Barrier])
            }
            Application::PingPong { iterations, message_bytes } => {
                repeat(*iterations, ping_pong(context.rank, context.size, *message_bytes))
            }
        }
    }

    /// CPU time of a rank that has no more work than the others.
    pub fn work(&self) -> Duration {
        match self {
            Application::Compute { time } => *time,
            Application::Wavefront { iterations, blocks, block_time, .. } => {
                block_time.saturating_mul(blocks.saturating_mul(2)).saturating_mul(*iterations)
            }
            Application::BulkSynchronous { iterations, compute, .. } => {
                compute.saturating_mul(*iterations)
            }
            Application::PingPong { .. } => Duration::ZERO,
        }
    }
}

/// The time of `rank` for `work`. The factor grows from rank to rank, up to `percent` at the last.
fn slowed(work: Duration, percent: u32, rank: Rank, size: u32) -> Duration {
    let (rank, last) = (u64::from(rank.0), u64::from(size.saturating_sub(1)).max(1));
    let more = u64::from(percent.saturating_sub(BALANCED_PERCENT)) * rank / last;
    work.saturating_add(work.saturating_mul(more as u32) / BALANCED_PERCENT)
}

fn repeat(times: u32, steps: Vec<Step>) -> Script {
    Script::of(vec![Step::Repeat { times, steps }])
}

/// The even rank of each pair begins. A rank without a partner does nothing.
fn ping_pong(rank: Rank, size: u32, bytes: u64) -> Vec<Step> {
    let partner = Rank(rank.0 ^ 1);
    if partner.0 >= size {
        return Vec::new();
    }
    let (send, receive) = (Step::Send { to: partner, bytes }, Step::Receive { from: partner });
    if rank.0.is_multiple_of(2) { vec![send, receive] } else { vec![receive, send] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_alternate_and_a_lone_rank_does_nothing() {
        let send = |to| Step::Send { to: Rank(to), bytes: 8 };
        let receive = |from| Step::Receive { from: Rank(from) };
        assert_eq!(ping_pong(Rank(0), 3, 8), [send(1), receive(1)]);
        assert_eq!(ping_pong(Rank(1), 3, 8), [receive(0), send(0)]);
        assert!(ping_pong(Rank(2), 3, 8).is_empty());
    }

    #[test]
    fn the_slowdown_grows_with_the_rank() {
        let ms = Duration::from_millis;
        let taken = |rank| slowed(ms(10), 300, Rank(rank), 5);
        assert_eq!([0, 1, 4].map(taken), [ms(10), ms(15), ms(30)]);
        assert_eq!(slowed(ms(10), 300, Rank(0), 1), ms(10));
        assert_eq!(slowed(ms(10), 100, Rank(3), 4), ms(10));
    }

    #[test]
    fn the_work_of_a_wavefront_is_that_of_all_its_blocks() {
        let application = Application::Wavefront {
            iterations: 3,
            blocks: 10,
            block_time: Duration::from_micros(50),
            message_bytes: 4096,
        };
        assert_eq!(application.work(), Duration::from_millis(3));
    }
}
