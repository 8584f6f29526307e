//! Making layouts of layouts: the type constructors of MPI. `None` from any of them means that the
//! result would be larger than memory can be.

use super::{Description, Layout, Shape};
use std::rc::Rc;

/// Some elements in a row, somewhere in a larger element.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where the first is, in bytes from the larger element's address.
    pub offset: isize,
    /// How many there are.
    pub count: usize,
    /// Of what.
    pub layout: Layout,
}

/// Which index of an array varies fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayOrder {
    /// The last (`MPI_ORDER_C`).
    LastFastest,
    /// The first (`MPI_ORDER_FORTRAN`).
    FirstFastest,
}

impl Layout {
    /// One number of so many bytes, which C aligns so.
    pub fn number(size: usize, align: usize) -> Layout {
        let upper = size as isize;
        Layout(Rc::new(Description {
            shape: Shape::Number,
            size,
            lower: 0,
            upper,
            true_lower: 0,
            true_upper: upper,
            align,
            numbers: 1,
            one_run: true,
            kind: None,
        }))
    }

    /// The same, as yet unshared, whose numbers the caller has a name for: what is made of it tells it.
    #[must_use]
    pub fn of_kind(mut self, kind: u8) -> Layout {
        debug_assert!(Rc::strong_count(&self.0) == 1, "a layout that something is made of already");
        if let Some(description) = Rc::get_mut(&mut self.0) {
            description.kind = Some(kind);
        }
        self
    }

    /// `count` elements in a row (`MPI_Type_contiguous`).
    pub fn contiguous(&self, count: usize) -> Option<Layout> {
        self.strided(count, self.extent())
    }

    /// `count` blocks of `length` elements, `stride` elements from one's beginning to the next's
    /// (`MPI_Type_vector`).
    pub fn vector(&self, count: usize, length: usize, stride: isize) -> Option<Layout> {
        self.hvector(count, length, stride.checked_mul(self.extent())?)
    }

    /// As [`Layout::vector`], with the stride in bytes (`MPI_Type_create_hvector`).
    pub fn hvector(&self, count: usize, length: usize, stride_bytes: isize) -> Option<Layout> {
        self.contiguous(length)?.strided(count, stride_bytes)
    }

    /// Blocks of elements at offsets in bytes (`MPI_Type_create_hindexed`).
    pub fn hindexed(&self, blocks: impl IntoIterator<Item = (usize, isize)>) -> Option<Layout> {
        let part = |(count, offset)| Part { offset, count, layout: self.clone() };
        Layout::of_parts(blocks.into_iter().map(part).collect())
    }

    /// Blocks of elements at offsets in elements (`MPI_Type_indexed`).
    pub fn indexed(&self, blocks: impl IntoIterator<Item = (usize, isize)>) -> Option<Layout> {
        let in_bytes = |(count, at): (usize, isize)| Some((count, at.checked_mul(self.extent())?));
        self.hindexed(blocks.into_iter().map(in_bytes).collect::<Option<Vec<_>>>()?)
    }

    /// Different elements, each at its place, as in a structure of C (`MPI_Type_create_struct`):
    /// its end is where C would let the next begin.
    pub fn structure(parts: Vec<Part>) -> Option<Layout> {
        let plain = Layout::of_parts(parts)?;
        let align = isize::try_from(plain.0.align).ok()?.max(1);
        let extent = plain.extent();
        let padded = extent.checked_add((align - extent.rem_euclid(align)) % align)?;
        plain.resized(plain.lower(), padded)
    }

    /// The same data with another beginning and distance to the next (`MPI_Type_create_resized`).
    pub fn resized(&self, lower: isize, extent: isize) -> Option<Layout> {
        let d = &self.0;
        Layout::measured(Description {
            shape: Shape::Parts(vec![Part { offset: 0, count: 1, layout: self.clone() }]),
            lower,
            upper: lower.checked_add(extent)?,
            ..Description { shape: Shape::Number, ..**d }
        })
    }

