//! Packing schemes: the choice of a job's row of the Ousterhout matrix, and of its columns there
//! (A3 of the policy reference; D. G. Feitelson, "Packing Schemes for Gang Scheduling", JSSPP
//! 1996, the paper's reference \[5\]).
//!
//! Each scheme is one file behind [`Scheme`]. No scheme moves a running job;
//! [`crate::Matrix::repack`] does. Under every scheme, a job that asks for a number of nodes gets
//! the first nodes with room, in the first row that has them.

mod best_fit;
mod buddy;
mod first_fit;
mod least_loaded;
mod left_right;

use serde::{Deserialize, Serialize};

pub use best_fit::BestFit;
pub use buddy::Buddy;
pub use first_fit::FirstFit;
pub use least_loaded::LeastLoaded;
pub use left_right::LeftRight;

use crate::{ColumnSet, Fit, JobRequest, Matrix, Placement, Row};

/// A way of packing jobs into the matrix.
pub trait Scheme: Sync {
    /// Places a job in one of these rows, live or not, in the order of their numbers. Returns
    /// `None` and changes nothing only if none of them has room.
    fn place(
        &self,
        matrix: &mut Matrix,
        request: &JobRequest,
        rows: &[Row],
    ) -> Option<(Row, Placement)>;

    /// The most columns that a job of `procs` processes may hold.
    fn most_columns(&self, procs: u32) -> u32 {
        procs
    }
}

/// The packing schemes by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Packing {
    /// [`Buddy`], the default: the paper's scheme, and with alternative scheduling the best of
    /// those that move no job.
    #[default]
    Buddy,
    /// [`FirstFit`].
    FirstFit,
    /// [`BestFit`].
    BestFit,
    /// [`LeftRight`].
    LeftRight,
    /// [`LeastLoaded`].
    LeastLoaded,
}

impl Packing {
    /// Every scheme.
    pub const ALL: [Self; 5] =
        [Self::Buddy, Self::FirstFit, Self::BestFit, Self::LeftRight, Self::LeastLoaded];

    /// The scheme of this name.
    #[must_use]
    pub fn scheme(self) -> &'static dyn Scheme {
        match self {
            Self::Buddy => &Buddy,
            Self::FirstFit => &FirstFit,
            Self::BestFit => &BestFit,
            Self::LeftRight => &LeftRight,
            Self::LeastLoaded => &LeastLoaded,
        }
    }
}

/// The first of these rows with room for a job.
fn first_row(
    matrix: &mut Matrix,
    request: &JobRequest,
    rows: impl IntoIterator<Item = Row>,
    fit: Fit,
) -> Option<(Row, Placement)> {
    rows.into_iter().find_map(|row| Some((row, matrix.place(request, row, fit)?)))
}

/// For each PE, the jobs of all rows that are mapped to it.
fn loads(matrix: &Matrix) -> Vec<u32> {
    // First the changes of the load along the columns, then their running sum.
    let mut changes = vec![0i64; matrix.machine().pes() as usize + 1];
    for job in matrix.jobs() {
        for range in matrix.columns(job).map_or(&[][..], ColumnSet::ranges) {
            changes[range.start as usize] += 1;
            changes[range.end as usize] -= 1;
        }
    }
    let running = changes.iter().scan(0i64, |load, change| {
        *load += change;
        Some(*load as u32)
    });
    running.take(matrix.machine().pes() as usize).collect()
}
