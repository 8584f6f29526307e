//! Tests of layouts against lists of single bytes, which are too simple to be wrong.

use super::*;
use proptest::prelude::*;

/// A layout, and the offset of each of its bytes in the order in which they are sent.
#[derive(Clone, Debug)]
struct Known {
    layout: Layout,
    bytes: Vec<isize>,
}

impl Known {
    fn number(size: usize) -> Known {
        Known { layout: Layout::number(size, size), bytes: (0..size as isize).collect() }
    }

    /// Copies of the bytes at these offsets.
    fn at(&self, offsets: impl IntoIterator<Item = isize>) -> Vec<isize> {
        offsets.into_iter().flat_map(|at| self.bytes.iter().map(move |b| b + at)).collect()
    }
}

fn runs(layout: &Layout, count: usize) -> Vec<isize> {
    let mut bytes = Vec::new();
    layout.for_each_run(count, &mut |at, length| bytes.extend(at..at + length as isize));
    bytes
}

fn known() -> impl Strategy<Value = Known> {
    let leaf = prop_oneof![Just(1usize), Just(2), Just(4), Just(8)].prop_map(Known::number);
    leaf.prop_recursive(3, 64, 4, |inner| {
        prop_oneof![
            (inner.clone(), 0usize..4, 0usize..3, -4isize..6).prop_map(
                |(of, count, length, stride)| {
                    let extent = of.layout.extent();
                    let block = of.at((0..length as isize).map(|i| i * extent));
                    let block = Known { layout: of.layout.clone(), bytes: block };
                    let bytes = block.at((0..count as isize).map(|i| i * stride * extent));
                    Known { layout: of.layout.vector(count, length, stride).unwrap(), bytes }
                }
            ),
            (inner.clone(), proptest::collection::vec((0usize..3, -20isize..20), 0..4)).prop_map(
                |(of, blocks)| {
                    let extent = of.layout.extent();
                    let offsets = blocks
                        .iter()
                        .flat_map(|&(n, at)| (0..n as isize).map(move |i| at + i * extent));
                    let bytes = of.at(offsets);
                    Known { layout: of.layout.hindexed(blocks).unwrap(), bytes }
                }
            ),
            (inner.clone(), inner.clone(), -10isize..30).prop_map(|(one, two, offset)| {
                let parts = vec![
                    Part { offset: 0, count: 1, layout: one.layout.clone() },
                    Part { offset, count: 1, layout: two.layout.clone() },
                ];
                let bytes = [one.bytes, two.at([offset])].concat();
                Known { layout: Layout::structure(parts).unwrap(), bytes }
            }),
            (inner, -8isize..8, 0isize..40).prop_map(|(of, lower, extent)| {
                Known { layout: of.layout.resized(lower, extent).unwrap(), bytes: of.bytes }
            }),
        ]
    })
}

proptest! {
    #[test]
    fn runs_are_the_bytes_in_order(of in known(), count in 0usize..4) {
        let extent = of.layout.extent();
        let expected = of.at((0..count as isize).map(|i| i * extent));
        prop_assert_eq!(runs(&of.layout, count), expected.clone());
        prop_assert_eq!(of.layout.size(), of.bytes.len());
        let (start, end) = of.layout.bounds(count).unwrap();
        prop_assert!(expected.iter().all(|byte| (start..end).contains(byte)));
        if of.layout.is_dense() {
            prop_assert_eq!(expected, (0..(count * of.layout.size()) as isize).collect::<Vec<_>>());
        }
    }

    #[test]
    fn true_bounds_are_those_of_the_bytes(of in known()) {
        let (start, end) = (of.layout.true_lower(), of.layout.true_lower() + of.layout.true_extent());
        if let (Some(&least), Some(&most)) = (of.bytes.iter().min(), of.bytes.iter().max()) {
            // Parts without data may stretch the bounds, never shrink them.
            prop_assert!(start <= least && end > most);
        }
    }
}

#[test]
fn a_column_of_a_matrix() {
    let double = Layout::number(8, 8);
    let column = double.vector(3, 1, 4).unwrap();
    assert_eq!((column.size(), column.extent()), (24, 72));
    let column = column.resized(0, 8).unwrap();
    let mut seen = Vec::new();
    column.for_each_run(2, &mut |at, length| seen.push((at, length)));
    assert_eq!(seen, [(0, 8), (32, 8), (64, 8), (8, 8), (40, 8), (72, 8)]);
}

#[test]
fn a_structure_ends_where_c_lets_the_next_begin() {
    let (double, int) = (Layout::number(8, 8), Layout::number(4, 4));
    let parts = vec![
        Part { offset: 0, count: 1, layout: double.clone() },
        Part { offset: 8, count: 1, layout: int.clone() },
    ];
    let pair = Layout::structure(parts).unwrap();
    assert_eq!((pair.size(), pair.extent(), pair.is_dense()), (12, 16, false));
    assert_eq!(pair.numbers_in(12), Some(2));
    assert_eq!(pair.numbers_in(20), Some(3));
    assert_eq!(pair.numbers_in(14), None);
    let row = pair.contiguous(3).unwrap();
    assert_eq!(row.numbers_in(12 + 8), Some(3));
    assert_eq!(row.numbers_in(36 + 12), Some(8));
}

