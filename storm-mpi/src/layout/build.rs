//! Layouts made of layouts: the type constructors of MPI. Each returns `None` if the result would
//! be larger than memory can be.

use super::{BoundBy, Description, Layout, Shape};
use std::rc::Rc;

/// A row of elements, somewhere in a larger element.
#[derive(Clone, Debug)]
pub struct Part {
    /// Offset of the first element, in bytes from the larger element's address.
    pub offset: isize,
    /// Number of elements.
    pub count: usize,
    /// Layout of an element.
    pub layout: Layout,
}

/// The index of an array that varies fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayOrder {
    /// The last (`MPI_ORDER_C`).
    LastFastest,
    /// The first (`MPI_ORDER_FORTRAN`).
    FirstFastest,
}

impl Layout {
    /// One number of `size` bytes, which C aligns to `align`.
    pub fn number(size: usize, align: usize) -> Layout {
        let upper = size as isize;
        Layout(Rc::new(Description {
            shape: Shape::Number,
            size,
            lower: 0,
            upper,
            lower_by: BoundBy::Data,
            upper_by: BoundBy::Data,
            true_lower: 0,
            true_upper: upper,
            align,
            numbers: 1,
            one_run: true,
            kind: None,
        }))
    }

    /// A marker without data for the beginning of the type that contains it (`MPI_LB`).
    pub fn lower_marker() -> Layout {
        Layout(Rc::new(Description { lower_by: BoundBy::Marker, ..NOTHING }))
    }

    /// A marker without data for the end of the type that contains it (`MPI_UB`).
    pub fn upper_marker() -> Layout {
        Layout(Rc::new(Description { upper_by: BoundBy::Marker, ..NOTHING }))
    }

    /// The same layout with a name for its numbers, which layouts made of it keep. The layout must
    /// not be shared yet.
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

    /// `count` blocks of `length` elements, with `stride` elements between the beginnings of blocks
    /// (`MPI_Type_vector`).
    pub fn vector(&self, count: usize, length: usize, stride: isize) -> Option<Layout> {
        self.hvector(count, length, stride.checked_mul(self.extent())?)
    }

    /// Like [`Layout::vector`], with the stride in bytes (`MPI_Type_create_hvector`).
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

    /// Different elements, each at its place, as in a structure of C (`MPI_Type_create_struct`).
    /// The end is where C would let the next begin, unless a marker gives it.
    pub fn structure(parts: Vec<Part>) -> Option<Layout> {
        let plain = Layout::of_parts(parts)?;
        let d = &plain.0;
        if d.upper_by == BoundBy::Marker {
            return Some(plain);
        }
        let align = isize::try_from(d.align).ok()?.max(1);
        let padding = (align - plain.extent().rem_euclid(align)) % align;
        let (lower, upper) = (d.lower, d.upper.checked_add(padding)?);
        plain.bounded((lower, d.lower_by), (upper, d.upper_by))
    }

    /// The same data with another beginning and another distance to the next element
    /// (`MPI_Type_create_resized`).
    pub fn resized(&self, lower: isize, extent: isize) -> Option<Layout> {
        let upper = lower.checked_add(extent)?;
        self.bounded((lower, BoundBy::Marker), (upper, BoundBy::Marker))
    }

    fn bounded(
        &self,
        (lower, lower_by): (isize, BoundBy),
        (upper, upper_by): (isize, BoundBy),
    ) -> Option<Layout> {
        let d = &self.0;
        Layout::measured(Description {
            shape: Shape::Parts(vec![Part { offset: 0, count: 1, layout: self.clone() }]),
            lower,
            upper,
            lower_by,
            upper_by,
            ..Description { shape: Shape::Number, ..**d }
        })
    }

    /// A part of an array, with the extent of the whole (`MPI_Type_create_subarray`). Each
    /// dimension is its length, and the length and beginning of the part. `None` also when the part
    /// is not inside.
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
        let by = |by| if count == 0 { BoundBy::Nothing } else { by };
        let (lower_by, upper_by) = (by(d.lower_by), by(d.upper_by));
        let bound = |by, bound: isize, far: isize| match by {
            BoundBy::Nothing => Some(0),
            BoundBy::Data | BoundBy::Marker => bound.checked_add(far),
        };
        let data = if d.size == 0 { BoundBy::Nothing } else { by(BoundBy::Data) };
        Layout::measured(Description {
            shape: Shape::Repeat { count, stride, inner: self.clone() },
            size: d.size.checked_mul(count)?,
            lower: bound(lower_by, d.lower, first)?,
            upper: bound(upper_by, d.upper, last)?,
            lower_by,
            upper_by,
            true_lower: bound(data, d.true_lower, first)?,
            true_upper: bound(data, d.true_upper, last)?,
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
        let mut all = NOTHING;
        // Parts without elements may be anywhere.
        parts.retain(|part| part.count > 0);
        for part in &parts {
            let row = part.layout.contiguous(part.count)?;
            let d = &row.0;
            let at = |bound: isize| bound.checked_add(part.offset);
            if d.lower_by != BoundBy::Nothing {
                let lower = at(d.lower)?;
                let both = (all.lower_by == d.lower_by).then_some(all.lower.min(lower));
                let its = if d.lower_by > all.lower_by { lower } else { all.lower };
                (all.lower, all.lower_by) = (both.unwrap_or(its), all.lower_by.max(d.lower_by));
            }
            if d.upper_by != BoundBy::Nothing {
                let upper = at(d.upper)?;
                let both = (all.upper_by == d.upper_by).then_some(all.upper.max(upper));
                let its = if d.upper_by > all.upper_by { upper } else { all.upper };
                (all.upper, all.upper_by) = (both.unwrap_or(its), all.upper_by.max(d.upper_by));
            }
            all.align = all.align.max(d.align);
            if d.size > 0 {
                all = all.followed_by(d, (at(d.true_lower)?, at(d.true_upper)?))?;
            }
        }
        Layout::measured(Description { shape: Shape::Parts(parts), ..all })
    }
}

/// An element without data or bounds.
const NOTHING: Description = Description {
    shape: Shape::Number,
    size: 0,
    lower: 0,
    upper: 0,
    lower_by: BoundBy::Nothing,
    upper_by: BoundBy::Nothing,
    true_lower: 0,
    true_upper: 0,
    align: 1,
    numbers: 0,
    one_run: true,
    kind: None,
};

impl Description {
    /// The description with more data behind it; `more` extends from `from` to `to`.
    fn followed_by(self, more: &Description, (from, to): (isize, isize)) -> Option<Description> {
        let Description { size, numbers, one_run, kind, .. } = *more;
        if self.size == 0 {
            let (true_lower, true_upper) = (from, to);
            return Some(Description {
                size,
                numbers,
                one_run,
                kind,
                true_lower,
                true_upper,
                ..self
            });
        }
        Some(Description {
            size: self.size.checked_add(size)?,
            numbers: self.numbers.checked_add(numbers)?,
            one_run: self.one_run && one_run && self.true_upper == from,
            kind: self.kind.filter(|_| self.kind == kind),
            true_lower: self.true_lower.min(from),
            true_upper: self.true_upper.max(to),
            ..self
        })
    }
}

/// How far `count` elements `stride` bytes apart reach from the first: down, up.
fn reach(count: usize, stride: isize) -> Option<(isize, isize)> {
    let steps = isize::try_from(count.saturating_sub(1)).ok()?;
    let last = stride.checked_mul(steps)?;
    Some((last.min(0), last.max(0)))
}
