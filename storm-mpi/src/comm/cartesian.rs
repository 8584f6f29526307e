//! Cartesian grids of processes (MPI-4.1, section 8.5): the last coordinate varies fastest.

use thiserror::Error;

/// An invalid grid, or a place outside of it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum GridError {
    /// A dimension of length 0, or a negative number.
    #[error("dimensions of a grid must be positive")]
    Dimensions,
    /// More places than there are processes, or a number of processes that the given dimensions do
    /// not divide.
    #[error("{processes} processes do not fit the grid's dimensions")]
    DoesNotFit {
        /// Number of processes.
        processes: usize,
    },
    /// Coordinates outside the grid, in a dimension that is not periodic.
    #[error("coordinate {coordinate} in a dimension of length {length}")]
    Outside {
        /// The coordinate.
        coordinate: i32,
        /// The dimension's length.
        length: i32,
    },
    /// There is no such dimension.
    #[error("dimension {dimension} of a grid of {dimensions}")]
    NoSuchDimension {
        /// The dimension asked for.
        dimension: i32,
        /// Number of dimensions.
        dimensions: usize,
    },
}

/// A grid: the length of each dimension, and whether it closes to a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cartesian {
    dims: Vec<i32>,
    periodic: Vec<bool>,
}

impl Cartesian {
    /// The grid of these dimensions for some of `processes` processes.
    ///
    /// # Errors
    /// [`GridError::Dimensions`], [`GridError::DoesNotFit`].
    pub fn new(dims: &[i32], periodic: &[bool], processes: usize) -> Result<Self, GridError> {
        if dims.iter().any(|&length| length <= 0) || dims.len() != periodic.len() {
            return Err(GridError::Dimensions);
        }
        let too_large = GridError::DoesNotFit { processes };
        let places = dims.iter().try_fold(1_usize, |all, &n| all.checked_mul(n as usize));
        if places.ok_or(too_large)? > processes {
            return Err(too_large);
        }
        Ok(Cartesian { dims: dims.to_vec(), periodic: periodic.to_vec() })
    }

    /// Length of each dimension.
    pub fn dims(&self) -> &[i32] {
        &self.dims
    }

    /// Whether each dimension is a ring.
    pub fn periodic(&self) -> &[bool] {
        &self.periodic
    }

    /// Number of places in the grid.
    pub fn size(&self) -> usize {
        self.dims.iter().map(|&length| length as usize).product()
    }

    /// The coordinates of a place, which must be in the grid.
    pub fn coords(&self, place: usize) -> Vec<i32> {
        let mut rest = place;
        let mut coords = vec![0; self.dims.len()];
        for (coordinate, &length) in coords.iter_mut().zip(&self.dims).rev() {
            *coordinate = (rest % length as usize) as i32;
            rest /= length as usize;
        }
        coords
    }

    /// The place at these coordinates, which wrap round in periodic dimensions.
    ///
    /// # Errors
    /// [`GridError::Outside`]; [`GridError::Dimensions`] unless there is one coordinate per
    /// dimension.
    pub fn place(&self, coords: &[i32]) -> Result<usize, GridError> {
        if coords.len() != self.dims.len() {
            return Err(GridError::Dimensions);
        }
        let mut place = 0;
        for ((&coordinate, &length), &periodic) in coords.iter().zip(&self.dims).zip(&self.periodic)
        {
            let inside = if periodic { coordinate.rem_euclid(length) } else { coordinate };
            if !(0..length).contains(&inside) {
                return Err(GridError::Outside { coordinate, length });
            }
            place = place * length as usize + inside as usize;
        }
        Ok(place)
    }

    /// The source and the destination of a shift by `by` along a dimension; `None` beyond the edge.
    ///
    /// # Errors
    /// [`GridError::NoSuchDimension`].
    pub fn shift(
        &self,
        place: usize,
        dimension: i32,
        by: i32,
    ) -> Result<(Option<usize>, Option<usize>), GridError> {
        let dimensions = self.dims.len();
        let at = usize::try_from(dimension).ok().filter(|&at| at < dimensions);
        let at = at.ok_or(GridError::NoSuchDimension { dimension, dimensions })?;
        let coords = self.coords(place);
        let neighbour = |by: i32| {
            let mut there = coords.clone();
            there[at] = there[at].checked_add(by)?;
            self.place(&there).ok()
        };
        Ok((by.checked_neg().and_then(neighbour), neighbour(by)))
    }

    /// The grid of the kept dimensions. For `place` it also returns the number of its subgrid and
    /// the place in it (for a split).
    pub fn sub(&self, keep: &[bool], place: usize) -> (Cartesian, i32, i32) {
        let coords = self.coords(place);
        let (mut color, mut key) = (0, 0);
        let mut kept = Cartesian { dims: Vec::new(), periodic: Vec::new() };
        for (i, &length) in self.dims.iter().enumerate() {
            if keep.get(i).copied().unwrap_or(false) {
                key = key * length + coords[i];
                kept.dims.push(length);
                kept.periodic.push(self.periodic[i]);
            } else {
                color = color * length + coords[i];
            }
        }
        (kept, color, key)
    }
}

