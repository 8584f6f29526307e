//! The active row of each partition, as far as this node knows it. Strobes name the row. For a node
//! that got no strobe, launches and the answer to a join also name it. This type knows no jobs.

use std::collections::BTreeMap;
use storm_rm::message::Strobe;
use storm_rm::{PartitionId, Row};

/// The active rows.
#[derive(Debug, Default)]
pub(super) struct ActiveRows(BTreeMap<PartitionId, ActiveRow>);

#[derive(Clone, Copy, Debug)]
struct ActiveRow {
    row: Row,
    /// The row that runs here instead, which has work while the ranks of `row` wait.
    yields_to: Option<Row>,
    /// Number of the last strobe.
    strobe: u64,
    /// Whether the last strobe ordered further slices. Until the next strobe, this node then knows
    /// the active row better than the sender of a launch.
    follows: bool,
}

impl ActiveRow {
    /// A row that was made active without a strobe.
    fn of(row: Row) -> ActiveRow {
        ActiveRow { row, yields_to: None, strobe: 0, follows: false }
    }
}

impl ActiveRows {
    /// The row whose jobs run here now; `None` if no row of the partition was named yet.
    pub(super) fn running(&self, partition: PartitionId) -> Option<Row> {
        self.0.get(&partition).map(|active| active.yields_to.unwrap_or(active.row))
    }

    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        self.0.keys().copied().collect::<Vec<_>>().into_iter()
    }

    /// Whether a launch that names this row would make another row active.
    pub(super) fn is_changed_by_launch(&self, partition: PartitionId, row: Row) -> bool {
        let active = self.0.get(&partition);
        active.is_some_and(|active| !active.follows && active.row != row)
    }

    /// A launch names the active row. Returns whether another row was active: a strobe did not
    /// concern this node, which had no job of the partition.
    pub(super) fn launch_names(&mut self, partition: PartitionId, row: Row) -> bool {
        let is_changed = self.is_changed_by_launch(partition, row);
        let active = self.0.entry(partition).or_insert(ActiveRow::of(row));
        if is_changed {
            active.row = row;
        }
        is_changed
    }

    /// The answer to a join names the active row.
    pub(super) fn answer_names(&mut self, partition: PartitionId, row: Row) {
        let active = self.0.entry(partition).or_insert(ActiveRow::of(row));
        if !active.follows {
            active.row = row;
        }
    }

    /// A strobe makes a row active, and orders further slices if it `follows`. Returns whether the
    /// strobe before ordered any; `None` if the strobe is past.
    pub(super) fn strobe(&mut self, strobe: &Strobe, follows: bool) -> Option<bool> {
        let Strobe { partition, row, number, .. } = *strobe;
        let active = self.0.entry(partition).or_insert(ActiveRow::of(row));
        if number <= active.strobe {
            tracing::warn!(number, newest = active.strobe, "a strobe that is past was ignored");
            return None;
        }
        let followed = active.follows;
        *active = ActiveRow { row, yields_to: None, strobe: number, follows };
        Some(followed)
    }

    /// Begins a slice that an earlier strobe ordered. Returns false if the slice is past: a newer
    /// order may have arrived in the same instant.
    pub(super) fn begin_slice(&mut self, strobe: &Strobe) -> bool {
        let active = self.0.get_mut(&strobe.partition);
        let Some(active) = active.filter(|it| it.follows && it.strobe < strobe.number) else {
            return false;
        };
        (active.row, active.yields_to, active.strobe) = (strobe.row, None, strobe.number);
        true
    }

    /// Lets the active row yield to the row that `choose` names, given the active row and the row
    /// that runs in its place. Returns whether the row that runs here has changed.
    pub(super) fn take_turn(
        &mut self,
        partition: PartitionId,
        choose: impl FnOnce(Row, Option<Row>) -> Option<Row>,
    ) -> bool {
        let Some(active) = self.0.get_mut(&partition) else { return false };
        let chosen = choose(active.row, active.yields_to);
        std::mem::replace(&mut active.yields_to, chosen) != chosen
    }

    /// Forgets strobes and ordered slices, since the next Machine Manager counts anew. Returns the
    /// partitions whose slices were ordered.
    pub(super) fn forget_strobes(&mut self) -> Vec<PartitionId> {
        let followed = self.0.iter().filter(|(_, active)| active.follows);
        let followed = followed.map(|(partition, _)| *partition).collect();
        self.0.values_mut().for_each(|active| *active = ActiveRow::of(active.row));
        followed
    }
}
