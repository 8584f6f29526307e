//! The parts of the processes: the grid cut into columns over a two-dimensional grid of processes.

use std::ops::Range;

/// The grid of processes: `npe_i` x `npe_j` = all ranks, i running fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessGrid {
    /// Processes along i.
    pub npe_i: usize,
    /// Processes along j.
    pub npe_j: usize,
}

/// One process's part: a column of all k over these cells. With more processes than cells, a column
/// may be empty along i or j; its process only passes on what it receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Place along i in the process grid.
    pub pe_i: usize,
    /// Place along j in the process grid.
    pub pe_j: usize,
    /// Cells along i.
    pub i: Range<usize>,
    /// Cells along j.
    pub j: Range<usize>,
}

impl ProcessGrid {
    /// The factorisation of `ranks` with the least to exchange per cell: the smallest sum of a
    /// column's sides, where a side of less than a cell counts as waste.
    pub fn choose(ranks: usize, cells_i: usize, cells_j: usize) -> Self {
        let cost = |npe: usize, cells: usize| {
            let side = cells.div_ceil(npe) as f64;
            side + npe as f64 * side - cells as f64
        };
        let mut best = ProcessGrid { npe_i: 1, npe_j: ranks };
        let mut best_cost = f64::INFINITY;
        for npe_i in (1..=ranks).filter(|npe_i| ranks.is_multiple_of(*npe_i)) {
            let npe_j = ranks / npe_i;
            let sum = cost(npe_i, cells_i) + cost(npe_j, cells_j);
            if sum < best_cost {
                (best, best_cost) = (ProcessGrid { npe_i, npe_j }, sum);
            }
        }
        best
    }

    /// All ranks.
    pub fn ranks(&self) -> usize {
        self.npe_i * self.npe_j
    }

    /// The rank at a place of the process grid.
    pub fn rank_at(&self, pe_i: usize, pe_j: usize) -> usize {
        pe_j * self.npe_i + pe_i
    }

    /// The part of a rank.
    pub fn column(&self, rank: usize, cells_i: usize, cells_j: usize) -> Column {
        let (pe_i, pe_j) = (rank % self.npe_i, rank / self.npe_i);
        let (i, j) = (part(cells_i, self.npe_i, pe_i), part(cells_j, self.npe_j, pe_j));
        Column { pe_i, pe_j, i, j }
    }
}

/// The `index`-th of `parts` parts of `n` cells. Their sizes differ by one at most.
fn part(n: usize, parts: usize, index: usize) -> Range<usize> {
    index * n / parts..(index + 1) * n / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_near_square_where_they_can_be() {
        let grid = |ranks| {
            let g = ProcessGrid::choose(ranks, 64, 64);
            (g.npe_i, g.npe_j)
        };
        assert_eq!(grid(256), (16, 16));
        assert_eq!(grid(16), (4, 4));
        assert_eq!(grid(1), (1, 1));
        assert!([(2, 3), (3, 2)].contains(&grid(6)));
        assert!([(1, 251), (251, 1)].contains(&grid(251)));
    }

    #[test]
    fn columns_cover_every_cell_once() {
        for ranks in 1..40 {
            for (it, jt) in [(7, 5), (64, 64), (3, 50)] {
                let grid = ProcessGrid::choose(ranks, it, jt);
                let mut seen = vec![0; it * jt];
                for rank in 0..ranks {
                    let column = grid.column(rank, it, jt);
                    assert_eq!(grid.rank_at(column.pe_i, column.pe_j), rank);
                    for j in column.j.clone() {
                        for i in column.i.clone() {
                            seen[j * it + i] += 1;
                        }
                    }
                }
                assert!(seen.iter().all(|&n| n == 1));
            }
        }
    }
}