/// Fills in the dimensions that are 0 so that the product of all is `processes`
/// (`MPI_Dims_create`). The filled dimensions become as equal as possible, the longer ones first,
/// as in MPICH. The longest exceeds the shortest by as little as possible. Among such choices the
/// shortest is as long as possible, then the next, and so on.
///
/// # Errors
/// [`GridError::Dimensions`] if a dimension is negative; [`GridError::DoesNotFit`] when the given
/// dimensions do not divide `processes`.
pub fn balanced_dims(processes: usize, dims: &mut [i32]) -> Result<(), GridError> {
    let does_not_fit = GridError::DoesNotFit { processes };
    let mut rest = processes;
    for &length in dims.iter().filter(|&&length| length != 0) {
        let length = usize::try_from(length).map_err(|_| GridError::Dimensions)?;
        rest = if rest.is_multiple_of(length) { rest / length } else { return Err(does_not_fit) };
    }
    let open = dims.iter().filter(|&&length| length == 0).count();
    if open == 0 {
        return if rest == 1 { Ok(()) } else { Err(does_not_fit) };
    }
    // The most unequal choice: every other choice is better.
    let mut best = vec![1; open];
    best[0] = rest;
    search(rest, rest, &mut Vec::with_capacity(open), open, &mut best);
    let mut found = best.into_iter();
    for length in dims.iter_mut().filter(|length| **length == 0) {
        *length = found.next().and_then(|n| i32::try_from(n).ok()).ok_or(does_not_fit)?;
    }
    Ok(())
}

/// Tries all products of `open` further factors, in falling order. Keeps the choice whose factors
/// differ least, then the one with the largest smallest factor, then the next smallest, and so on.
fn search(rest: usize, most: usize, so_far: &mut Vec<usize>, open: usize, best: &mut Vec<usize>) {
    if open == 1 {
        so_far.push(rest);
        if rest <= most && is_better(so_far, best) {
            best.clone_from(so_far);
        }
        so_far.pop();
        return;
    }
    for factor in divisors(rest).into_iter().filter(|&factor| factor <= most) {
        // The rest must be a product of factors that are not larger.
        if factor.checked_pow(open as u32).is_none_or(|product| product >= rest) {
            so_far.push(factor);
            search(rest / factor, factor, so_far, open - 1, best);
            so_far.pop();
        }
    }
}

fn is_better(factors: &[usize], than: &[usize]) -> bool {
    let difference = width(factors).cmp(&width(than));
    difference.then_with(|| than.iter().rev().cmp(factors.iter().rev())).is_lt()
}

/// Difference between the first factor and the last.
fn width(factors: &[usize]) -> usize {
    let (first, last) = (factors.first(), factors.last());
    first.zip(last).map_or(0, |(first, last)| first - last)
}

fn divisors(n: usize) -> Vec<usize> {
    let small = (1..=n.isqrt()).filter(|&d| n.is_multiple_of(d));
    let mut all: Vec<usize> = small.flat_map(|d| [d, n / d]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims<const N: usize>(processes: usize, given: [i32; N]) -> Result<[i32; N], GridError> {
        let mut dims = given;
        balanced_dims(processes, &mut dims).map(|()| dims)
    }

    #[test]
    fn dimensions_are_balanced() {
        assert_eq!(dims(6, [0, 0]), Ok([3, 2]));
        assert_eq!(dims(7, [0, 0]), Ok([7, 1]));
        assert_eq!(dims(6, [0, 3, 0]), Ok([2, 3, 1]));
        assert_eq!(dims(7, [0, 3, 0]), Err(GridError::DoesNotFit { processes: 7 }));
        assert_eq!(dims(16, [0, 0, 0]), Ok([4, 2, 2]));
        assert_eq!(dims(64, [0, 0, 0]), Ok([4, 4, 4]));
        assert_eq!(dims(36, [0, 0, 0]), Ok([4, 3, 3]));
        assert_eq!(dims(1, [0, 0]), Ok([1, 1]));
        // MPICH's choice, although 21 x 20 x 11 has a shorter longest side.
        assert_eq!(dims(4620, [0, 0, 0]), Ok([22, 15, 14]));
        assert_eq!(dims(3600, [0, 0, 0, 0]), Ok([10, 10, 6, 6]));
        // Neither 20 x 18 x 14 nor 13 x 12 x 6 x 6, which are equally unequal.
        assert_eq!(dims(5040, [0, 0, 0]), Ok([21, 16, 15]));
        assert_eq!(dims(5616, [0, 0, 0, 0]), Ok([13, 9, 8, 6]));
        assert_eq!(dims(12, [0]), Ok([12]));
        assert_eq!(dims(12, [4, 3]), Ok([4, 3]));
        assert_eq!(dims(12, [4, 4]), Err(GridError::DoesNotFit { processes: 12 }));
    }

    #[test]
    fn places_and_coordinates() {
        let grid = Cartesian::new(&[3, 4], &[true, false], 13).unwrap();
        for place in 0..grid.size() {
            assert_eq!(grid.place(&grid.coords(place)), Ok(place));
        }
        assert_eq!(grid.coords(7), [1, 3]);
        assert_eq!(grid.place(&[-1, 0]), Ok(8));
        assert_eq!(grid.place(&[0, 4]), Err(GridError::Outside { coordinate: 4, length: 4 }));
        assert_eq!(grid.shift(0, 0, 1), Ok((Some(8), Some(4))));
        assert_eq!(grid.shift(0, 1, 1), Ok((None, Some(1))));
        assert!(grid.shift(0, 2, 1).is_err());
        let (rows, color, key) = grid.sub(&[false, true], 7);
        assert_eq!((rows.dims(), color, key), (&[4][..], 1, 3));
        assert!(Cartesian::new(&[3, 5], &[true, false], 13).is_err());
    }
}
