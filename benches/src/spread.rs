//! The median of a few measurements and their spread. There is no mean, because one disturbed run
//! of three would distort it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Median, least and greatest of several measurements of one quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle value, or the mean of the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The number of values.
    pub runs: usize,
}

impl Spread {
    /// The spread of `values`; all zero if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let runs = values.len();
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Spread { median: 0.0, min: 0.0, max: 0.0, runs: 0 };
        };
        let median = f64::midpoint(values[(runs - 1) / 2], values[runs / 2]);
        Spread { median, min, max, runs }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.median.abs() < 10.0 { 2 } else { 0 };
        write!(f, "{:.digits$} [{:.digits$}..{:.digits$}]", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_odd_even_and_no_values() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).median, 2.0);
        let even = Spread::of([4.0, 1.0, 2.0, 3.0]);
        assert_eq!((even.median, even.min, even.max, even.runs), (2.5, 1.0, 4.0, 4));
        assert_eq!(Spread::of([]).runs, 0);
    }

    #[test]
    fn small_values_keep_their_digits() {
        assert_eq!(Spread::of([1.234]).to_string(), "1.23 [1.23..1.23]");
        assert_eq!(Spread::of([123.4]).to_string(), "123 [123..123]");
    }
}
