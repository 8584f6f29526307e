//! A set of columns as ascending ranges: the columns that a job holds in its rows.
//!
//! A buddy block is one range, of any size. Taking and giving back a block therefore costs nothing
//! per column.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::Pe;

/// Columns as ascending, disjoint ranges that do not touch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ColumnSet {
    ranges: Vec<Range<u32>>,
}

impl ColumnSet {
    /// Returns the empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Returns the set of these disjoint ranges, in any order.
    #[must_use]
    pub fn from_ranges(mut ranges: Vec<Range<u32>>) -> Self {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, last| {
            let touch = last.end == next.start;
            if touch {
                last.end = next.end;
            }
            touch
        });
        Self { ranges }
    }

    /// Adds columns that all lie after the present ones.
    pub fn push(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
    }

    /// The ranges, ascending.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u32>] {
        &self.ranges
    }

    /// The columns, ascending.
    pub fn columns(&self) -> impl Iterator<Item = Pe> + '_ {
        self.ranges.iter().cloned().flatten().map(Pe)
    }

    /// Whether the two sets have a column in common.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let apart = |ours: &Range<u32>, theirs: &Range<u32>| {
            ours.end <= theirs.start || theirs.end <= ours.start
        };
        self.ranges.iter().any(|ours| other.ranges.iter().any(|theirs| !apart(ours, theirs)))
    }

    /// The first `columns` columns, or all when there are fewer.
    #[must_use]
    pub fn first(&self, columns: u32) -> Self {
        let mut first = Self { ranges: Vec::with_capacity(self.ranges.len()) };
        let mut left = columns;
        for range in &self.ranges {
            let end = range.end.min(range.start.saturating_add(left));
            left -= end - range.start;
            first.push(range.start..end);
        }
        first
    }

    /// The number of columns.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}
