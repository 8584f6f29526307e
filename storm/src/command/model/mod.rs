//! `model`: queries of the analytic model, and its calibration on this machine.

mod calibrate;
mod compare;
mod predict;
mod size;
mod table;

use crate::cli::{FanOutArgument, ModelCommand};
use crate::failure::Failure;
use crate::output::Output;
use std::ops::RangeInclusive;
use storm_model::calibrate::CalibrationError;
use storm_model::{FanOut, InputError, NodeCount};

/// The failure's word for programs: the model refuses the query.
const CODE: &str = "model";

/// `model`.
pub(super) async fn run(
    command: ModelCommand,
    output: &dyn Output,
    silent: bool,
) -> Result<u8, Failure> {
    let text = match command {
        ModelCommand::Predict(options) => predict::answer(&options, output)?,
        ModelCommand::Table(options) => output.sheet(&table::sheet(options.which)),
        ModelCommand::Size(options) => output.sheet(&size::sheet(&options)?),
        ModelCommand::Calibrate(options) => {
            output.sheet(&calibrate::sheet(&options, silent).await?)
        }
        ModelCommand::Compare(options) => output.sheet(&compare::sheet(&options)?),
    };
    super::print(&text).map(|()| 0)
}

/// The requested fan-out; `None` if the model is to choose.
fn fan_out(argument: FanOutArgument) -> Result<Option<FanOut>, Failure> {
    match argument {
        FanOutArgument::Auto => Ok(None),
        FanOutArgument::Fixed(children) => Ok(Some(FanOut::new(children)?)),
    }
}

fn node_counts(counts: &[u64]) -> Result<Vec<NodeCount>, Failure> {
    counts.iter().map(|&count| NodeCount::new(count).map_err(Failure::from)).collect()
}

/// Chunk sizes that a cluster can be configured with, in bytes.
const CHUNKS: RangeInclusive<u32> = 4 << 10..=64 << 20;

/// Checks that a chunk fits the plan of global memory.
fn chunk_bytes(bytes: Option<u64>) -> Result<Option<u32>, Failure> {
    let narrow = |bytes: u64| match u32::try_from(bytes) {
        Ok(chunk) if CHUNKS.contains(&chunk) => Ok(chunk),
        Ok(_) | Err(_) => {
            let message = format!("a chunk of {bytes} bytes: it must be 4 KiB to 64 MiB");
            Err(Failure::new(CODE, message).hint("512KiB is the usual one"))
        }
    };
    bytes.map(narrow).transpose()
}

/// A number with as many digits as are useful for its size.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Failure {
        let hint = error.hint();
        Failure::of(CODE, &error).hint(hint)
    }
}

impl From<CalibrationError> for Failure {
    fn from(error: CalibrationError) -> Failure {
        let hint = error.hint();
        Failure::of(CODE, &error).hint(hint)
    }
}
