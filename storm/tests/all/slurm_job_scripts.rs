//! Job scripts of the kinds that people keep (`storm/tests/scripts`), as an ordinary user of a
//! cluster of four hosts. Each has the outcome that is beside it in `NAME.expected`: what the
//! terminal shows, the state of each job, and the files.
//!
//! `benches/peers/slurm-scripts` runs them on Slurm, whose outcomes these are. With
//! `STORM_TEST_OUTCOMES=DIR` the outcomes of storm are written as `DIR/NAME.storm`.

use crate::scratch::site::Site;
use crate::scratch::{stderr, stdout};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

/// Most time of one script. Two of them wait for a time limit of a minute, and its grace.
const MAX_SCRIPT_S: u32 = 200;

/// How many run at once: a runner and its commands are some processes.
const AT_ONCE: usize = 16;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

/// The names of the scripts. Those that wait longest come first.
fn names() -> Vec<String> {
    let entries = fs::read_dir(scripts()).expect("ours").flatten();
    let scripts = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".sh").map(str::to_owned)
    });
    let mut names: Vec<String> = scripts.collect();
    names.sort_by_key(|name| {
        (!["over-time", "signal-saves"].contains(&name.as_str()), name.clone())
    });
    names
}

/// Runs a script in a directory of its own; the difference from what is expected, if any.
fn difference(site: &Site, name: &str) -> Option<String> {
    let directory = site.directory(name);
    let mut command = site.user_runs(&scripts(), MAX_SCRIPT_S, &scripts().join("run"));
    command.arg(scripts().join(format!("{name}.sh"))).current_dir(&directory);
    let done = command.output().expect("it starts");
    let outcome = format!("{}{}", stdout(&done), stderr(&done));
    let expected = fs::read_to_string(scripts().join(format!("{name}.expected")));
    if let Some(directory) = std::env::var_os("STORM_TEST_OUTCOMES") {
        let file = Path::new(&directory).join(format!("{name}.storm"));
        fs::write(file, &outcome).expect("a directory that was named");
    }
    let expected = expected.unwrap_or_default();
    (outcome != expected || !done.status.success())
        .then(|| format!("==== {name} ({})\n{outcome}---- expected\n{expected}", done.status))
}

#[test]
fn job_scripts_have_the_outcome_that_slurm_gives_them() {
    let Some(site) = Site::start(4, 4) else { return };
    site.pass_small_numbers();
    let names = names();
    assert!(names.len() >= 40, "{names:?}");
    let next = std::sync::Mutex::new(names.iter());
    let run = || {
        let mut differences = Vec::new();
        loop {
            let Some(name) = next.lock().expect("no panic").next() else { return differences };
            differences.extend(difference(&site, name));
        }
    };
    let differences: Vec<String> = thread::scope(|scope| {
        let runners: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run)).collect();
        runners.into_iter().flat_map(|runner| runner.join().expect("no panic")).collect()
    });
    assert!(differences.is_empty(), "{}", differences.concat());
}
