//! Exchanges between the processes of a sweep: faces with their neighbours, two numbers with all.

use crate::decomposition::{Column, ProcessGrid};
use std::convert::Infallible;
use storm_mpi::{CommError, Rank, ReduceOp, Tag, World};

/// A side of a column that another process may be at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Towards lower i.
    ILow,
    /// Towards higher i.
    IHigh,
    /// Towards lower j.
    JLow,
    /// Towards higher j.
    JHigh,
}

impl Side {
    /// The side of an axis (0 = i, 1 = j).
    pub fn of(axis: usize, high: bool) -> Side {
        match (axis, high) {
            (0, false) => Side::ILow,
            (0, true) => Side::IHigh,
            (_, false) => Side::JLow,
            (_, true) => Side::JHigh,
        }
    }
}

/// The exchanges that a sweep needs.
pub trait Exchange {
    /// Why an exchange may fail.
    type Error;

    /// Whether there is a process at this side. If not, the side is the boundary of the grid.
    fn has_neighbour(&self, side: Side) -> bool;

    /// Receives a face from the neighbour at that side.
    ///
    /// # Errors
    /// If the neighbour cannot be heard.
    fn receive(&mut self, side: Side, face: &mut [f64]) -> Result<(), Self::Error>;

    /// Sends a face to the neighbour at that side.
    ///
    /// # Errors
    /// If the neighbour cannot be reached.
    fn send(&mut self, side: Side, face: &[f64]) -> Result<(), Self::Error>;

    /// The largest `value` of all processes.
    ///
    /// # Errors
    /// If a process cannot be reached.
    fn max(&mut self, value: f64) -> Result<f64, Self::Error>;

    /// The sum of `value` over all processes.
    ///
    /// # Errors
    /// If a process cannot be reached.
    fn sum(&mut self, value: u64) -> Result<u64, Self::Error>;
}

/// One process alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Exchange for Alone {
    type Error = Infallible;

    fn has_neighbour(&self, _: Side) -> bool {
        false
    }

    fn receive(&mut self, _: Side, _: &mut [f64]) -> Result<(), Infallible> {
        Ok(())
    }

    fn send(&mut self, _: Side, _: &[f64]) -> Result<(), Infallible> {
        Ok(())
    }

    fn max(&mut self, value: f64) -> Result<f64, Infallible> {
        Ok(value)
    }

    fn sum(&mut self, value: u64) -> Result<u64, Infallible> {
        Ok(value)
    }
}

/// The ranks of a job, by storm-mpi.
pub struct Ranks<'w> {
    world: &'w World,
    grid: ProcessGrid,
    column: Column,
}

const FACE_I: Tag = Tag(1);
const FACE_J: Tag = Tag(2);

impl<'w> Ranks<'w> {
    /// This rank, with its column of the process grid.
    pub fn new(world: &'w World, grid: ProcessGrid, column: Column) -> Self {
        Ranks { world, grid, column }
    }

    fn neighbour(&self, side: Side) -> Option<(Rank, Tag)> {
        let (i, j) = (self.column.pe_i, self.column.pe_j);
        let (place, tag) = match side {
            Side::ILow => (i.checked_sub(1).map(|i| (i, j)), FACE_I),
            Side::IHigh => ((i + 1 < self.grid.npe_i).then_some((i + 1, j)), FACE_I),
            Side::JLow => (j.checked_sub(1).map(|j| (i, j)), FACE_J),
            Side::JHigh => ((j + 1 < self.grid.npe_j).then_some((i, j + 1)), FACE_J),
        };
        place.map(|(i, j)| (Rank::from_index(self.grid.rank_at(i, j)), tag))
    }
}

impl Exchange for Ranks<'_> {
    type Error = CommError;

    fn has_neighbour(&self, side: Side) -> bool {
        self.neighbour(side).is_some()
    }

    fn receive(&mut self, side: Side, face: &mut [f64]) -> Result<(), CommError> {
        match self.neighbour(side) {
            // A face without cells has the same length on both sides: nothing is sent.
            Some((from, tag)) if !face.is_empty() => self.world.recv(face, from, tag).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn send(&mut self, side: Side, face: &[f64]) -> Result<(), CommError> {
        match self.neighbour(side) {
            Some((to, tag)) if !face.is_empty() => self.world.send(face, to, tag),
            _ => Ok(()),
        }
    }

    fn max(&mut self, value: f64) -> Result<f64, CommError> {
        let mut largest = [0.0];
        self.world.allreduce(&[value], &mut largest, ReduceOp::Max)?;
        Ok(largest[0])
    }

    fn sum(&mut self, value: u64) -> Result<u64, CommError> {
        let mut sum = [0];
        self.world.allreduce(&[value], &mut sum, ReduceOp::Sum)?;
        Ok(sum[0])
    }
}
