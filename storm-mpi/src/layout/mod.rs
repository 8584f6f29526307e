//! Datatypes as descriptions of the places of an element's numbers (MPI-4.1, chapter 5).
//!
//! A layout is a tree. Its size is that of the describing calls, not of the data: a column of a
//! matrix is one node. A layout touches no memory. Its users ask for its runs: stretches of bytes
//! in the order in which they are sent.

mod build;

pub use build::{ArrayOrder, Part};

use std::rc::Rc;

/// The places of one element of a datatype in memory.
#[derive(Clone, Debug)]
pub struct Layout(Rc<Description>);

#[derive(Debug)]
struct Description {
    shape: Shape,
    /// Bytes of data.
    size: usize,
    lower: isize,
    upper: isize,
    /// Origin of the two bounds.
    lower_by: BoundBy,
    upper_by: BoundBy,
    /// The first byte of data, and the one after the last.
    true_lower: isize,
    true_upper: isize,
    /// Alignment that C would give the largest number.
    align: usize,
    /// Number of numbers in an element.
    numbers: usize,
    /// The data is one stretch, in order.
    one_run: bool,
    /// The kind of all its numbers, as the caller defines it.
    kind: Option<u8>,
}

/// Origin of the beginning or end of an element. In an element of several parts, the last of these
/// origins that occurs counts (MPI-4.1, section 5.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BoundBy {
    /// There is no data and no marker: the bound is 0.
    Nothing,
    /// The data gives the bound.
    Data,
    /// A marker gives the bound, here or in a part.
    Marker,
}

#[derive(Debug)]
enum Shape {
    /// One number of a predefined type, or none.
    Number,
    Repeat {
        count: usize,
        stride: isize,
        inner: Layout,
    },
    Parts(Vec<Part>),
}

impl Layout {
    /// Bytes of data in an element (`MPI_Type_size`).
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Beginning of an element, relative to its address (`lb` of `MPI_Type_get_extent`).
    pub fn lower(&self) -> isize {
        self.0.lower
    }

    /// Bytes from an element to the next (`extent` of `MPI_Type_get_extent`).
    pub fn extent(&self) -> isize {
        self.0.upper - self.0.lower
    }

    /// Position of the first byte of data (`true_lb` of `MPI_Type_get_true_extent`).
    pub fn true_lower(&self) -> isize {
        self.0.true_lower
    }

    /// Bytes from the first byte of data to the last.
    pub fn true_extent(&self) -> isize {
        self.0.true_upper - self.0.true_lower
    }

    /// The kind of its numbers, if there is only one and it was [given](Layout::of_kind).
    pub fn kind(&self) -> Option<u8> {
        self.0.kind
    }

    /// Whether any number of elements in a row is one stretch of bytes that begins at the first
    /// one's address. Such elements need no packing.
    pub fn is_dense(&self) -> bool {
        let d = &self.0;
        d.one_run && d.true_lower == 0 && d.lower == 0 && self.extent() == d.size as isize
    }

    /// Bounds of the data of `count` elements in a row: the first byte, and the one after the last.
    /// `None` when they are beyond the limits of memory.
    pub fn bounds(&self, count: usize) -> Option<(isize, isize)> {
        if count == 0 || self.size() == 0 {
            return Some((0, 0));
        }
        let last = self.extent().checked_mul(isize::try_from(count - 1).ok()?)?;
        let start = self.0.true_lower.checked_add(last.min(0))?;
        Some((start, self.0.true_upper.checked_add(last.max(0))?))
    }

    /// Calls `each` with the offset and length of every stretch of `count` elements in a row, in
    /// the order in which they are sent.
    pub fn for_each_run(&self, count: usize, each: &mut impl FnMut(isize, usize)) {
        self.repeat(0, count, self.extent(), each);
    }

    /// The number of numbers in the first `bytes` bytes of sent elements (`MPI_Get_elements`);
    /// `None` if they end inside a number.
    pub fn numbers_in(&self, bytes: usize) -> Option<usize> {
        if self.size() == 0 {
            return (bytes == 0).then_some(0);
        }
        let (whole, mut left) = (bytes / self.size(), bytes % self.size());
        let numbers = whole.checked_mul(self.0.numbers)?.checked_add(self.leading(&mut left))?;
        (left == 0).then_some(numbers)
    }

    /// Number of numbers that lie wholly in the first `left` bytes. Takes their bytes from `left`.
    fn leading(&self, left: &mut usize) -> usize {
        if *left >= self.size() {
            *left -= self.size();
            return self.0.numbers;
        }
        let repeated = |count: usize, inner: &Layout, left: &mut usize| {
            let whole = (*left).checked_div(inner.size()).unwrap_or(count).min(count);
            *left -= whole * inner.size();
            let rest = if whole < count { inner.leading(left) } else { 0 };
            whole * inner.0.numbers + rest
        };
        match &self.0.shape {
            Shape::Number => 0,
            Shape::Repeat { count, inner, .. } => repeated(*count, inner, left),
            Shape::Parts(parts) => {
                let mut numbers = 0;
                for part in parts {
                    let size = part.count * part.layout.size();
                    let ends = *left < size;
                    numbers += repeated(part.count, &part.layout, left);
                    if ends {
                        break;
                    }
                }
                numbers
            }
        }
    }

    fn visit(&self, at: isize, each: &mut impl FnMut(isize, usize)) {
        let d = &self.0;
        if d.one_run {
            if d.size > 0 {
                each(at + d.true_lower, d.size);
            }
            return;
        }
        match &d.shape {
            Shape::Number => each(at, d.size),
            Shape::Repeat { count, stride, inner } => inner.repeat(at, *count, *stride, each),
            Shape::Parts(parts) => {
                for part in parts {
                    let extent = part.layout.extent();
                    part.layout.repeat(at + part.offset, part.count, extent, each);
                }
            }
        }
    }

    fn repeat(&self, at: isize, count: usize, stride: isize, each: &mut impl FnMut(isize, usize)) {
        if self.0.one_run && stride == self.size() as isize {
            if count * self.size() > 0 {
                each(at + self.0.true_lower, count * self.size());
            }
            return;
        }
        for i in 0..count {
            self.visit(at + stride * i as isize, each);
        }
    }
}

#[cfg(test)]
mod tests;
