//! A two-dimensional complex Fourier transform and its inverse: rows, a transposition, rows again.
//!
//! Every rank has some rows. The transposition sends a block from every rank to every rank
//! (`MPI_Alltoall`). One rank transforms a whole row. The factors come from square roots, which
//! IEEE 754 rounds in one way; a library's sines may differ. The spectrum therefore has the same
//! bits on any number of ranks and in C (`c/fft.c`).

use crate::answer::Answer;
use crate::checksum::{of_all, term, unit};
use crate::failure::Failure;
use clap::Args;
use std::ops::{Add, Mul, Sub};
use storm_mpi::{CommError, Communicator, ReduceOp};

/// The largest difference of a value after both transforms; values are below 1.
const TOLERANCE: f64 = 1e-12;

/// The settings.
#[derive(Clone, Copy, Debug, Args)]
pub struct Fft {
    /// Points along a side: a power of 2, and a multiple of the number of ranks
    #[arg(default_value_t = 256)]
    pub points: usize,
    /// Times there and back
    #[arg(default_value_t = 1)]
    pub repeats: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Complex {
    re: f64,
    im: f64,
}

impl Fft {
    /// Transforms there and back.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn run(&self, comm: &Communicator) -> Result<Answer, Failure> {
        let n = self.points;
        if !n.is_power_of_two() || !n.is_multiple_of(comm.size()) {
            let why =
                format!("{n} points must be a power of 2 and a multiple of {} ranks", comm.size());
            return Err(Failure::Arguments(why));
        }
        let factors = factors(n);
        let first = comm.rank().index() * (n / comm.size()) * n;
        let places = first as u64..(first + n / comm.size() * n) as u64;
        let start: Vec<Complex> = places.clone().map(value).collect();
        let (mut data, mut sum) = (start.clone(), 0_u64);
        for _ in 0..self.repeats {
            there(comm, &mut data, n, &factors)?;
            // The spectrum is transposed on any number of ranks.
            for (place, point) in places.clone().zip(&data) {
                sum = sum.wrapping_add(term(2 * place, point.re.to_bits()));
                sum = sum.wrapping_add(term(2 * place + 1, point.im.to_bits()));
            }
            back(comm, &mut data, n, &factors)?;
        }
        let error = |(a, b): (&Complex, &Complex)| (a.re - b.re).abs().max((a.im - b.im).abs());
        let error = data.iter().zip(&start).map(error).fold(0.0, f64::max);
        let (sum, mut largest) = (of_all(comm, sum)?, [0.0]);
        comm.allreduce(&[error], &mut largest, ReduceOp::Max)?;
        let text = format!(
            "fft: {} ranks, {n} x {n} points, {} times, check sum {sum:016x}, error {:016x}",
            comm.size(),
            self.repeats,
            largest[0].to_bits()
        );
        let right = largest[0] <= TOLERANCE * f64::from(self.repeats);
        Ok(Answer { text, right: Some(right), times: None })
    }
}

/// The input at a place.
fn value(place: u64) -> Complex {
    Complex { re: unit(2 * place), im: unit(2 * place + 1) }
}

/// The forward transform: from rows of points to rows of the transposed spectrum.
fn there(
    comm: &Communicator,
    data: &mut [Complex],
    n: usize,
    factors: &[Complex],
) -> Result<(), CommError> {
    data.chunks_exact_mut(n).for_each(|row| transform(row, factors));
    transpose(comm, data, n)?;
    data.chunks_exact_mut(n).for_each(|row| transform(row, factors));
    Ok(())
}

/// The inverse transform: from rows of the transposed spectrum to rows of points. With conjugates
/// before and after, the forward transform is the inverse times the number of points.
fn back(
    comm: &Communicator,
    data: &mut [Complex],
    n: usize,
    factors: &[Complex],
) -> Result<(), CommError> {
    data.iter_mut().for_each(|point| point.im = -point.im);
    there(comm, data, n, factors)?;
    // A power of 2: the division is exact.
    let scale = 1.0 / (n * n) as f64;
    data.iter_mut()
        .for_each(|point| *point = Complex { re: point.re * scale, im: -point.im * scale });
    Ok(())
}

