//! One row of the Ousterhout matrix: the columns that are taken in it, and the choice of columns
//! for a job.
//!
//! A column is *taken* if a job of this row holds it, and *busy* if a rank of such a job runs on
//! it. Columns left over from rounding up to a power of two are taken but not busy. Guests are jobs
//! of other rows that also run here. They need columns that are not busy, and make them neither
//! busy nor taken.
//!
//! Holes: a column whose node takes no work is free in no row.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;

use crate::buddy_tree::Side;
use crate::guests::Guests;
use crate::memory_account::MemoryAccount;
use crate::shape::{Dealing, NodeRoom, Shape};
use crate::{
    BuddyTree, ColumnSet, Fit, JobId, JobRequest, Machine, NodeIndex, NodeState, Pe, Row, Shortfall,
};

/// A row with its columns.
#[derive(Debug, Clone)]
pub struct MatrixRow {
    number: Row,
    taken: FixedBitSet,
    busy: FixedBitSet,
    buddy: BuddyTree,
    /// Columns that no job holds and that no job may get. They count as taken.
    withheld: FixedBitSet,
    jobs: BTreeSet<JobId>,
    pub(crate) guests: Guests,
}

impl MatrixRow {
    pub(crate) fn new(number: Row, machine: &Machine) -> Self {
        let mut buddy = BuddyTree::new(machine.pes());
        for node in machine.nodes().iter().filter(|node| node.state() == NodeState::Up) {
            buddy.set(node.columns(), true);
        }
        let taken = FixedBitSet::with_capacity(machine.pes() as usize);
        let (busy, withheld) = (taken.clone(), taken.clone());
        let (jobs, guests) = (BTreeSet::new(), Guests::default());
        Self { number, taken, busy, buddy, withheld, jobs, guests }
    }

    /// The number of this row.
    #[must_use]
    pub fn number(&self) -> Row {
        self.number
    }

    /// The jobs that hold columns here.
    #[must_use]
    pub fn jobs(&self) -> &BTreeSet<JobId> {
        &self.jobs
    }

    /// Whether the row has any job. A row that is not live is deleted.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// The columns that jobs hold.
    #[must_use]
    pub fn taken(&self) -> &FixedBitSet {
        &self.taken
    }

    /// The columns on which ranks of this row's jobs run.
    #[must_use]
    pub fn busy(&self) -> &FixedBitSet {
        &self.busy
    }

