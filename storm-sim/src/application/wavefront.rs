//! The grid of ranks of a wavefront, and one sweep over it.

use std::time::Duration;
use storm_nm::modelled::Step;
use storm_rm::Rank;

/// Ranks in rows and columns, as square as their number allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    columns: u32,
    rows: u32,
}

impl Grid {
    pub(super) fn of(ranks: u32) -> Grid {
        let ranks = ranks.max(1);
        let columns = (1..=ranks.isqrt()).rev().find(|width| ranks.is_multiple_of(*width));
        let columns = columns.unwrap_or(1);
        Grid { columns, rows: ranks / columns }
    }

    /// One sweep, from the first rank's corner or back to it. For each block, a rank waits for the
    /// ranks before it, computes, and sends to the ranks behind it.
    pub(super) fn sweep(
        self,
        rank: Rank,
        forth: bool,
        blocks: u32,
        block_time: Duration,
        bytes: u64,
    ) -> Step {
        let (column, row) = (rank.0 % self.columns, rank.0 / self.columns);
        let west = (column > 0).then(|| Rank(rank.0 - 1));
        let north = (row > 0).then(|| Rank(rank.0 - self.columns));
        let east = (column + 1 < self.columns).then(|| Rank(rank.0 + 1));
        let south = (row + 1 < self.rows).then(|| Rank(rank.0 + self.columns));
        let (before, behind) =
            if forth { ([west, north], [east, south]) } else { ([east, south], [west, north]) };
        let receive = before.into_iter().flatten().map(|from| Step::Receive { from });
        let send = behind.into_iter().flatten().map(|to| Step::Send { to, bytes });
        let steps = receive.chain([Step::Compute(block_time)]).chain(send).collect();
        Step::Repeat { times: blocks, steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_as_square_as_they_can_be() {
        for (ranks, columns, rows) in [(64, 8, 8), (12, 3, 4), (7, 1, 7), (1, 1, 1), (0, 1, 1)] {
            assert_eq!(Grid::of(ranks), Grid { columns, rows });
        }
    }

    #[test]
    fn every_message_that_is_sent_is_received() {
        let grid = Grid::of(12);
        let ends = |forth: bool, wanted: fn(&Step) -> Option<Rank>| {
            let mut pairs = Vec::new();
            for rank in (0..12).map(Rank) {
                let Step::Repeat { steps, .. } = grid.sweep(rank, forth, 1, Duration::ZERO, 8)
                else {
                    panic!("a sweep repeats");
                };
                pairs.extend(steps.iter().filter_map(wanted).map(|other| (rank, other)));
            }
            pairs
        };
        for forth in [true, false] {
            let sent = ends(forth, |step| match step {
                Step::Send { to, .. } => Some(*to),
                _ => None,
            });
            let mut received: Vec<_> = ends(forth, |step| match step {
                Step::Receive { from } => Some(*from),
                _ => None,
            })
            .into_iter()
            .map(|(at, from)| (from, at))
            .collect();
            received.sort_unstable();
            let mut sent = sent;
            sent.sort_unstable();
            assert_eq!(sent, received);
        }
    }
}
