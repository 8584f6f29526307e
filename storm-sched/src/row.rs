//! One row of the Ousterhout matrix: which columns are taken in a time slot,
//! and the choice of columns for a job.
//!
//! Holes: a column whose node takes no work is free in no row.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;

use crate::matrix::Fit;
use crate::shape::Shape;
use crate::{BuddyTree, ColumnSet, JobId, Machine, NodeState, Shortfall, Slot};

/// A time slot with its columns.
#[derive(Debug, Clone)]
pub struct Row {
    slot: Slot,
    taken: FixedBitSet,
    buddy: BuddyTree,
    jobs: BTreeSet<JobId>,
}

impl Row {
    pub(crate) fn new(slot: Slot, machine: &Machine) -> Self {
        let mut buddy = BuddyTree::new(machine.pes());
        for node in machine.nodes().iter().filter(|node| node.state() == NodeState::Up) {
            buddy.set(node.columns(), true);
        }
        let taken = FixedBitSet::with_capacity(machine.pes() as usize);
        Self { slot, taken, buddy, jobs: BTreeSet::new() }
    }

    /// The slot of this row.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The jobs that hold columns here.
    #[must_use]
    pub fn jobs(&self) -> &BTreeSet<JobId> {
        &self.jobs
    }

    /// Whether any job lives here; a row that is not live is deleted.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// The columns that jobs hold.
    #[must_use]
    pub fn taken(&self) -> &FixedBitSet {
        &self.taken
    }

    /// The number of columns that a job could get.
    #[must_use]
    pub fn free_pes(&self) -> u32 {
        self.buddy.free()
    }

    /// Whether a job could get this column.
    #[must_use]
    pub fn is_free(&self, column: u32) -> bool {
        self.buddy.is_free(column)
    }

    /// What this row lacks for a job of that shape; `None` when it fits.
    #[must_use]
    pub fn shortfall(&self, machine: &Machine, shape: Shape) -> Option<Shortfall> {
        match shape {
            Shape::Pes(_) => shape.shortfall(std::iter::once(self.free_pes())),
            Shape::Spread { .. } => shape.shortfall(self.rooms(machine).map(|room| room.free)),
        }
    }

    /// Chooses and takes columns for a job; `None`, and nothing is taken, when
    /// it does not fit. The first `procs` columns are those of its ranks.
    pub(crate) fn place(
        &mut self,
        machine: &Machine,
        job: JobId,
        shape: Shape,
        fit: Fit,
    ) -> Option<ColumnSet> {
        let columns = match (shape, fit) {
            (Shape::Pes(procs), Fit::Block) => {
                let block = self.buddy.find_block(procs)?;
                self.buddy.set(block.clone(), false);
                ColumnSet::from_ranges(vec![block])
            }
            (Shape::Pes(procs), Fit::Pieces) => {
                ColumnSet::from_ranges(self.buddy.take_pieces(procs, false)?)
            }
            (Shape::Pes(procs), Fit::Exact) => {
                ColumnSet::from_ranges(self.buddy.take_pieces(procs, true)?)
            }
            (Shape::Spread { nodes, ranks, longer }, _) => {
                self.take_spread(machine, nodes, ranks, longer)?
            }
        };
        self.hold(job, &columns);
        Some(columns)
    }

    /// Takes exactly these columns, which nobody holds, for a job.
    pub(crate) fn hold(&mut self, job: JobId, columns: &ColumnSet) {
        for range in columns.ranges() {
            self.taken.insert_range(range.start as usize..range.end as usize);
            self.buddy.set(range.clone(), false);
        }
        self.jobs.insert(job);
    }

    /// Gives back the columns of a job.
    pub(crate) fn release(
        &mut self,
        machine: &Machine,
        job: JobId,
        columns: &ColumnSet,
        holes: bool,
    ) {
        self.jobs.remove(&job);
        for range in columns.ranges() {
            self.taken.remove_range(range.start as usize..range.end as usize);
            if !holes {
                self.buddy.set(range.clone(), true);
                continue;
            }
            for column in range.clone() {
                self.buddy.set(column..column + 1, machine.is_usable(crate::Pe(column)));
            }
        }
    }

    /// Makes the columns of a node holes, or free as far as no job holds them.
    pub(crate) fn set_node(&mut self, columns: std::ops::Range<u32>, usable: bool) {
        for column in columns {
            let free = usable && !self.taken.contains(column as usize);
            self.buddy.set(column..column + 1, free);
        }
    }

    /// The nodes that take work, in order, with their free columns.
    fn rooms<'a>(&'a self, machine: &'a Machine) -> impl Iterator<Item = NodeRoom> + 'a {
        machine.nodes().iter().filter(|node| node.state() == NodeState::Up).map(|node| {
            let columns = node.columns();
            let taken = self.taken.count_ones(columns.start as usize..columns.end as usize);
            NodeRoom { free: node.pes() - taken as u32, columns }
        })
    }

    /// Takes blocks of ranks on exactly `nodes` nodes: the first nodes with
    /// room get them, and `longer` of those, the first that can, one more.
    fn take_spread(
        &mut self,
        machine: &Machine,
        nodes: u32,
        ranks: u32,
        mut longer: u32,
    ) -> Option<ColumnSet> {
        let mut shorter = nodes - longer;
        let mut columns = ColumnSet::new();
        for room in self.rooms(machine) {
            let take = if longer > 0 && room.free > ranks {
                longer -= 1;
                ranks + 1
            } else if shorter > 0 && room.free >= ranks {
                shorter -= 1;
                ranks
            } else {
                continue;
            };
            let free = room.columns.filter(|&column| !self.taken.contains(column as usize));
            for column in free.take(take as usize) {
                columns.push(column..column + 1);
            }
        }
        (longer == 0 && shorter == 0).then_some(columns)
    }
}

/// What a node has to give in a row.
struct NodeRoom {
    free: u32,
    columns: std::ops::Range<u32>,
}
