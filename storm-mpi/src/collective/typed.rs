//! The collectives of the Rust API: slices of numbers over a communicator.

use super::{Blocks, BlocksMut, Combine, Reduction, now};
use crate::communicator::Communicator;
use crate::datatype::{Datatype, ReduceOp, Reducible};
use crate::error::CommError;
use crate::rank::Rank;
use std::marker::PhantomData;
use std::ops::Range;

impl Communicator {
    /// Returns when every rank has called it.
    ///
    /// # Errors
    /// [`CommError`], with [`crate::OnError::Return`].
    pub fn barrier(&self) -> Result<(), CommError> {
        self.checked(now(self.party().barrier()))
    }

    /// Gives every rank the root's `data`.
    ///
    /// # Errors
    /// [`CommError`], with [`crate::OnError::Return`].
    pub fn bcast<T: Datatype>(&self, data: &mut [T], root: Rank) -> Result<(), CommError> {
        self.checked(now(self.party().bcast(bytes_of_mut(data), root.index())))
    }

    /// Brings every rank's `data` to `root`, in the order of the ranks. At the root, `all` is as
    /// long as all of them together; elsewhere it is not accessed.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`] at the root; others with [`crate::OnError::Return`].
    pub fn gather<T: Datatype>(
        &self,
        data: &[T],
        all: &mut [T],
        root: Rank,
    ) -> Result<(), CommError> {
        let places = self.equal_places(size_of_val(data));
        let mut gather = || {
            let mut into = match self.rank() == root {
                true => Some(BlocksMut::new(self.exactly(bytes_of_mut(all), &places)?, &places)?),
                false => None,
            };
            now(self.party().gather(Some(bytes_of(data)), into.as_mut(), root.index()))
        };
        self.checked(gather())
    }

    /// Gives each rank its part of the root's `all`, in the order of the ranks. Elsewhere `all` is
    /// ignored.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`] at the root; others with [`crate::OnError::Return`].
    pub fn scatter<T: Datatype>(
        &self,
        all: &[T],
        part: &mut [T],
        root: Rank,
    ) -> Result<(), CommError> {
        let places = self.equal_places(size_of_val(part));
        let mut scatter = || {
            let from = match self.rank() == root {
                true => Some(Blocks::new(self.exactly(bytes_of(all), &places)?, &places)?),
                false => None,
            };
            now(self.party().scatter(from, Some(bytes_of_mut(part)), root.index()))
        };
        self.checked(scatter())
    }

    /// Brings every rank's `data` to all, in the order of the ranks.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`]; others with [`crate::OnError::Return`].
    pub fn allgather<T: Datatype>(&self, data: &[T], all: &mut [T]) -> Result<(), CommError> {
        let places = self.equal_places(size_of_val(data));
        let mut allgather = || {
            let all = self.exactly(bytes_of_mut(all), &places)?;
            now(self.party().allgather(Some(bytes_of(data)), &mut BlocksMut::new(all, &places)?))
        };
        self.checked(allgather())
    }

    /// Sends each rank its part of `data` and receives a part from each, in the order of the ranks.
    /// Both buffers are cut into as many equal parts as there are ranks.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`]; others with [`crate::OnError::Return`].
    pub fn alltoall<T: Datatype>(&self, data: &[T], all: &mut [T]) -> Result<(), CommError> {
        let places = self.equal_places(data.len() / self.size() * size_of::<T>());
        let mut alltoall = || {
            let from = Blocks::new(self.exactly(bytes_of(data), &places)?, &places)?;
            let all = self.exactly(bytes_of_mut(all), &places)?;
            now(self.party().alltoall(from, &mut BlocksMut::new(all, &places)?))
        };
        self.checked(alltoall())
    }

    /// Combines `data` of all ranks, element by element, into `result` at `root`. Elsewhere
    /// `result` is not accessed. The order of combination does not depend on `root`.
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
        let (mine, mut op) = (bytes_of(data), Typed::<T>::new(op));
        let mut reduce = |into: Option<&mut [u8]>| {
            now(self.party().reduce_into(Some(mine), into, &mut op, root.index()))
        };
        self.checked(match self.rank() == root {
            true => placed(bytes_of_mut(result), mine.len(), |into| reduce(Some(into))),
            false => reduce(None),
        })
    }

    /// Combines `data` of all ranks, element by element, into `result` everywhere, with the same
    /// bits on every rank.
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`]; others with [`crate::OnError::Return`].
    pub fn allreduce<T: Reducible>(
        &self,
        data: &[T],
        result: &mut [T],
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let (mine, mut op) = (bytes_of(data), Typed::<T>::new(op));
        self.checked(placed(bytes_of_mut(result), mine.len(), |all| {
            all.copy_from_slice(mine);
            now(self.party().allreduce_into(all, &mut op))
        }))
    }

    /// Combines `data` of this rank and of all ranks before it, element by element (`MPI_Scan`).
    ///
    /// # Errors
    /// [`CommError::LengthMismatch`]; others with [`crate::OnError::Return`].
    pub fn scan<T: Reducible>(
        &self,
        data: &[T],
        result: &mut [T],
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let (mine, mut op) = (bytes_of(data), Typed::<T>::new(op));
        self.checked(placed(bytes_of_mut(result), mine.len(), |all| {
            all.copy_from_slice(mine);
            now(self.party().scan(all, &mut op))
        }))
    }

    /// A place of `bytes` bytes for each rank, one after the other.
    fn equal_places(&self, bytes: usize) -> Vec<Range<usize>> {
        (0..self.size()).map(|rank| rank * bytes..(rank + 1) * bytes).collect()
    }

    /// Returns the bytes if their length is that of all places together.
    fn exactly<B: AsRef<[u8]>>(&self, bytes: B, places: &[Range<usize>]) -> Result<B, CommError> {
        let end = places.last().map_or(0, |place| place.end);
        super::same_length(bytes.as_ref().len(), end).map(|()| bytes)
    }
}

/// Lets a collective put `bytes` bytes into `into`. If `into` has another length, the collective
/// still takes part, because the other members wait for it.
fn placed(
    into: &mut [u8],
    bytes: usize,
    collective: impl FnOnce(&mut [u8]) -> Result<(), CommError>,
) -> Result<(), CommError> {
    match super::same_length(into.len(), bytes) {
        Ok(()) => collective(into),
        mismatch => collective(&mut vec![0; bytes]).and(mismatch),
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

    fn element_bytes(&self) -> usize {
        size_of::<T>()
    }

    fn known(&self) -> Option<Reduction> {
        Some(Reduction { op: self.op, number: T::NUMBER })
    }
}

/// The memory of plain numbers.
pub(crate) fn bytes_of<T: Datatype>(data: &[T]) -> &[u8] {
    // SAFETY: a `Datatype` is a plain number without padding, borrowed as `data` is.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

pub(crate) fn bytes_of_mut<T: Datatype>(data: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`; every bit pattern is a value of a `Datatype`.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(data)) }
}

fn elements_of<T: Datatype>(bytes: &mut [u8]) -> (&mut [u8], &mut [T], &mut [u8]) {
    // SAFETY: every bit pattern is a value of a `Datatype`, and it has no padding.
    unsafe { bytes.align_to_mut() }
}