/// Moves row `i` of the whole matrix into column `i`.
fn transpose(comm: &Communicator, data: &mut [Complex], n: usize) -> Result<(), CommError> {
    let rows = data.len() / n;
    // The block for a rank, column by column: the rank reads it row by row.
    let mut out = Vec::with_capacity(2 * data.len());
    for column in 0..n {
        for row in 0..rows {
            let point = data[row * n + column];
            out.extend([point.re, point.im]);
        }
    }
    let mut into = vec![0.0; out.len()];
    comm.alltoall(&out, &mut into)?;
    let (points, _) = into.as_chunks::<2>();
    // Block s has, of each of my rows, the columns that were rows of rank s.
    for (i, &[re, im]) in points.iter().enumerate() {
        let (block, row, column) = (i / (rows * rows), i / rows % rows, i % rows);
        data[row * n + block * rows + column] = Complex { re, im };
    }
    Ok(())
}

/// exp(-2 pi i k / n) for k below n / 2, from halved angles: each is a product of at most log2(n).
fn factors(n: usize) -> Vec<Complex> {
    let mut factors = vec![Complex { re: 1.0, im: 0.0 }];
    factors.truncate(n / 2);
    // exp(-2 pi i / 2^j): of 4, 8, 16 ... n.
    let (mut root, mut roots) = (Complex { re: 0.0, im: -1.0 }, Vec::new());
    let mut order = 4;
    while order <= n {
        roots.push(root);
        let re = ((1.0 + root.re) / 2.0).sqrt();
        root = Complex { re, im: root.im / (2.0 * re) };
        order *= 2;
    }
    // The root of the smallest angle comes first: factor k + 2^b is factor k times root b.
    for &root in roots.iter().rev() {
        for k in 0..factors.len() {
            factors.push(factors[k] * root);
        }
    }
    factors
}

/// Transforms one row in place (decimation in time, radix 2).
fn transform(row: &mut [Complex], factors: &[Complex]) {
    let n = row.len();
    let mut reversed = 0;
    for i in 1..n {
        let mut bit = n / 2;
        while reversed & bit != 0 {
            reversed ^= bit;
            bit /= 2;
        }
        reversed |= bit;
        if i < reversed {
            row.swap(i, reversed);
        }
    }
    let mut half = 1;
    while half < n {
        for group in (0..n).step_by(2 * half) {
            for k in 0..half {
                let (a, b) = (row[group + k], row[group + k + half] * factors[k * (n / 2 / half)]);
                row[group + k] = a + b;
                row[group + k + half] = a - b;
            }
        }
        half *= 2;
    }
}

impl Add for Complex {
    type Output = Complex;
    fn add(self, other: Complex) -> Complex {
        Complex { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Complex;
    fn sub(self, other: Complex) -> Complex {
        Complex { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Complex;
    fn mul(self, other: Complex) -> Complex {
        let re = self.re * other.re - self.im * other.im;
        Complex { re, im: self.re * other.im + self.im * other.re }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    fn near(a: Complex, re: f64, im: f64) -> bool {
        (a.re - re).abs() < 1e-13 && (a.im - im).abs() < 1e-13
    }

    #[test]
    fn factors_are_the_roots_of_unity() {
        for n in [1, 2, 4, 8, 64, 4096] {
            let factors = factors(n);
            assert_eq!(factors.len(), n / 2);
            for (k, &factor) in factors.iter().enumerate() {
                let angle = TAU * k as f64 / n as f64;
                assert!(near(factor, angle.cos(), -angle.sin()), "{k} of {n}: {factor:?}");
            }
        }
    }

    #[test]
    fn a_row_is_transformed_as_defined() {
        for n in [1, 2, 4, 32] {
            let points: Vec<Complex> = (0..n as u64).map(value).collect();
            let mut row = points.clone();
            transform(&mut row, &factors(n));
            for (k, &found) in row.iter().enumerate() {
                let (re, im) = points.iter().enumerate().fold((0.0, 0.0), |(re, im), (j, x)| {
                    let (sin, cos) = (-TAU * (j * k % n) as f64 / n as f64).sin_cos();
                    (re + x.re * cos - x.im * sin, im + x.re * sin + x.im * cos)
                });
                assert!((found.re - re).abs() + (found.im - im).abs() < 1e-12, "{k} of {n}");
            }
        }
    }
}
