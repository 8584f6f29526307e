//! Fitting the parameters of a cluster on one host to measured launches.
//!
//! The module does not measure. Its input is samples, and its output is a profile with confidence
//! intervals. Each group of parameters is a linear model, fitted by least squares of *relative*
//! errors. So 10 % of a launch on 2 nodes count as much as 10 % of a launch on 64.

mod error;
mod least_squares;
mod sample;

pub use error::CalibrationError;
pub use least_squares::{Fit, Observation, Parameter, fit};
pub use sample::{LaunchSample, StrobeSample};

use crate::{Host, Network, Profile, Protocol, SharedHost, Sourced};
use sample::{median, medians_by_shape};
use serde::Serialize;

/// Name of the profile that a calibration makes.
const PROFILE_NAME: &str = "calibrated";

/// The parameters of a file's transfer: name, unit, and the amount of each in a launch.
const TRANSFER_TERMS: usize = 5;
/// The number of terms of the execution.
const EXEC_TERMS: usize = 3;
const STROBE_TERMS: usize = 2;

/// The facts about the host and the settings that are not in the samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Surroundings {
    /// Processors of the host.
    pub processors: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Slots of the remote queue.
    pub chunk_slots: u32,
    /// The time and place of the measurements, for the sources in the profile.
    pub measured: String,
}

/// A fitted profile, with the quality of the fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// The machine; [`crate::predict`] takes it.
    pub profile: Profile,
    /// Transfer of a file.
    pub transfer: Fit,
    /// Execution.
    pub exec: Fit,
    /// The strobe.
    pub strobe: Fit,
}

/// Fits the parameters to the samples.
///
/// # Errors
/// There are too few samples of different shapes, or a value is not a time.
pub fn calibrate(
    launches: &[LaunchSample],
    strobes: &[StrobeSample],
    surroundings: &Surroundings,
) -> Result<Calibration, CalibrationError> {
    launches.iter().try_for_each(LaunchSample::check)?;
    strobes.iter().try_for_each(StrobeSample::check)?;
    let shapes = medians_by_shape(launches);
    let transfer = fit(
        "transfer",
        [
            ("", "ms"),
            ("per MiB", "ms"),
            ("per node", "ms"),
            ("per node and MiB", "ms"),
            ("per node, MiB and thousand nodes", "ms"),
        ],
        shapes.iter().map(transfer_of).collect(),
    )?;
    let exec = fit(
        "execution",
        [("", "ms"), ("per process", "ms"), ("per process and thousand processes", "ms")],
        shapes.iter().map(exec_of).collect(),
    )?;
    let strobe = fit(
        "strobe",
        [("to the first node", "us"), ("per further node", "us")],
        strobes.iter().flat_map(strobe_of).collect(),
    )?;
    let profile = profile(&shapes, strobes, surroundings, [&transfer, &exec, &strobe]);
    Ok(Calibration { profile, transfer, exec, strobe })
}

fn transfer_of(sample: &LaunchSample) -> Observation<TRANSFER_TERMS> {
    let (nodes, mib) = (f64::from(sample.nodes), sample.sent.get());
    let bytes = nodes * mib;
    Observation {
        terms: [1.0, mib, nodes, bytes, bytes * nodes / 1e3],
        value: sample.transfer_ms(),
    }
}

fn exec_of(sample: &LaunchSample) -> Observation<EXEC_TERMS> {
    let processes = f64::from(sample.processes);
    Observation { terms: [1.0, processes, processes * processes / 1e3], value: sample.exec_ms }
}

/// A strobe gives two observations: the time until the first node had it, and the time until the
/// last node had it.
fn strobe_of(sample: &StrobeSample) -> [Observation<STROBE_TERMS>; 2] {
    let further = f64::from(sample.nodes) - 1.0;
    [
        Observation { terms: [1.0, 0.0], value: sample.first_us },
        Observation { terms: [1.0, further], value: sample.last_us },
    ]
}

fn profile(
    shapes: &[LaunchSample],
    strobes: &[StrobeSample],
    surroundings: &Surroundings,
    fits: [&Fit; 3],
) -> Profile {
    let Surroundings { processors, chunk_bytes, chunk_slots, measured } = surroundings;
    let known = |value: u32, what: &str| Sourced::new(value.into(), &format!("{what}, {measured}"));
    let middle = |value: f64, what: &str| {
        Sourced::new(value, &format!("median of {what}, measured {measured}"))
    };
    // The shares are fractions of the cost of bytes, so a launch that sends nothing has none.
    let sending = || shapes.iter().filter(|shape| shape.sent.get() > 0.0);
    let share = |part: fn(&LaunchSample) -> f64| {
        median(sending().map(|shape| (part(shape) / shape.transfer_ms()).clamp(0.0, 1.0)))
    };
    let [transfer, exec, strobe] = fits;
    let fitted = |fit: &Fit, index: usize| fit.sourced(index, measured);
    let nothing = |why: &str| Sourced::new(0.0, why);
    Profile {
        name: PROFILE_NAME.to_owned(),
        about: format!("nodes that are processes of one host, measured {measured}"),
        host: Host {
            read_mib_s: None,
            bus_mib_s: None,
            service_mib_s: None,
            write_mib_s: None,
            exec_ms: nothing("within the network's exec-ms"),
            spawn_us: nothing("within the network's exec-ms-per-process"),
            timeslice_ms: nothing("STORM begins a slice at once while no row is shared"),
            switch_us: middle(median(strobes.iter().map(|one| one.switch_us)), "switches"),
            shortest_quantum_us: None,
        },
        protocol: Protocol {
            chunk_bytes: known(*chunk_bytes, "setting of the cluster"),
            chunk_slots: known(*chunk_slots, "setting of the cluster"),
        },
        network: Network::SharedHost(Box::new(SharedHost {
            processors: known(*processors, "counted"),
            transfer_ms: fitted(transfer, 0),
            transfer_ms_per_mib: fitted(transfer, 1),
            transfer_ms_per_node: fitted(transfer, 2),
            transfer_ms_per_node_mib: fitted(transfer, 3),
            transfer_ms_per_node_mib_per_thousand: fitted(transfer, 4),
            read_share: middle(share(|shape| shape.read_ms), "launches"),
            write_share: middle(share(|shape| shape.write_ms), "launches"),
            exec_ms: fitted(exec, 0),
            exec_ms_per_process: fitted(exec, 1),
            exec_ms_per_process_per_thousand: fitted(exec, 2),
            message_us: fitted(strobe, 0),
            message_us_per_node: fitted(strobe, 1),
        })),
    }
}
