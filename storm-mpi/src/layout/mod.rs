//! Datatypes as descriptions: where the numbers of an element lie (MPI-4.1, chapter 5).
//!
//! A layout is a tree, as large as what described it and not as what it describes: a column of a
//! matrix is one node. It touches no memory; who does asks for its runs, stretches of bytes in the
//! order in which they travel.

mod build;

pub use build::{ArrayOrder, Part};

use std::rc::Rc;

/// How one element of a datatype lies in memory.
#[derive(Clone, Debug)]
pub struct Layout(Rc<Description>);

#[derive(Debug)]
struct Description {
    shape: Shape,
    /// Bytes of data.
    size: usize,
    lower: isize,
    upper: isize,
    /// What the two bounds come from.
    lower_by: BoundBy,
    upper_by: BoundBy,
    /// The first byte of data, and the one after the last.
    true_lower: isize,
    true_upper: isize,
    /// What C would align the largest number to.
    align: usize,
    /// Numbers in an element.
    numbers: usize,
    /// The data is one stretch, in order.
    one_run: bool,
    /// What all its numbers are, in the caller's words.
    kind: Option<u8>,
}

/// What says where an element begins or ends. In an element of several the last of these that there is counts
/// (MPI-4.1, section 5.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BoundBy {
    /// There is nothing: the bound is 0.
    Nothing,
    /// Its data.
    Data,
    /// Somebody has said so, here or in what it is made of.
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

    /// Where an element begins, seen from its address (`lb` of `MPI_Type_get_extent`).
    pub fn lower(&self) -> isize {
        self.0.lower
    }

    /// Bytes from an element to the next (`extent` of `MPI_Type_get_extent`).
    pub fn extent(&self) -> isize {
        self.0.upper - self.0.lower
    }

    /// Where its first byte of data lies (`true_lb` of `MPI_Type_get_true_extent`).
    pub fn true_lower(&self) -> isize {
        self.0.true_lower
    }

    /// Bytes from the first byte of data to the last.
    pub fn true_extent(&self) -> isize {
        self.0.true_upper - self.0.true_lower
    }

    /// What kind of numbers it consists of, if it is one only and somebody has [said](Layout::of_kind).
    pub fn kind(&self) -> Option<u8> {
        self.0.kind
    }

    /// Whether any number of elements in a row is one stretch of bytes, from the first one's
    /// address on: then nothing need be packed.
    pub fn is_dense(&self) -> bool {
        let d = &self.0;
        d.one_run && d.true_lower == 0 && d.lower == 0 && self.extent() == d.size as isize
    }

    /// Where the data of `count` elements in a row lies: first byte, and the one after the last.
    /// `None` when that is beyond what memory can be.
    pub fn bounds(&self, count: usize) -> Option<(isize, isize)> {
        if count == 0 || self.size() == 0 {
            return Some((0, 0));
        }
        let last = self.extent().checked_mul(isize::try_from(count - 1).ok()?)?;
        let start = self.0.true_lower.checked_add(last.min(0))?;
        Some((start, self.0.true_upper.checked_add(last.max(0))?))
    }

    /// Calls `each` with the offset and length of every stretch of `count` elements in a row, in
    /// the order in which they travel.
    pub fn for_each_run(&self, count: usize, each: &mut impl FnMut(isize, usize)) {
        self.repeat(0, count, self.extent(), each);
    }

    /// How many numbers the first `bytes` bytes of travelling elements are (`MPI_Get_elements`);
    /// `None` when they end inside a number.
    pub fn numbers_in(&self, bytes: usize) -> Option<usize> {
        if self.size() == 0 {
            return (bytes == 0).then_some(0);
        }
        let (whole, mut left) = (bytes / self.size(), bytes % self.size());
        let numbers = whole.checked_mul(self.0.numbers)?.checked_add(self.leading(&mut left))?;
        (left == 0).then_some(numbers)
    }

    /// Numbers that lie wholly in the first `left` bytes; takes their bytes from `left`.
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