    /// A part of an array, with the extent of the whole (`MPI_Type_create_subarray`): of each
    /// dimension its length, and length and beginning of the part. `None` also when the part is not
    /// inside.
    pub fn subarray(&self, dims: &[(usize, usize, usize)], order: ArrayOrder) -> Option<Layout> {
        let mut slowest_last = dims.to_vec();
        if order == ArrayOrder::LastFastest {
            slowest_last.reverse();
        }
        let mut layout = self.clone();
        let mut stride = self.extent();
        let mut offset = 0_isize;
        for (length, part, start) in slowest_last {
            if part.checked_add(start)? > length {
                return None;
            }
            layout = layout.strided(part, stride)?;
            offset = offset.checked_add(stride.checked_mul(isize::try_from(start).ok()?)?)?;
            stride = stride.checked_mul(isize::try_from(length).ok()?)?;
        }
        Layout::of_parts(vec![Part { offset, count: 1, layout }])?.resized(0, stride)
    }

    /// `count` elements, `stride` bytes apart.
    fn strided(&self, count: usize, stride: isize) -> Option<Layout> {
        let d = &self.0;
        let (first, last) = reach(count, stride)?;
        let empty = count == 0;
        let bound = |bound: isize, far: isize| {
            if empty { Some(0) } else { bound.checked_add(far) }
        };
        Layout::measured(Description {
            shape: Shape::Repeat { count, stride, inner: self.clone() },
            size: d.size.checked_mul(count)?,
            lower: bound(d.lower, first)?,
            upper: bound(d.upper, last)?,
            true_lower: bound(d.true_lower, first)?,
            true_upper: bound(d.true_upper, last)?,
            align: d.align,
            numbers: d.numbers.checked_mul(count)?,
            one_run: d.one_run && (count <= 1 || stride == d.size as isize),
            kind: d.kind,
        })
    }

    /// A layout whose extents and size are lengths that memory can have.
    fn measured(description: Description) -> Option<Layout> {
        let Description { lower, upper, true_lower, true_upper, size, .. } = description;
        upper.checked_sub(lower)?;
        true_upper.checked_sub(true_lower)?;
        isize::try_from(size).ok()?;
        Some(Layout(Rc::new(description)))
    }

    fn of_parts(mut parts: Vec<Part>) -> Option<Layout> {
        let mut all: Option<Description> = None;
        // Those of no elements may be anywhere.
        parts.retain(|part| part.count > 0);
        for part in &parts {
            let row = part.layout.contiguous(part.count)?;
            let d = &row.0;
            let at = |bound: isize| bound.checked_add(part.offset);
            let (lower, upper) = (at(d.lower)?, at(d.upper)?);
            let (true_lower, true_upper) = (at(d.true_lower)?, at(d.true_upper)?);
            all = Some(match all {
                None => Description {
                    shape: Shape::Number,
                    lower,
                    upper,
                    true_lower,
                    true_upper,
                    ..**d
                },
                Some(before) => Description {
                    shape: Shape::Number,
                    size: before.size.checked_add(d.size)?,
                    lower: before.lower.min(lower),
                    upper: before.upper.max(upper),
                    true_lower: before.true_lower.min(true_lower),
                    true_upper: before.true_upper.max(true_upper),
                    align: before.align.max(d.align),
                    numbers: before.numbers.checked_add(d.numbers)?,
                    one_run: before.one_run && d.one_run && before.true_upper == true_lower,
                    kind: before.kind.filter(|_| before.kind == d.kind),
                },
            });
        }
        let nothing = Description {
            shape: Shape::Number,
            size: 0,
            lower: 0,
            upper: 0,
            true_lower: 0,
            true_upper: 0,
            align: 1,
            numbers: 0,
            one_run: true,
            kind: None,
        };
        let all = all.unwrap_or(nothing);
        Layout::measured(Description { shape: Shape::Parts(parts), ..all })
    }
}

/// How far `count` elements `stride` bytes apart reach from the first: down, up.
fn reach(count: usize, stride: isize) -> Option<(isize, isize)> {
    let steps = isize::try_from(count.saturating_sub(1)).ok()?;
    let last = stride.checked_mul(steps)?;
    Some((last.min(0), last.max(0)))
}
