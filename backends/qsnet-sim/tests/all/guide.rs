//! The page on machine profiles has a row for every parameter of a profile, with the facts of the
//! code.

use std::path::Path;
use storm_model::{KEYS, ProfileKey};
use storm_qsnet_sim::{BUILTIN_NAMES, Profile, SIMULATION_KEYS};

/// The value and its source in the first built-in profile that has it.
fn example(key: &ProfileKey, profiles: &[Profile]) -> String {
    let of = |profile: &Profile| {
        let values = [profile.machine.values(), profile.simulation_values()].concat();
        let found = values.into_iter().find(|(name, _)| *name == key.key)?.1;
        Some(format!("`{}` {}: {}", profile.machine.name, found.value, found.source))
    };
    let fitted = || "fitted by `storm model calibrate`".to_owned();
    profiles.iter().find_map(of).unwrap_or_else(fitted)
}

fn row(key: &ProfileKey, profiles: &[Profile]) -> String {
    let ProfileKey { key: name, unit, meaning, range, absent } = key;
    let unless = if absent.to_string() == "is required" { "" } else { &absent.to_string() };
    let example = example(key, profiles);
    format!("| `{name}` | {unit} | {meaning} | {range} | {unless} | {example} |")
}

#[test]
fn every_parameter_has_its_row_in_the_guide() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/machine-profiles.md");
    let guide = std::fs::read_to_string(path).expect("the guide is there");
    let profiles = BUILTIN_NAMES.map(|name| Profile::builtin(name).expect("it is built in"));
    let rows = KEYS.iter().chain(&SIMULATION_KEYS).map(|key| row(key, &profiles));
    let missing: Vec<String> = rows.filter(|row| !guide.contains(row)).collect();
    assert!(missing.is_empty(), "these rows are not in the guide:\n{}\n", missing.join("\n"));
}
