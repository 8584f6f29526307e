//! `model calibrate`: launches do-nothing programs on clusters of real daemons on this machine, and
//! fits the model to their times.
//!
//! Each launch has a cluster of its own, so that it resembles the launch of a new program on a
//! quiet cluster. Shapes alternate, so that other load on this machine disturbs all of them alike.

mod do_nothing;
mod measure;
mod strobe_log;

use super::number;
use crate::cli::CalibrateOptions;
use crate::config::NetworkConfig;
use crate::failure::Failure;
use crate::output::Sheet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use storm_model::calibrate::{
    Calibration, CalibrationError, Fit, LaunchSample, StrobeSample, Surroundings, calibrate,
};
use tempfile::NamedTempFile;

/// Least number of node counts that separates the terms of the execution.
const LEAST_NODE_COUNTS: usize = 3;

/// All measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Measured {
    launches: Vec<LaunchSample>,
    strobes: Vec<StrobeSample>,
    /// Number of launches for which the cluster reported no parts.
    without_parts: u32,
}

/// Measures, fits and writes the profile.
pub(super) async fn sheet(options: &CalibrateOptions, silent: bool) -> Result<Sheet, Failure> {
    let counts: BTreeSet<u32> = options.nodes.iter().copied().collect();
    if counts.len() < LEAST_NODE_COUNTS {
        let (what, parameters) = ("execution", LEAST_NODE_COUNTS);
        return Err(CalibrationError::TooFew { what, samples: counts.len(), parameters }.into());
    }
    // Checked before the measurement, which takes a minute.
    let file = options.output.as_deref().map(begin_file).transpose()?;
    let earlier = options.with.as_deref().map(earlier).transpose()?.unwrap_or_default();
    let measured = measure::all(options, &counts, silent).await?.and(earlier);
    let calibration = calibrate(&measured.launches, &measured.strobes, &surroundings())?;
    if let (Some(file), Some(path)) = (file, &options.output) {
        end_file(file, path, &calibration.profile.to_toml())?;
    }
    Ok(shown(options, &measured, &calibration))
}

/// The output for programs: the fit and its data.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    calibration: &'a Calibration,
    #[serde(flatten)]
    measured: &'a Measured,
}

fn surroundings() -> Surroundings {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // The defaults, as of a cluster without a configuration.
    let network = NetworkConfig::default();
    Surroundings {
        processors: u32::try_from(processors).unwrap_or(u32::MAX),
        chunk_bytes: network.chunk_bytes,
        chunk_slots: network.chunk_slots,
        measured: format!("on {}", jiff::Zoned::now().strftime("%Y-%m-%d")),
    }
}

fn shown(options: &CalibrateOptions, measured: &Measured, calibration: &Calibration) -> Sheet {
    let fits = [&calibration.transfer, &calibration.exec, &calibration.strobe];
    let columns = ["OF", "TERM", ">VALUE", ">LOW", ">HIGH", "UNIT"];
    let sheet = Sheet::new(&Report { calibration, measured })
        .table(columns, fits.into_iter().flat_map(parameters))
        .table(
            ["OF", ">SHAPES", ">WORST %"],
            fits.map(|fit| {
                vec![fit.what.to_owned(), fit.samples.to_string(), number(fit.worst_percent)]
            }),
        )
        .note(
            "LOW and HIGH are a 95 % confidence interval; a term without one would be negative \
             and is left out. WORST is the largest error of the fit at any shape.",
        );
    let sheet = match measured.without_parts {
        0 => sheet,
        count => sheet.note(format!("{count} launches are left out: their parts are not known.")),
    };
    match &options.output {
        Some(path) => {
            let path = path.display();
            sheet.note(format!("Written to {path}: storm model predict --profile {path} --nodes N"))
        }
        None => sheet,
    }
}

fn parameters(fit: &Fit) -> Vec<Vec<String>> {
    let optional = |value: Option<f64>| value.map_or_else(String::new, number);
    let row = |parameter: &storm_model::calibrate::Parameter| {
        vec![
            fit.what.to_owned(),
            if parameter.name.is_empty() { "fixed" } else { parameter.name }.to_owned(),
            number(parameter.value),
            optional(parameter.low),
            optional(parameter.high),
            parameter.unit.to_owned(),
        ]
    };
    fit.parameters.iter().map(row).collect()
}

impl Measured {
    fn and(mut self, other: Measured) -> Measured {
        self.launches.extend(other.launches);
        self.strobes.extend(other.strobes);
        self.without_parts += other.without_parts;
        self
    }
}

/// Reads the output of an earlier calibration.
fn earlier(path: &Path) -> Result<Measured, Failure> {
    let unreadable = |cause: String| {
        let mut failure = Failure::new("file", format!("{} cannot be read", path.display()));
        failure.causes.push(cause);
        failure.hint("give --with the output of `storm model calibrate --json`")
    };
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))
}

/// Makes a file next to the requested one, so that no reader ever sees a partial file.
fn begin_file(path: &Path) -> Result<NamedTempFile, Failure> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        Some(_) | None => Path::new("."),
    };
    NamedTempFile::new_in(directory).map_err(|error| unwritable(path, &error))
}

fn end_file(mut file: NamedTempFile, path: &Path, text: &str) -> Result<(), Failure> {
    file.write_all(text.as_bytes()).map_err(|error| unwritable(path, &error))?;
    file.persist(path).map(drop).map_err(|error| unwritable(path, &error.error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let mut failure = Failure::new("file", format!("{} cannot be written", path.display()));
    failure.causes.push(error.to_string());
    failure.hint("give --output a file in a directory that exists and is yours")
}
