//! `model size`.

use super::{CODE, chunk_bytes, fan_out, number};
use crate::cli::SizeOptions;
use crate::command::machine_profile;
use crate::failure::Failure;
use crate::output::Sheet;
use serde::Serialize;
use std::collections::BTreeSet;
use storm_model::{
    BUILTIN_NAMES, Goal, InputError, Mib, NodeCount, Setting, SizeLimit, Sizing, size,
};

/// The answer for one machine.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer {
    /// The machine's size.
    Sized(Sizing),
    /// The machine cannot have such a time slice.
    Refused {
        profile: String,
        /// The reason.
        refused: String,
        #[serde(skip)]
        error: InputError,
    },
}

/// The largest machine of each profile.
pub(super) fn sheet(options: &SizeOptions) -> Result<Sheet, Failure> {
    let goal = goal(options)?;
    let named: Vec<&str> = match options.profile.as_slice() {
        [] => BUILTIN_NAMES.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let mut seen = BTreeSet::new();
    if let Some(twice) = named.iter().find(|name| !seen.insert(**name)) {
        let message = format!("the profile {twice} is named twice");
        return Err(Failure::new(CODE, message).hint("name each profile once"));
    }
    let answers = named.iter().map(|name| answer(name, &goal)).collect::<Result<Vec<_>, _>>()?;
    refuse_if_all(&goal, &answers)?;
    let columns = ["MACHINE", ">NODES", ">FAN-OUT", ">CHUNK KiB", ">LAUNCH ms", ">COST %", "LIMIT"];
    let sheet = Sheet::new(&answers)
        .table(columns, answers.iter().map(|answer| row(answer, &goal)))
        .note(meaning(&goal));
    Ok(match conclusion(&goal, &answers) {
        Some(conclusion) => sheet.note(conclusion),
        None => sheet,
    })
}

fn answer(name: &str, goal: &Goal) -> Result<Answer, Failure> {
    let profile = machine_profile::named(name)?.machine;
    match size(&profile, goal) {
        Ok(sizing) => Ok(Answer::Sized(sizing)),
        // The refusal concerns only this machine.
        Err(
            error @ (InputError::QuantumUnderStrobe { .. }
            | InputError::QuantumUnderShortest { .. }),
        ) => Ok(Answer::Refused { profile: profile.name, refused: error.to_string(), error }),
        Err(error) => Err(error.into()),
    }
}

/// If no machine can answer the question, the question is wrong.
fn refuse_if_all(goal: &Goal, answers: &[Answer]) -> Result<(), Failure> {
    let of_no_use = |answer: &Answer| match answer {
        Answer::Sized(sizing) => !sizing.not_applicable.is_empty(),
        Answer::Refused { .. } => true,
    };
    if !answers.iter().all(of_no_use) {
        return Ok(());
    }
    let refusal = answers.iter().find_map(|answer| match answer {
        Answer::Sized(_) => None,
        Answer::Refused { error, .. } => Some(error.clone()),
    });
    if let Some(error) = refusal {
        return Err(error.into());
    }
    let setting = if goal.fan_out.is_some() { "fan-out" } else { "chunk" };
    let profiles: Vec<&str> = answers.iter().map(profile).collect();
    Err(InputError::WithoutMeaning { setting, profile: profiles.join(", ") }.into())
}

fn profile(answer: &Answer) -> &str {
    match answer {
        Answer::Sized(Sizing { profile, .. }) | Answer::Refused { profile, .. } => profile,
    }
}

fn goal(options: &SizeOptions) -> Result<Goal, Failure> {
    if options.bytes == 0 && options.chunk.is_some() {
        let message = "--chunk is of no use with --bytes 0: nothing is sent";
        return Err(Failure::new(CODE, message).hint("leave one of them out"));
    }
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

fn row(answer: &Answer, goal: &Goal) -> Vec<String> {
    let dash = || "-".to_owned();
    let sizing = match answer {
        Answer::Sized(sizing) => sizing,
        Answer::Refused { profile, refused, .. } => {
            let (profile, refused) = (profile.clone(), refused.clone());
            return vec![profile, "0".to_owned(), dash(), dash(), dash(), dash(), refused];
        }
    };
    let setting = |name: &str, value: Option<String>| match value {
        _ if sizing.not_applicable.contains(&name) => "n/a".to_owned(),
        Some(value) => value,
        None => dash(),
    };
    let largest = sizing.largest.as_ref();
    let fan_out = largest.and_then(|one| one.fan_out).map(|fan_out| fan_out.to_string());
    let chunk = largest.and_then(|one| one.chunk_bytes).map(|bytes| (bytes >> 10).to_string());
    vec![
        sizing.profile.clone(),
        largest.map_or_else(|| "0".to_owned(), |one| one.nodes.to_string()),
        setting("fan-out", fan_out),
        setting("chunk", chunk),
        largest.map_or_else(dash, |one| number(one.launch_ms)),
        largest.map_or_else(dash, |one| number(one.cost_percent)),
        limit(sizing, goal),
    ]
}

/// The cost of the next larger machine, and the largest part of it.
fn limit(sizing: &Sizing, goal: &Goal) -> String {
    let Some(Setting { nodes, launch_ms, cost_percent, .. }) = sizing.beyond else {
        return sizing.limit.to_string();
    };
    let nodes = format!("{nodes} {}", if nodes == NodeCount::ONE { "node" } else { "nodes" });
    match sizing.limit {
        SizeLimit::Launch(limit) => {
            let launch_ms = apart(launch_ms, goal.launch_ms);
            format!("{nodes} launch in {launch_ms} ms, most of it {limit}")
        }
        SizeLimit::Both(_) => {
            let (launch_ms, cost) = (apart(launch_ms, goal.launch_ms), number(goal.cost_percent));
            format!(
                "{nodes} launch in {launch_ms} ms with the trees whose slice costs {cost} % at most; \
                 in time only with others"
            )
        }
        SizeLimit::Quantum(limit) => {
            let cost_percent = apart(cost_percent, goal.cost_percent);
            format!("a slice of {nodes} costs {cost_percent} %, most of it {limit}")
        }
        SizeLimit::Goal => sizing.limit.to_string(),
    }
}

/// A number with enough digits to tell it from the goal that it just misses.
fn apart(value: f64, goal: f64) -> String {
    const MOST_DIGITS: usize = 9;
    let with = |digits: usize| (format!("{value:.digits$}"), format!("{goal:.digits$}"));
    let differing = (1..MOST_DIGITS).map(with).find(|(value, goal)| value != goal);
    differing.unwrap_or_else(|| with(MOST_DIGITS)).0
}

fn meaning(goal: &Goal) -> String {
    format!(
        "NODES is the largest number that launches {} MiB within {} ms while a time slice of {} ms \
         costs at most {} %. FAN-OUT and CHUNK are those of the shortest such launch. LIMIT is the \
         limit that one more node would break; n/a: the machine has multicast in hardware, or one \
         host, and no tree to set.",
        number(goal.size.get()),
        number(goal.launch_ms),
        number(goal.quantum_us / 1e3),
        number(goal.cost_percent),
    )
}

/// The best machine, if there are several.
fn conclusion(goal: &Goal, answers: &[Answer]) -> Option<String> {
    let nodes_of = |answer: &Answer| match answer {
        Answer::Sized(sizing) => sizing.largest.map_or(0, |one| one.nodes.get()),
        Answer::Refused { .. } => 0,
    };
    let most = answers.iter().map(nodes_of).max().filter(|_| answers.len() > 1)?;
    let largest = answers.iter().filter(|answer| nodes_of(answer) == most).map(profile);
    let largest = largest.collect::<Vec<_>>().join(", ");
    Some(match most {
        0 => {
            "None of them meets both wishes with even 1 node: allow more, or send less.".to_owned()
        }
        _ if most == goal.most_nodes.get() => {
            format!("These profiles are enough for {most} nodes: {largest}.")
        }
        _ => format!("The largest machine is {largest}, with {most} nodes."),
    })
}
