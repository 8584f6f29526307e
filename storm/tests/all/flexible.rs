//! Flexible coscheduling with real daemons and processes. The synthetic applications get the
//! classes of the policy reference (A5), users can see why, and programs without reports are judged
//! by their use of processors.

use crate::scratch::{STORM, Scratch, stdout, told};
use serde_json::Value;
use std::path::Path;

/// Starts a job on both nodes, and returns its number.
fn submit(scratch: &Scratch, words: &[&str]) -> u64 {
    let options = ["submit", "-q", "-N", "2", "-n", "2", "--no-bcast"];
    let done = scratch.storm(options.iter().chain(words)).output().expect("storm starts");
    assert!(done.status.success(), "{}", told(&done));
    stdout(&done).trim().parse().expect("a number")
}

/// Waits until both ranks of a job have these classes, from this source of data.
fn until_classes(scratch: &Scratch, job: u64, classes: [&str; 2], witness: &str) -> Value {
    scratch.wait_for(&format!("show {job}"), |shown| {
        let ranks = shown["ranks"].as_array()?;
        let as_expected = ranks.iter().zip(classes).all(|(rank, class)| {
            let known = &rank["class"];
            known["class"] == class && known["figures"]["witness"] == witness
        });
        assert_ne!(shown["state"], "FAILED", "{shown}");
        (ranks.len() == 2 && as_expected).then(|| shown.clone())
    })
}

#[test]
fn ranks_have_the_classes_of_what_they_do_and_people_are_told_why() {
    let scratch = Scratch::make();
    let kernels = Path::new(STORM).with_file_name("kernels");
    assert!(kernels.exists(), "{} is missing: cargo build -p kernels", kernels.display());
    let kernels = kernels.display().to_string();
    scratch.prints("up --nodes 2 --pes 1 --sched fcs --quantum 20ms");
    let bsp = |further: &[&str]| {
        let words = [&kernels, "bsp", "--exchange=barrier", "--steps=1000000"];
        submit(&scratch, &[&words, further].concat())
    };
    // The second rank computes twice as long, so the first waits as long as it computes.
    let lopsided = bsp(&["--granularity=1000", "--imbalance=2", "--heavy=upper"]);
    until_classes(&scratch, lopsided, ["F", "CS"], "library");
    let coarse = bsp(&["--granularity=500000"]);
    let shown = until_classes(&scratch, coarse, ["DC", "DC"], "library");
    assert!(shown["classes"].as_str().is_some_and(|said| said.contains("2 DC")), "{shown}");
    // A program without reports. It may be polling for messages all the time.
    let silent = submit(&scratch, &["/bin/sh", "-c", "while :; do :; done"]);
    scratch.prints(&format!("cancel {coarse}"));
    until_classes(&scratch, silent, ["CS", "CS"], "system");
    let explained = scratch.prints(&format!("explain {silent}"));
    assert!(explained.contains("cannot be seen"), "{explained}");
    assert!(explained.contains("from the use of processors"), "{explained}");
    let explained = scratch.prints(&format!("explain {lopsided}"));
    assert!(explained.contains("under fcs"), "{explained}");
    assert!(explained.contains("according to its library"), "{explained}");
    // Under another policy there are no classes, and all jobs continue.
    scratch.prints("partition set-sched fcs local");
    let shown = scratch.json(&format!("show {lopsided}"));
    assert!(shown["classes"].is_null() && shown["state"] == "RUNNING", "{shown}");
    scratch.prints("partition set-sched fcs fcs");
    until_classes(&scratch, silent, ["CS", "CS"], "system");
    for job in [lopsided, silent] {
        scratch.prints(&format!("cancel {job}"));
    }
    scratch.prints("down");
    scratch.assert_nothing_runs();
}
