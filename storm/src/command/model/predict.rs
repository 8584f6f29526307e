//! `model predict`.

use super::{chunk_bytes, fan_out, number};
use crate::cli::PredictOptions;
use crate::command::machine_profile;
use crate::failure::Failure;
use crate::output::{Output, Sheet};
use serde::Serialize;
use storm_model::{
    Metres, Mib, Network, NodeCount, Prediction, Profile, Question, Sourced, predict,
};

/// A fitted value is uncertain if half of its confidence interval exceeds this part of it, in
/// percent.
const WIDE_PERCENT: f64 = 50.0;

/// The prediction, or the profile if it is requested.
pub(super) fn answer(options: &PredictOptions, output: &dyn Output) -> Result<String, Failure> {
    let profile = machine_profile::named(&options.profile)?;
    if options.show_profile {
        return Ok(output.sheet(&machine_profile::shown(&profile)?));
    }
    let prediction = predict(&profile.machine, &question(options)?)?;
    Ok(output.sheet(&sheet(&profile.machine, &prediction)))
}

fn question(options: &PredictOptions) -> Result<Question, Failure> {
    // Options without a number of nodes only print a profile, which is done above.
    let nodes = NodeCount::new(options.nodes.unwrap_or_default())?;
    Ok(Question {
        nodes,
        processes_per_node: options.pes,
        size: Mib::from_bytes(options.bytes),
        fan_out: fan_out(options.fan_out)?,
        chunk_bytes: chunk_bytes(options.chunk)?,
        cable: options.cable.map(Metres::new).transpose()?,
        quantum_us: options.quantum.map(|quantum| quantum.as_secs_f64() * 1e6),
    })
}

fn sheet(profile: &Profile, prediction: &Prediction) -> Sheet {
    let Prediction { launch, strobe, .. } = prediction;
    let ms = |value: f64| format!("{} ms", number(value));
    let us = |value: f64| format!("{} us", number(value));
    let tree = prediction.fan_out.zip(prediction.depth);
    let tree = tree.map(|(fan_out, depth)| format!("fan-out {fan_out}, {depth} levels"));
    let quantum = prediction.quantum.map(|cost| {
        let (percent, quantum_ms) = (number(cost.cost_percent), number(cost.quantum_us / 1e3));
        format!("{percent} % of {quantum_ms} ms, mostly {}", cost.limit)
    });
    let uncertain = uncertain(profile);
    let sheet = Sheet::new(&Answer { prediction, uncertain: &uncertain })
        .pairs(vec![
            ("Machine", format!("{}: {}", profile.name, profile.about)),
            ("Nodes", prediction.nodes.to_string()),
            ("Tree", tree.unwrap_or_default()),
            ("Launch", ms(launch.total_ms)),
            ("  transfer", ms(launch.transfer_ms)),
            ("    read", ms(launch.read_ms)),
            ("    send", ms(launch.send_ms)),
            ("    write", ms(launch.write_ms)),
            ("  exec", ms(launch.exec_ms)),
            ("  slice", ms(launch.slice_ms)),
            ("Strobe", us(strobe.strobe_us)),
            ("Skew of nodes", us(strobe.skew_us)),
            ("Switch of rows", us(strobe.switch_us)),
            ("Quantum costs", quantum.unwrap_or_default()),
            ("COMPARE-AND-WRITE", us(prediction.compare_and_write_us)),
        ])
        .table(
            [">MS", "OF THE LAUNCH IS FOR"],
            launch.parts.iter().map(|part| vec![number(part.time_ms), part.limit.to_string()]),
        )
        .note(match profile.network {
            Network::Multicast(_) | Network::Tree(_) => {
                "Reading, sending and writing overlap, so that they add up to more than the \
                 transfer; the parts in the last table add up."
            }
            Network::SharedHost(_) => {
                "One host does all of the work, one thing after the other: nothing overlaps, \
                 everything adds up."
            }
        });
    if uncertain.is_empty() {
        return sheet;
    }
    let list = uncertain.iter().map(Uncertain::to_string).collect::<Vec<_>>().join("; ");
    sheet.note(format!(
        "UNCERTAIN: the calibration measured these values poorly, so their results are uncertain \
         too: {list}. Calibrate on a quieter machine, with more --runs and more numbers of \
         --nodes."
    ))
}

/// The output for programs.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    prediction: &'a Prediction,
    /// Values with wide confidence intervals.
    uncertain: &'a [Uncertain],
}

/// A fitted value with a wide confidence interval.
#[derive(Debug, PartialEq, Serialize)]
struct Uncertain {
    key: &'static str,
    value: f64,
    low: f64,
    high: f64,
}

impl Uncertain {
    fn of(key: &'static str, sourced: &Sourced) -> Option<Uncertain> {
        let Sourced { value, low, high, .. } = *sourced;
        let (low, high) = low.zip(high)?;
        let wide = (high - low) / 2.0 > value.abs() * WIDE_PERCENT / 100.0;
        wide.then_some(Uncertain { key, value, low, high })
    }
}

impl std::fmt::Display for Uncertain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Uncertain { key, value, low, high } = self;
        let key = key.rsplit('.').next().unwrap_or(key);
        write!(f, "{key} {} ({} to {})", number(*value), number(*low), number(*high))
    }
}

fn uncertain(profile: &Profile) -> Vec<Uncertain> {
    profile.values().into_iter().filter_map(|(key, value)| Uncertain::of(key, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wide_intervals_are_uncertain() {
        let fitted = |low, high| Sourced { low, high, ..Sourced::new(10.0, "fitted") };
        assert_eq!(Uncertain::of("a.b-ms", &fitted(Some(6.0), Some(14.0))), None);
        assert_eq!(Uncertain::of("a.b-ms", &fitted(None, None)), None);
        let wide = Uncertain::of("a.b-ms", &fitted(Some(-2.0), Some(22.0))).expect("it is wide");
        assert_eq!(wide.to_string(), "b-ms 10.00 (-2.00 to 22.00)");
    }
}
