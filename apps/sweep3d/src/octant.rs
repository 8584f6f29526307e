//! The eight octants of directions and the order in which they are swept.
//!
//! k changes fastest, so that the two octants that start at the same column corner follow each
//! other through the pipeline. Negative directions come first, so that a low face that reflects has
//! its outflow before the mirrored octant needs it.

/// Whether the directions of an octant run towards higher i, j and k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octant {
    index: usize,
}

impl Octant {
    /// All octants, in the order of the sweep.
    pub fn all() -> impl Iterator<Item = Octant> {
        (0..8).map(|index| Octant { index })
    }

    /// The place in the order.
    pub fn index(self) -> usize {
        self.index
    }

    /// Whether it runs towards higher coordinates along an axis (0 = i, 1 = j, 2 = k).
    pub fn is_up(self, axis: usize) -> bool {
        self.index & bit(axis) != 0
    }

    /// The octant into which a reflecting face perpendicular to the axis turns this octant.
    pub fn mirrored(self, axis: usize) -> Octant {
        Octant { index: self.index ^ bit(axis) }
    }

    /// `0..n` in the order in which the octant meets it along an axis.
    pub fn along(self, axis: usize, n: usize) -> impl Iterator<Item = usize> {
        let up = self.is_up(axis);
        (0..n).map(move |step| if up { step } else { n - 1 - step })
    }
}

fn bit(axis: usize) -> usize {
    match axis {
        0 => 2,
        1 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_faces_reflect_known_octants() {
        for octant in Octant::all() {
            for axis in (0..3).filter(|&axis| octant.is_up(axis)) {
                assert!(octant.mirrored(axis).index() < octant.index());
                assert!(!octant.mirrored(axis).is_up(axis));
            }
        }
    }

    #[test]
    fn octants_with_one_corner_follow_each_other() {
        let corners: Vec<_> = Octant::all().map(|o| (o.is_up(0), o.is_up(1))).collect();
        assert!(corners.chunks(2).all(|pair| pair[0] == pair[1]));
    }
}
