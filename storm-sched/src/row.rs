//! One row of the Ousterhout matrix: which columns are taken in a time slot,
//! and the choice of columns for a job.
//!
//! Holes: a column whose node takes no work is free in no row.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;

use crate::matrix::Fit;
use crate::memory_account::MemoryAccount;
use crate::shape::{Dealing, NodeRoom, Shape};
use crate::{
    BuddyTree, ColumnSet, JobId, JobRequest, Machine, NodeIndex, NodeState, Pe, Shortfall, Slot,
};

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
    pub fn shortfall(
        &self,
        machine: &Machine,
        memory: &MemoryAccount,
        shape: Shape<'_>,
    ) -> Option<Shortfall> {
        match shape {
            Shape::Pes(needed) => Shape::shortfall_of_pes(needed, self.free_pes()),
            Shape::OnNodes(_) => shape.shortfall(self.rooms(machine, memory)),
        }
    }

    /// Chooses and takes columns for a job; `None`, and nothing is taken, when
    /// it does not fit.
    pub(crate) fn place(
        &mut self,
        machine: &Machine,
        memory: &MemoryAccount,
        job: JobId,
        shape: Shape<'_>,
        fit: Fit,
    ) -> Option<Chosen> {
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
            (Shape::OnNodes(request), _) => {
                let chosen = self.choose_on_nodes(machine, memory, request)?;
                self.hold(job, &chosen.columns);
                return Some(chosen);
            }
        };
        self.hold(job, &columns);
        Some(Chosen { columns, ranks: None })
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

    /// The nodes that take work, in order, with what they have left.
    fn rooms<'a>(
        &'a self,
        machine: &'a Machine,
        memory: &'a MemoryAccount,
    ) -> impl Iterator<Item = NodeRoom<'a>> + 'a {
        let up = (0..).map(NodeIndex).zip(machine.nodes());
        up.filter(|(_, node)| node.state() == NodeState::Up).map(|(index, node)| {
            let columns = node.columns();
            let taken = self.taken.count_ones(columns.start as usize..columns.end as usize);
            let free_pes = node.pes() - taken as u32;
            NodeRoom { node, free_pes, free_memory_bytes: memory.free_bytes(index, node) }
        })
    }

    /// Deals the processes of a job out over the first nodes with room.
    pub(crate) fn choose_on_nodes(
        &self,
        machine: &Machine,
        memory: &MemoryAccount,
        request: &JobRequest,
    ) -> Option<Chosen> {
        let mut dealing = Dealing::of(request);
        let (mut columns, mut ranks) = (ColumnSet::new(), Vec::new());
        for room in self.rooms(machine, memory) {
            if dealing.is_done() {
                break;
            }
            let procs = dealing.deal(room.procs_of(request));
            let free = room.node.columns().filter(|&column| !self.taken.contains(column as usize));
            let own = free.take((procs * request.pes_per_proc) as usize);
            if request.exclusive && procs > 0 {
                ranks.extend(own.map(Pe));
                columns.push(room.node.columns());
                continue;
            }
            for column in own {
                ranks.push(Pe(column));
                columns.push(column..column + 1);
            }
        }
        dealing.is_done().then_some(Chosen { columns, ranks: Some(ranks) })
    }
}

/// Columns chosen for a job.
pub(crate) struct Chosen {
    /// All that it holds.
    pub(crate) columns: ColumnSet,
    /// Those of its ranks; the first `procs` of its columns when absent.
    pub(crate) ranks: Option<Vec<Pe>>,
}