#[test]
fn a_part_of_an_array() {
    let int = Layout::number(4, 4);
    let part = int.subarray(&[(4, 2, 1), (5, 3, 2)], ArrayOrder::LastFastest).unwrap();
    let mut seen = Vec::new();
    part.for_each_run(1, &mut |at, length| seen.push((at, length)));
    assert_eq!(seen, [(4 * 7, 12), (4 * 12, 12)]);
    assert_eq!((part.lower(), part.extent()), (0, 80));
    let same = int.subarray(&[(5, 3, 2), (4, 2, 1)], ArrayOrder::FirstFastest).unwrap();
    assert_eq!(runs(&same, 2), runs(&part, 2));
    assert!(int.subarray(&[(4, 3, 2)], ArrayOrder::LastFastest).is_none());
}

#[test]
fn oversized_layouts_are_refused() {
    let double = Layout::number(8, 8);
    let large = double.contiguous(usize::MAX >> 8).unwrap();
    assert!(large.contiguous(1 << 10).is_none());
    assert!(double.hvector(3, 1, isize::MAX).is_none());
}

#[test]
fn extents_that_no_memory_has_are_refused() {
    let byte = Layout::number(1, 1);
    let (far_down, far_up) = (isize::MIN / 2 - 2, isize::MAX / 2 + 2);
    // Each bound is possible; their distance is not.
    assert!(byte.hindexed([(1, far_down), (1, far_up)]).is_none());
    let up = byte.resized(far_up, 1).unwrap();
    let down = byte.resized(far_down, 1).unwrap();
    let both = |first: &Layout, second: &Layout| {
        let part = |layout: &Layout| Part { offset: 0, count: 1, layout: layout.clone() };
        Layout::structure(vec![part(first), part(second)])
    };
    assert!(both(&up, &down).is_none() && both(&down, &up).is_none());
    assert!(both(&up, &up).is_some());
    assert!(byte.resized(isize::MAX, 1).is_none() && byte.resized(isize::MIN, -1).is_none());
    assert_eq!(byte.resized(isize::MIN, isize::MAX).unwrap().extent(), isize::MAX);
}

#[test]
fn blocks_of_no_elements_may_be_anywhere() {
    let int = Layout::number(4, 4);
    let layout = int.hindexed([(1, 8), (0, isize::MAX), (0, isize::MIN), (2, 16)]).unwrap();
    let bytes = [8..12, 16..24, 24..28, 32..40];
    assert_eq!(runs(&layout, 2), bytes.into_iter().flatten().collect::<Vec<isize>>());
}

#[test]
fn markers_say_where_an_element_begins_and_ends_however_deep_they_are() {
    let (int, double) = (Layout::number(4, 4), Layout::number(8, 8));
    let part = |offset, layout: &Layout| Part { offset, count: 1, layout: layout.clone() };
    let (lower, upper) = (Layout::lower_marker(), Layout::upper_marker());
    let made = |parts: Vec<Part>| Layout::structure(parts).unwrap();
    // The example of MPI-1.1, section 3.12.3.
    let first = made(vec![part(-3, &lower), part(0, &int), part(6, &upper)]);
    assert_eq!((first.lower(), first.extent(), first.size()), (-3, 9, 4));
    let second = first.contiguous(2).unwrap();
    assert_eq!((second.lower(), second.extent()), (-3, 18));
    assert_eq!((second.true_lower(), second.true_extent()), (0, 13));
    // Data does not count if there is a marker, on whichever side of it.
    let around = made(vec![part(100, &double), part(0, &first), part(-50, &int)]);
    assert_eq!((around.lower(), around.extent()), (-3, 9));
    assert_eq!((around.true_lower(), around.true_extent()), (-50, 158));
    // With only one marker, the other end is padded as usual.
    let begun = made(vec![part(-8, &lower), part(0, &double), part(8, &int)]);
    assert_eq!((begun.lower(), begun.extent()), (-8, 24));
    let ended = made(vec![part(0, &int), part(13, &upper)]);
    assert_eq!((ended.lower(), ended.extent(), ended.numbers_in(4)), (0, 13, Some(1)));
    // The bounds of a resized layout act as markers, and resizing again replaces them.
    let wide = int.resized(-4, 100).unwrap();
    let structure = made(vec![part(0, &wide), part(200, &double)]);
    assert_eq!((structure.lower(), structure.extent()), (-4, 100));
    assert_eq!(structure.resized(0, 8).unwrap().extent(), 8);
}

#[test]
fn markers_without_gaps_leave_an_element_one_stretch() {
    let (int, lower, upper) =
        (Layout::number(4, 4).of_kind(7), Layout::lower_marker(), Layout::upper_marker());
    let part = |offset, layout: &Layout| Part { offset, count: 1, layout: layout.clone() };
    let parts = vec![part(0, &lower), part(0, &int), part(4, &int), part(8, &upper)];
    let pair = Layout::structure(parts).unwrap();
    assert!(pair.is_dense());
    assert_eq!((pair.kind(), pair.size(), pair.extent()), (Some(7), 8, 8));
    assert_eq!(lower.bounds(5), Some((0, 0)));
    assert_eq!((upper.size(), upper.extent()), (0, 0));
}
