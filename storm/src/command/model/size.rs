//! `model size`.

use super::profile_source::profile;
use super::{chunk_bytes, fan_out, number};
use crate::cli::SizeOptions;
use crate::failure::Failure;
use crate::output::Sheet;
use storm_model::{BUILTIN_NAMES, Goal, Mib, NodeCount, Sizing, size};

/// The largest machine of each profile.
pub(super) fn sheet(options: &SizeOptions) -> Result<Sheet, Failure> {
    let goal = goal(options)?;
    let named: Vec<&str> = match options.profile.as_slice() {
        [] => BUILTIN_NAMES.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let sizings = named
        .into_iter()
        .map(|name| Ok(size(&profile(name)?, &goal)?))
        .collect::<Result<Vec<Sizing>, Failure>>()?;
    let Goal { launch_ms, quantum_us, cost_percent, .. } = goal;
    let columns = ["MACHINE", ">NODES", ">FAN-OUT", ">CHUNK KiB", ">LAUNCH ms", ">COST %", "LIMIT"];
    Ok(Sheet::new(&sizings).table(columns, sizings.iter().map(row)).note(format!(
        "Most nodes that launch {} MiB within {} ms while a time slice of {} ms costs at most {} %; \
         LIMIT is what one node more would break, and the most of that.",
        number(goal.size.get()),
        number(launch_ms),
        number(quantum_us / 1e3),
        number(cost_percent),
    )))
}

fn goal(options: &SizeOptions) -> Result<Goal, Failure> {
    Ok(Goal {
        size: Mib::from_bytes(options.bytes),
        processes_per_node: options.pes,
        launch_ms: options.launch.as_secs_f64() * 1e3,
        quantum_us: options.quantum.as_secs_f64() * 1e6,
        cost_percent: options.cost,
        most_nodes: NodeCount::new(options.nodes)?,
        fan_out: fan_out(options.fan_out)?,
        chunk_bytes: chunk_bytes(options.chunk)?,
    })
}

fn row(sizing: &Sizing) -> Vec<String> {
    let (profile, limit) = (sizing.profile.clone(), sizing.limit.to_string());
    let Some(setting) = &sizing.largest else {
        let dash = || "-".to_owned();
        return vec![profile, "0".to_owned(), dash(), dash(), dash(), dash(), limit];
    };
    let dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    vec![
        profile,
        setting.nodes.to_string(),
        dash(setting.fan_out.map(|fan_out| fan_out.to_string())),
        dash(setting.chunk_bytes.map(|bytes| (bytes >> 10).to_string())),
        number(setting.launch_ms),
        number(setting.cost_percent),
        limit,
    ]
}
