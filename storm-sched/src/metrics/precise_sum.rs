//! A sum of many numbers that keeps the part which each addition rounds away.
//!
//! Algorithm: A. Neumaier, Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen,
//! ZAMM 54 (1974).

/// A sum, and its rounding errors.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PreciseSum {
    sum: f64,
    lost: f64,
}

impl PreciseSum {
    /// Adds a number.
    pub fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let (large, small) =
            if self.sum.abs() >= value.abs() { (self.sum, value) } else { (value, self.sum) };
        self.lost += (large - sum) + small;
        self.sum = sum;
    }

    /// The sum.
    #[must_use]
    pub fn get(self) -> f64 {
        self.sum + self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_terms_survive_beside_a_large_one() {
        let mut sum = PreciseSum::default();
        for value in [1.0, 1e100, 1.0, -1e100] {
            sum.add(value);
        }
        assert_eq!(sum.get(), 2.0);
    }
}
