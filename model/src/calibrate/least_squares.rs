//! Weighted linear least squares with non-negative parameters and confidence intervals.

use super::CalibrationError;
use crate::Sourced;
use nalgebra::{DMatrix, DVector};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The confidence of the intervals.
const CONFIDENCE: f64 = 0.95;
/// A singular value below this fraction of the largest counts as zero.
const RANK_TOLERANCE: f64 = 1e-9;

/// One measurement: its value should be the sum of terms times parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation<const N: usize> {
    /// The factor of each parameter in the sum.
    pub terms: [f64; N],
    /// The measured value.
    pub value: f64,
}

/// A fitted parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// The parameter's name.
    pub name: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// The value.
    pub value: f64,
    /// Lower end of its 95 % confidence interval; `None` if there are no more measurements than
    /// parameters.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Whether the parameter was left out: the best fit would make it negative, and no time is
    /// negative.
    pub left_out: bool,
}

/// A fitted linear model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The part of a launch.
    pub what: &'static str,
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// The number of measurements.
    pub samples: usize,
    /// The largest relative error of the model over all observations, in percent.
    pub worst_percent: f64,
}

/// The solution of one unconstrained problem.
struct Solution {
    values: DVector<f64>,
    /// Standard errors, if there are more measurements than parameters.
    errors: Option<DVector<f64>>,
}

/// Fits `parameters`, given as name and unit, to observations, each weighted by
/// the inverse of its value. A parameter that would be negative is left out.
///
/// # Errors
/// There are fewer observations than parameters, or the observations are too much alike.
pub fn fit<const N: usize>(
    what: &'static str,
    parameters: [(&'static str, &'static str); N],
    observations: Vec<Observation<N>>,
) -> Result<Fit, CalibrationError> {
    let samples = observations.len();
    if samples < N {
        return Err(CalibrationError::TooFew { what, samples, parameters: N });
    }
    let mut kept: Vec<usize> = (0..N).collect();
    let solution = loop {
        let solution = solve(what, &observations, &kept)?;
        // Each round leaves one parameter out, so there are at most N rounds.
        match solution.values.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)) {
            Some((worst, &value)) if value < 0.0 => kept.remove(worst),
            Some(_) | None => break solution,
        };
    };
    let mut fitted: Vec<Parameter> = parameters
        .into_iter()
        .map(|(name, unit)| Parameter {
            name,
            unit,
            value: 0.0,
            low: None,
            high: None,
            left_out: true,
        })
        .collect();
    let margin = margin(samples - kept.len());
    for (at, &index) in kept.iter().enumerate() {
        let parameter = &mut fitted[index];
        let half = solution.errors.as_ref().zip(margin).map(|(errors, t)| errors[at] * t);
        parameter.value = solution.values[at];
        parameter.low = half.map(|half| parameter.value - half);
        parameter.high = half.map(|half| parameter.value + half);
        parameter.left_out = false;
    }
    let worst_percent = observations
        .iter()
        .map(|observation| observation.error_percent(&fitted))
        .fold(0.0, f64::max);
    Ok(Fit { what, parameters: fitted, samples, worst_percent })
}

/// Least squares with only the parameters of these numbers.
fn solve<const N: usize>(
    what: &'static str,
    observations: &[Observation<N>],
    kept: &[usize],
) -> Result<Solution, CalibrationError> {
    let rows = observations.len();
    let weight = |row: usize| observations[row].weight();
    let terms = DMatrix::from_fn(rows, kept.len(), |row, column| {
        weight(row) * observations[row].terms[kept[column]]
    });
    let values = DVector::from_fn(rows, |row, _| weight(row) * observations[row].value);
    // All columns get length 1, so that the tolerance means the same for each.
    let lengths = DVector::from_iterator(kept.len(), terms.column_iter().map(|c| c.norm()));
    if lengths.iter().any(|&length| length == 0.0) {
        return Err(CalibrationError::Alike { what });
    }
    let scaled =
        DMatrix::from_fn(rows, kept.len(), |row, column| terms[(row, column)] / lengths[column]);
    let svd = scaled.clone().svd(true, true);
    if svd.rank(RANK_TOLERANCE * svd.singular_values.max()) < kept.len() {
        return Err(CalibrationError::Alike { what });
    }
    let alike = |_| CalibrationError::Alike { what };
    let solution = svd.solve(&values, 0.0).map_err(alike)?;
    let free = rows - kept.len();
    let errors = if free == 0 {
        None
    } else {
        let variance = (&scaled * &solution - &values).norm_squared() / free as f64;
        let inverse = (scaled.transpose() * &scaled).try_inverse();
        let inverse = inverse.ok_or(CalibrationError::Alike { what })?;
        Some(DVector::from_fn(kept.len(), |at, _| {
            (variance * inverse[(at, at)]).sqrt() / lengths[at]
        }))
    };
    Ok(Solution { values: solution.component_div(&lengths), errors })
}

/// How many standard errors the confidence interval extends to either side of the value.
fn margin(free: usize) -> Option<f64> {
    let distribution = StudentsT::new(0.0, 1.0, free as f64).ok()?;
    Some(distribution.inverse_cdf(f64::midpoint(1.0, CONFIDENCE)))
}

impl<const N: usize> Observation<N> {
    /// The weight makes errors relative. An observation of 0 has an absolute error only.
    fn weight(&self) -> f64 {
        if self.value > 0.0 { 1.0 / self.value } else { 1.0 }
    }

    fn error_percent(&self, parameters: &[Parameter]) -> f64 {
        let modelled: f64 =
            self.terms.iter().zip(parameters).map(|(term, one)| term * one.value).sum();
        (modelled - self.value).abs() * self.weight() * 100.0
    }
}

impl Fit {
    /// A parameter in the form that a profile has.
    pub(super) fn sourced(&self, index: usize, measured: &str) -> Sourced {
        let Parameter { value, low, high, left_out, .. } = self.parameters[index];
        let how = if left_out { "fitted as none" } else { "fitted" };
        let (what, samples) = (self.what, self.samples);
        let source = format!("{how} to {samples} measurements of the {what}, {measured}");
        Sourced { value, low, high, source }
    }
}