    /// Whether none of these columns is busy.
    #[must_use]
    pub fn is_idle(&self, columns: &ColumnSet) -> bool {
        let busy = |range: &std::ops::Range<u32>| {
            self.busy.contains_any_in_range(range.start as usize..range.end as usize)
        };
        !columns.ranges().iter().any(busy)
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

    /// Whether a job could get all columns of an aligned block of a power of two.
    #[must_use]
    pub fn is_block_free(&self, block: std::ops::Range<u32>) -> bool {
        self.buddy.is_block_free(block)
    }

    /// The shortfall of this row for a job of that shape; `None` when the job fits.
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

    /// Chooses and takes columns for a job. Returns `None` and takes nothing when the job does not
    /// fit.
    pub(crate) fn place(
        &mut self,
        machine: &Machine,
        memory: &MemoryAccount,
        job: JobId,
        shape: Shape<'_>,
        fit: Fit,
    ) -> Option<Chosen> {
        // Pieces are taken one after the other, because each depends on the previous ones.
        let is_taken = matches!((shape, fit), (Shape::Pes(_), Fit::Pieces | Fit::Exact));
        let columns = match (shape, fit) {
            (Shape::Pes(procs), Fit::Block) => vec![self.buddy.find_block(procs)?],
            (Shape::Pes(procs), Fit::Pieces) => self.buddy.take_pieces(procs, false)?,
            (Shape::Pes(procs), Fit::Exact) => self.buddy.take_pieces(procs, true)?,
            (Shape::Pes(procs), Fit::Left) => self.buddy.outermost(procs, Side::Left)?,
            (Shape::Pes(procs), Fit::Right) => self.buddy.outermost(procs, Side::Right)?,
            (Shape::OnNodes(request), _) => {
                let chosen = self.choose_on_nodes(machine, memory, request)?;
                self.hold(job, &chosen.columns, &chosen.busy);
                return Some(chosen);
            }
        };
        let columns = ColumnSet::from_ranges(columns);
        let busy = shape.busy(&columns);
        if is_taken {
            self.mark(job, &columns, &busy);
        } else {
            self.hold(job, &columns, &busy);
        }
        Some(Chosen { columns, busy, ranks: None })
    }

    /// Takes exactly these columns for a job, which keeps the columns `busy` busy. No other job may
    /// hold them.
    pub(crate) fn hold(&mut self, job: JobId, columns: &ColumnSet, busy: &ColumnSet) {
        for range in columns.ranges() {
            self.buddy.set(range.clone(), false);
        }
        self.mark(job, columns, busy);
    }

    /// Records the holder of these columns, which are not free any more.
    fn mark(&mut self, job: JobId, columns: &ColumnSet, busy: &ColumnSet) {
        for range in columns.ranges() {
            self.taken.insert_range(range.start as usize..range.end as usize);
        }
        for range in busy.ranges() {
            self.busy.insert_range(range.start as usize..range.end as usize);
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
            self.busy.remove_range(range.start as usize..range.end as usize);
            if !holes {
                self.buddy.set(range.clone(), true);
                continue;
            }
            for column in range.clone() {
                self.buddy.set(column..column + 1, machine.is_usable(crate::Pe(column)));
            }
        }
    }

    /// Makes the columns of a node holes, or makes those free that no job holds.
    pub(crate) fn set_node(&mut self, columns: std::ops::Range<u32>, usable: bool) {
        for column in columns {
            let free = usable && !self.taken.contains(column as usize);
            self.buddy.set(column..column + 1, free);
        }
    }

    /// The columns that are kept from all jobs.
    pub(crate) fn withheld(&self) -> &FixedBitSet {
        &self.withheld
    }

    /// Withholds the free ones among these columns from all jobs, and no others.
    pub(crate) fn withhold(&mut self, machine: &Machine, columns: &[ColumnSet]) {
        for column in std::mem::take(&mut self.withheld).ones() {
            self.taken.set(column, false);
            let column = column as u32;
            self.buddy.set(column..column + 1, machine.is_usable(Pe(column)));
        }
        self.withheld = FixedBitSet::with_capacity(self.taken.len());
        for pe in columns.iter().flat_map(ColumnSet::columns) {
            if !self.taken.contains(pe.0 as usize) {
                self.taken.insert(pe.0 as usize);
                self.withheld.insert(pe.0 as usize);
                self.buddy.set(pe.0..pe.0 + 1, false);
            }
        }
    }

    /// The nodes that take work, in order, with the room that they have left.
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

    /// Distributes the processes of a job over the first nodes with room.
    pub(crate) fn choose_on_nodes(
        &self,
        machine: &Machine,
        memory: &MemoryAccount,
        request: &JobRequest,
    ) -> Option<Chosen> {
        let dealing = Dealing::of(request);
        let (mut columns, mut ranks) = (ColumnSet::new(), Vec::new());
        let dealt = match request.required_nodes() {
            0 => self.deal(dealing, machine, memory, request)?,
            needed => {
                let rooms: Vec<NodeRoom<'_>> = self.rooms(machine, memory).collect();
                let of_each =
                    |room: &NodeRoom<'_>| (room.procs_of(request), request.requires(room.node));
                let room_of: Vec<_> = rooms.iter().map(of_each).collect();
                let here = room_of.iter().filter(|(_, required)| *required).count() as u32;
                let dealt = Some(()).filter(|()| here == needed);
                let dealt = dealt.and_then(|()| dealing.deal_all(&room_of))?;
                rooms.into_iter().zip(dealt).collect()
            }
        };
        for (room, procs) in dealt {
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
        let busy = columns.clone();
        Some(Chosen { columns, busy, ranks: Some(ranks) })
    }

    /// The processes of each node, for a job that requires no nodes by name.
    fn deal<'a>(
        &'a self,
        mut dealing: Dealing,
        machine: &'a Machine,
        memory: &'a MemoryAccount,
        request: &JobRequest,
    ) -> Option<Vec<(NodeRoom<'a>, u32)>> {
        let mut dealt = Vec::new();
        for room in self.rooms(machine, memory) {
            if dealing.is_done() {
                break;
            }
            let procs = dealing.deal(room.procs_of(request));
            if procs > 0 {
                dealt.push((room, procs));
            }
        }
        dealing.is_done().then_some(dealt)
    }
}

/// The columns chosen for a job.
pub(crate) struct Chosen {
    /// All columns that the job holds.
    pub(crate) columns: ColumnSet,
    /// The columns that the job keeps busy.
    pub(crate) busy: ColumnSet,
    /// The columns of its ranks. If absent, they are the first `procs` columns.
    pub(crate) ranks: Option<Vec<Pe>>,
}
