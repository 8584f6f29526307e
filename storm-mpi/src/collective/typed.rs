//! The collectives of the Rust API: slices of numbers over the world.

use super::reduction::deliver;
use super::{Combine, Span};
use crate::datatype::{Datatype, ReduceOp, Reducible};
use crate::error::CommError;
use crate::rank::Rank;
use crate::world::World;
use std::marker::PhantomData;

impl World {
    /// Returns when every rank has called it.
    ///
    /// # Errors
    /// [`CommError`], with [`crate::OnError::Return`].
    pub fn barrier(&self) -> Result<(), CommError> {
        self.checked(self.party().barrier())
    }

    /// Gives every rank the root's `data`.
    ///
    /// # Errors
    /// [`CommError`], with [`crate::OnError::Return`].
    pub fn bcast<T: Datatype>(&self, data: &mut [T], root: Rank) -> Result<(), CommError> {
        self.checked(self.party().bcast(bytes_of_mut(data), root.index()))
    }

    /// Combines `data` of all ranks, element by element, into `result` at `root`; `result` is left
    /// alone elsewhere. The order of combination does not depend on `root`.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`] at the root; others with [`crate::OnError::Return`].
    pub fn reduce<T: Reducible>(
        &self,
        data: &[T],
        result: &mut [T],
        op: ReduceOp,
        root: Rank,
    ) -> Result<(), CommError> {
        let mine = Span::of(bytes_of(data));
        let all = self.party().reduce(mine, &mut Typed::<T>::new(op), root.index());
        self.checked(all.and_then(|all| match all {
            Some(all) => deliver(&all, bytes_of_mut(result)),
            None => Ok(()),
        }))
    }

    /// Combines `data` of all ranks, element by element, into `result` everywhere: the same bits on
    /// every rank.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`]; others with [`crate::OnError::Return`].
    pub fn allreduce<T: Reducible>(
        &self,
        data: &[T],
        result: &mut [T],
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let mine = Span::of(bytes_of(data));
        let all = self.party().allreduce(mine, &mut Typed::<T>::new(op));
        self.checked(all.and_then(|all| deliver(&all, bytes_of_mut(result))))
    }
}

/// An operation on elements of one type.
struct Typed<T> {
    op: ReduceOp,
    _elements: PhantomData<T>,
}

impl<T> Typed<T> {
    fn new(op: ReduceOp) -> Self {
        Typed { op, _elements: PhantomData }
    }
}

impl<T: Reducible> Combine for Typed<T> {
    fn combine(&mut self, left: &mut [u8], right: &mut [u8]) -> Result<(), CommError> {
        let (before, left, _) = elements_of::<T>(left);
        debug_assert!(before.is_empty(), "spans are aligned");
        let (_, right, _) = elements_of::<T>(right);
        for (l, r) in left.iter().zip(right) {
            *r = T::apply(self.op, *l, *r);
        }
        Ok(())
    }
}

fn bytes_of<T: Datatype>(data: &[T]) -> &[u8] {
    // SAFETY: a `Datatype` is a plain number without padding, borrowed as `data` is.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

fn bytes_of_mut<T: Datatype>(data: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`; every bit pattern is a value of a `Datatype`.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(data)) }
}

fn elements_of<T: Datatype>(bytes: &mut [u8]) -> (&mut [u8], &mut [T], &mut [u8]) {
    // SAFETY: every bit pattern is a value of a `Datatype`, and it has no padding.
    unsafe { bytes.align_to_mut() }
}
