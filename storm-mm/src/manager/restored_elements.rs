//! Finds elements for the jobs of a former manager: the elements that they had, or others of the
//! same nodes. No job moves to another node.

use super::partitions::Partition;
use crate::job::JobRecord;
use std::collections::{BTreeMap, BTreeSet};
use storm_primitives::NodeId;
use storm_rm::{PartitionId, Row};
use storm_sched::{Pe, Placement};

/// The elements that jobs have got back, by partition and row.
#[derive(Default)]
pub(super) struct RestoredElements {
    columns: BTreeMap<(PartitionId, Row), BTreeSet<u32>>,
}

impl RestoredElements {
    /// Finds the row and elements of a job in a partition, if the partition has room. `row` is the
    /// row that the job had.
    pub(super) fn place(
        &mut self,
        record: &JobRecord,
        (id, partition): (PartitionId, &Partition),
        row: Row,
        suspended: bool,
    ) -> Option<(Row, Placement)> {
        let in_row =
            |columns: &mut BTreeSet<u32>, row| Some((row, placement(record, partition, columns)?));
        if !suspended {
            return in_row(self.columns.entry((id, row)).or_default(), row);
        }
        if partition.policy().preempts() {
            // Other jobs have its elements.
            return in_row(&mut BTreeSet::new(), row);
        }
        // The former policy suspended jobs; under this policy each job has a row.
        let mut rows = (0..partition.rows_max()).map(Row);
        rows.find_map(|row| in_row(self.columns.entry((id, row)).or_default(), row))
    }
}

/// The elements of a job: columns of its nodes that are not `taken` in its row, and that are taken
/// from now on. A job's ranks may run on any elements of their node.
fn placement(
    record: &JobRecord,
    partition: &Partition,
    taken: &mut BTreeSet<u32>,
) -> Option<Placement> {
    let machine = partition.policy().machine();
    let asked = &record.spec.resources;
    let (mut columns, mut held) = (Vec::new(), Vec::new());
    for share in &record.ranks {
        let node = machine.node(partition.index_of(share.node)?)?;
        let wanted = share.count.saturating_mul(asked.cpus_per_task) as usize;
        let free = node.columns().filter(|column| !taken.contains(column));
        // The elements that the job had are first, if they still belong to its node and no job has
        // them.
        let had = |column: &u32| has_had(record, share.node, node.columns().start, *column);
        let (former, others): (Vec<u32>, Vec<u32>) = free.partition(had);
        let mut own: Vec<u32> = former.into_iter().chain(others).take(wanted).collect();
        own.sort_unstable();
        if own.len() < wanted {
            return None;
        }
        columns.extend(own);
        held.extend(node.columns().filter(|_| asked.exclusive));
    }
    // The order of nodes may differ from that of ranks.
    columns.sort_unstable();
    let pes = columns.iter().copied().map(Pe).collect();
    let placement = Placement::with_pes_per_proc(machine, pes, asked.cpus_per_task)?;
    taken.extend(columns.iter().chain(&held));
    Some(placement)
}

/// Whether a job had this column when it was placed; `first` is the first column of the node.
fn has_had(record: &JobRecord, node: NodeId, first: u32, column: u32) -> bool {
    let mut elements = record.elements.iter().flatten();
    elements.any(|(own, start, end)| {
        *own == node && (*start..*end).contains(&column.saturating_sub(first))
    })
}
