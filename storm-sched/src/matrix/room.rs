//! The room for a job in the matrix, and the shortage if there is none.

use crate::shape::{NodeRoom, Shape};
use crate::{JobRequest, Matrix, MatrixRow, NodeIndex, NodeState, Row, Shortage, Shortfall};

impl Matrix {
    /// The shortfall of an empty row of an empty machine for a job of that shape, on the nodes that
    /// take work now; `None` when the job fits.
    #[must_use]
    pub fn empty_row_shortfall(&self, shape: Shape<'_>) -> Option<Shortfall> {
        if let Shape::Pes(needed) = shape {
            return Shape::shortfall_of_pes(needed, self.machine.usable_pes());
        }
        shape.shortfall(self.up_nodes().map(|(_, node)| NodeRoom::whole(node)))
    }

    /// Does the same as [`Matrix::empty_row_shortfall`], and also counts the nodes that are
    /// expected back.
    #[must_use]
    pub fn expected_shortfall(&self, shape: Shape<'_>) -> Option<Shortfall> {
        if let Shape::Pes(needed) = shape {
            return Shape::shortfall_of_pes(needed, self.machine.expected_pes());
        }
        let expected = self.machine.nodes().iter().filter(|node| node.is_expected());
        shape.shortfall(expected.map(NodeRoom::whole))
    }

    /// The columns of a row, live or not, that no job holds and whose nodes are away.
    pub(crate) fn away_idle_pes(&self, number: Row) -> u32 {
        if !self.machine.has_away() {
            return 0;
        }
        let row = self.row_or_vacant(number);
        let idle = |node: &crate::Node| {
            let columns = node.columns();
            let range = columns.start as usize..columns.end as usize;
            node.pes() - row.map_or(0, |row| row.taken().count_ones(range)) as u32
        };
        self.machine.away().filter_map(|index| self.machine.node(index)).map(idle).sum()
    }

    /// The matrix as it will be when the nodes that are away are back.
    pub(crate) fn with_away_back(&self) -> Matrix {
        let mut back = self.clone();
        back.close_only(&[]);
        let away: Vec<NodeIndex> = back.machine.away().collect();
        for node in away {
            back.set_node_state(node, NodeState::Up);
        }
        back
    }

    /// The reason why a job could not start even if nothing ran: nodes that it may use take no
    /// work. `None` if it could start.
    #[must_use]
    pub fn unavailable(&self, request: &JobRequest) -> Option<Shortage> {
        let shortfall = self.empty_row_shortfall(Shape::of(request))?;
        Some(Shortage::unavailable(&self.machine, request, shortfall))
    }

    /// The shortfall of a new row for a job of that shape: [`Matrix::empty_row_shortfall`] with the
    /// memory that jobs of other rows hold.
    #[must_use]
    pub fn new_row_shortfall(&self, shape: Shape<'_>) -> Option<Shortfall> {
        if let Shape::Pes(_) = shape {
            return self.empty_row_shortfall(shape);
        }
        let room = |(index, node)| {
            let free_memory_bytes = self.memory.free_bytes(index, node);
            NodeRoom { free_memory_bytes, ..NodeRoom::whole(node) }
        };
        shape.shortfall(self.up_nodes().map(room))
    }

    /// The shortfall of a live row for a job of that shape; `None` when the job fits, or the row is
    /// not live.
    #[must_use]
    pub fn row_shortfall(&self, number: Row, shape: Shape<'_>) -> Option<Shortfall> {
        self.row(number).and_then(|row| self.shortfall_in(row, shape))
    }

    /// The shortfall of a row for a job of that shape; `None` when the job fits.
    pub(crate) fn shortfall_in(&self, row: &MatrixRow, shape: Shape<'_>) -> Option<Shortfall> {
        row.shortfall(&self.machine, &self.memory, shape)
    }

    /// Whether a job fits some row, or a new one.
    #[must_use]
    pub fn has_room(&self, request: &JobRequest) -> bool {
        let shape = Shape::of(request);
        let new_row = self.vacant_row().is_some() && self.new_row_shortfall(shape).is_none();
        new_row || self.live.rows().any(|number| self.row_shortfall(number, shape).is_none())
    }

    /// The most columns that are free in any row, a new one included.
    #[must_use]
    pub fn widest_room_pes(&self) -> u32 {
        let new_row = self.vacant_row().map(|_| self.machine.usable_pes());
        self.rows().map(MatrixRow::free_pes).chain(new_row).max().unwrap_or(0)
    }

    /// The number of columns that a job would hold in a row if it were placed there now; `None` if
    /// it does not fit.
    #[must_use]
    pub fn would_hold(&self, request: &JobRequest, number: Row) -> Option<u32> {
        let vacant;
        let row = match self.row(number) {
            Some(row) => row,
            None => {
                vacant = MatrixRow::new(number, &self.machine);
                &vacant
            }
        };
        let chosen = row.choose_on_nodes(&self.machine, &self.memory, request)?;
        Some(chosen.columns.len())
    }

    fn up_nodes(&self) -> impl Iterator<Item = (NodeIndex, &crate::Node)> {
        let nodes = (0..).map(NodeIndex).zip(self.machine.nodes());
        nodes.filter(|(_, node)| node.state() == NodeState::Up)
    }
}
