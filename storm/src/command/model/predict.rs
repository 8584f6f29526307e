//! `model predict`.

use super::{chunk_bytes, fan_out, number};
use crate::cli::PredictOptions;
use crate::failure::Failure;
use crate::output::{Output, Sheet};
use storm_model::{Metres, Mib, NodeCount, Prediction, Profile, Question, predict};

/// The prediction, or the profile where that is asked for.
pub(super) fn answer(options: &PredictOptions, output: &dyn Output) -> Result<String, Failure> {
    let profile = super::profile_source::profile(&options.profile)?;
    if options.show_profile {
        return Ok(output.sheet(&Sheet::new(&profile).verbatim(profile.to_toml()?)));
    }
    let prediction = predict(&profile, &question(options)?)?;
    Ok(output.sheet(&sheet(&profile, &prediction)))
}

fn question(options: &PredictOptions) -> Result<Question, Failure> {
    // Without a number of nodes only the profile can be shown.
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
    Sheet::new(prediction)
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
            ("  skew", us(strobe.skew_us)),
            ("  switch", us(strobe.switch_us)),
            ("Quantum costs", quantum.unwrap_or_default()),
            ("COMPARE-AND-WRITE", us(prediction.compare_and_write_us)),
        ])
        .table(
            [">MS", "OF THE LAUNCH IS FOR"],
            launch.parts.iter().map(|part| vec![number(part.time_ms), part.limit.to_string()]),
        )
        .note("Reading, sending and writing overlap; what is last adds up.")
}
