//! Fitting. Known parameters are recovered from their predictions, noise widens the intervals, and
//! measurements that determine nothing are refused.

use proptest::prelude::*;
use storm_model::calibrate::{
    Calibration, CalibrationError, LaunchSample, Observation, StrobeSample, Surroundings,
    calibrate, fit,
};
use storm_model::{Mib, NodeCount, Profile, Question, predict};

const NODES: [u32; 3] = [2, 8, 32];
const PROCESSES_PER_NODE: u32 = 4;

fn surroundings() -> Surroundings {
    let measured = "in a test".to_owned();
    Surroundings { processors: 2, chunk_bytes: 512 << 10, chunk_slots: 2, measured }
}

/// A launch of a machine with known parameters, its total changed by a factor.
fn launch(nodes: u32, mib: f64, noise: f64) -> LaunchSample {
    let processes = nodes * PROCESSES_PER_NODE;
    let (n, p) = (f64::from(nodes), f64::from(processes));
    let exec_ms = 3.0 + 0.8 * p + 1.5 * p * p / 1e3;
    let transfer_ms = 5.0 + 1.2 * mib + 0.3 * n + n * mib * (2.5 + 12.0 * n / 1e3);
    LaunchSample {
        nodes,
        processes,
        sent: Mib::new(mib).unwrap(),
        read_ms: 0.4 * transfer_ms * noise,
        write_ms: 0.1 * transfer_ms * noise,
        exec_ms: exec_ms * noise,
        slice_ms: 0.0,
        total_ms: (transfer_ms + exec_ms) * noise,
    }
}

fn strobe(nodes: u32) -> StrobeSample {
    let last_us = 60.0 + 7.0 * f64::from(nodes - 1);
    StrobeSample { nodes, first_us: 60.0, last_us, switch_us: 20.0 }
}

fn launches(noise: impl Fn(usize) -> f64) -> Vec<LaunchSample> {
    let sizes = [0.0, 2.0, 8.0];
    let shapes = NODES.into_iter().flat_map(|nodes| sizes.map(|mib| (nodes, mib)));
    shapes.enumerate().map(|(at, (nodes, mib))| launch(nodes, mib, noise(at))).collect()
}

fn calibrated(launches: &[LaunchSample]) -> Calibration {
    calibrate(launches, &NODES.map(strobe), &surroundings()).unwrap()
}

#[test]
fn known_parameters_come_back_and_predict_a_larger_machine() {
    let calibration = calibrated(&launches(|_| 1.0));
    let values = |fit: &storm_model::calibrate::Fit| {
        fit.parameters.iter().map(|one| (one.value * 1e6).round() / 1e6).collect::<Vec<_>>()
    };
    assert_eq!(values(&calibration.transfer), [5.0, 1.2, 0.3, 2.5, 12.0]);
    assert_eq!(values(&calibration.exec), [3.0, 0.8, 1.5]);
    assert_eq!(values(&calibration.strobe), [60.0, 7.0]);
    assert!(calibration.transfer.worst_percent < 1e-6);
    let question = Question {
        processes_per_node: PROCESSES_PER_NODE,
        size: Mib::new(12.0).unwrap(),
        ..Question::of(NodeCount::new(64).unwrap())
    };
    let prediction = predict(&calibration.profile, &question).unwrap();
    let measured = launch(64, 12.0, 1.0);
    assert!((prediction.launch.total_ms - measured.total_ms).abs() < 1e-6);
    assert!((prediction.launch.read_ms - measured.read_ms).abs() < 1e-6);
    assert!((prediction.strobe.strobe_us - strobe(64).last_us).abs() < 1e-6);
}

#[test]
fn a_calibrated_profile_survives_its_text() {
    let profile = calibrated(&launches(|at| 1.0 + 0.02 * at as f64)).profile;
    assert_eq!(Profile::from_toml(&profile.to_toml()).unwrap(), profile);
}

