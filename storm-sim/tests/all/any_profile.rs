//! Machines with values anywhere in their ranges, however odd. A small machine with each profile
//! runs its jobs to the end or reports that the time was too short, and nothing panics.

use proptest::prelude::*;
use std::fs;
use std::path::Path;
use storm_model::{KEYS, KeyRange};
use storm_qsnet_sim::{BUILTIN_NAMES, Profile, SIMULATION_KEYS};
use storm_sim::scenario::{self, RunOptions, Scenario};

/// Draws of each value: enough for every profile.
const NUMBERS: usize = 40;

/// A place in the range of a value: one of its ends, or a place between them.
fn places() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(prop_oneof![2 => Just(0.0), 1 => Just(1.0), 4 => 0.0..1.0], NUMBERS)
}

/// The value at this place, evenly by its logarithm.
fn value_at(range: KeyRange, place: f64) -> f64 {
    let KeyRange { least, most, whole } = range;
    if place == 0.0 {
        return least;
    }
    let low = least.max(1e-6).log10();
    let value = 10f64.powf(low + place * (most.log10() - low)).clamp(least, most);
    if whole { value.round() } else { value }
}

/// A profile with each value somewhere in its range.
fn written(name: &str, places: &[f64]) -> String {
    let mut places = places.iter().cycle();
    let mut table = String::new();
    let shown = Profile::builtin(name).expect("it is built in").to_toml();
    let line = |line: &str| {
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']']).to_owned();
        }
        let Some((key, _)) = line.split_once(" = { value = ") else { return format!("{line}\n") };
        let key = format!("{table}.{key}");
        match KEYS.iter().chain(&SIMULATION_KEYS).find(|one| one.key == key) {
            Some(known) => {
                let value = value_at(known.range, places.next().copied().unwrap_or_default());
                format!("{} = {{ value = {value:?}, source = \"any\" }}\n", known.parts().1)
            }
            None => format!("{line}\n"),
        }
    };
    shown.lines().map(line).collect()
}

fn scenario(profile: &Path, load: &str, mib: f64) -> String {
    format!(
        "limit = \"5s\"\n[machine]\nprofile = {profile:?}\nnodes = 3\npes = 2\n\
         quantum = \"50ms\"\nload = {{ {load} }}\n\
         [[job]]\nname = \"a\"\ncopies = 2\nbinary-mib = {mib}\n\
         application = {{ kind = \"wavefront\", iterations = 2, block-time = \"1ms\" }}\n"
    )
}

/// Runs two jobs on three nodes of this machine.
fn run(name: &str, places: &[f64], load: &str, mib: f64) -> Result<(), String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("any.toml");
    let text = written(name, places);
    fs::write(&path, &text).expect("written");
    match Scenario::parse(&scenario(&path, load, mib)) {
        // The run may also fail because its time was too short.
        Ok(scenario) => drop(scenario::run(&scenario, RunOptions::default())),
        Err(error) => {
            // The ranges do not cover only the relation between two values.
            let error: &dyn std::error::Error = &error;
            let causes = std::iter::successors(Some(error), |one| one.source());
            let all = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
            if !all.contains("noise-us") {
                return Err(format!("{all}\n{text}"));
            }
        }
    }
    Ok(())
}

#[test]
fn machines_of_nothing_but_extremes_come_to_an_end() {
    for name in BUILTIN_NAMES {
        for place in [0.0, 0.001, 1.0] {
            for load in ["", "cpu = true", "network = true"] {
                let done = run(name, &[place], load, 0.1);
                assert_eq!(done, Ok(()), "{name} at {place}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_machine_in_range_runs_or_says_why_not(
        name in prop::sample::select(BUILTIN_NAMES.to_vec()),
        places in places(),
        load in prop::sample::select(vec!["", "cpu = true", "network = true"]),
        mib in prop::sample::select(vec![0.0, 0.1, 2.0]),
    ) {
        let done = run(name, &places, load, mib);
        prop_assert_eq!(done, Ok(()));
    }
}
