//! A sum whose rounding error does not grow with the number of terms.
//!
//! A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", ZAMM 54
//! (1974) 39: the balance check compares sums over millions of cells to 1e-10.

/// The running sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    /// Adds a term.
    pub fn add(&mut self, term: f64) {
        let total = self.sum + term;
        self.lost += if self.sum.abs() >= term.abs() {
            (self.sum - total) + term
        } else {
            (term - total) + self.sum
        };
        self.sum = total;
    }

    /// The sum so far.
    pub fn value(self) -> f64 {
        self.sum + self.lost
    }
}

impl Extend<f64> for CompensatedSum {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, terms: I) {
        terms.into_iter().for_each(|term| self.add(term));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_terms_are_not_lost() {
        let mut sum = CompensatedSum::default();
        sum.extend([1.0, 1e100, 1.0, -1e100]);
        assert_eq!(sum.value(), 2.0);
    }
}