#[test]
fn a_disturbed_launch_does_not_move_the_median_of_three() {
    let quiet = launches(|_| 1.0);
    let mut samples = [quiet.clone(), quiet.clone(), quiet.clone()].concat();
    samples[4] = LaunchSample { total_ms: 1e5, exec_ms: 9e4, ..samples[4] };
    assert_eq!(calibrated(&samples).transfer, calibrated(&quiet).transfer);
}

#[test]
fn uninformative_measurements_are_refused() {
    let strobes = NODES.map(strobe);
    let alike = vec![launch(2, 8.0, 1.0); 9];
    let error = calibrate(&alike, &strobes, &surroundings()).unwrap_err();
    assert!(matches!(error, CalibrationError::TooFew { samples: 1, .. }), "{error}");
    let one_size: Vec<_> = [2, 4, 8, 16, 32].map(|nodes| launch(nodes, 8.0, 1.0)).into();
    let error = calibrate(&one_size, &strobes, &surroundings()).unwrap_err();
    assert!(matches!(error, CalibrationError::Alike { .. }), "{error}");
    assert!(error.hint().contains("--sizes"));
    let mut wrong = launches(|_| 1.0);
    wrong[0].total_ms = f64::NAN;
    let error = calibrate(&wrong, &strobes, &surroundings()).unwrap_err();
    assert!(matches!(error, CalibrationError::Sample(_)), "{error}");
}

#[test]
fn a_parameter_that_would_be_negative_is_left_out() {
    let observations =
        [1.0, 2.0, 3.0, 4.0].map(|x| Observation { terms: [1.0, x], value: 2.0 * x - 0.5 });
    let fit = fit("line", [("fixed", "ms"), ("slope", "ms")], observations.into()).unwrap();
    assert!(fit.parameters[0].left_out && fit.parameters[0].value == 0.0);
    assert!(fit.parameters[1].value > 1.5);
}

#[test]
fn the_interval_of_a_slope_is_the_textbooks() {
    let xs = [1.0, 2.0, 3.0, 4.0, 5.0];
    let observations: Vec<Observation<1>> = xs
        .iter()
        .map(|&x| Observation { terms: [x], value: x * (1.0 + 0.1 * (x - 3.0)) })
        .collect();
    // With weights 1/y the model is 1 = slope x/y: slope = sum(x/y) / sum((x/y)^2).
    let ratios: Vec<f64> = observations.iter().map(|one| one.terms[0] / one.value).collect();
    let squares: f64 = ratios.iter().map(|ratio| ratio * ratio).sum();
    let slope = ratios.iter().sum::<f64>() / squares;
    let variance = ratios.iter().map(|ratio| (1.0 - slope * ratio).powi(2)).sum::<f64>() / 4.0;
    // Student's t with 4 degrees of freedom, 97.5 %.
    let half = 2.776_445 * (variance / squares).sqrt();
    let fit = fit("slope", [("slope", "ms")], observations).unwrap();
    let found = &fit.parameters[0];
    assert!((found.value - slope).abs() < 1e-9);
    assert!((found.high.unwrap() - found.value - half).abs() < 1e-5);
    assert!((found.value - found.low.unwrap() - half).abs() < 1e-5);
}

proptest! {
    #[test]
    fn no_measurements_panic(
        values in prop::collection::vec((1u32..100, 0.0..20.0, 0.0..1e6, 1e-3..1e6), 0..20),
    ) {
        let samples: Vec<LaunchSample> = values
            .into_iter()
            .map(|(nodes, mib, exec_ms, total_ms)| {
                LaunchSample { exec_ms, total_ms, ..launch(nodes, mib, 1.0) }
            })
            .collect();
        let strobes = NODES.map(strobe);
        if let Ok(calibration) = calibrate(&samples, &strobes, &surroundings()) {
            prop_assert!(calibration.profile.check().is_ok());
        }
    }
}
