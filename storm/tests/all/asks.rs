//! Requests of job scripts besides room: signals ahead of the limit, how output is opened, remarks.

use crate::scratch::Scratch;
use std::fs;

fn cluster() -> Scratch {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 1 --pes 2");
    scratch
}

fn batch(scratch: &Scratch, text: &str, options: &str) -> serde_json::Value {
    fs::write(scratch.work().join("job.sh"), text).expect("written");
    let job = scratch.prints(&format!("--quiet batch {options} job.sh"));
    scratch.does(&format!("wait --quiet --timeout 60s {}", job.trim()));
    scratch.json(&format!("show {}", job.trim()))
}

fn read(scratch: &Scratch, name: &str) -> String {
    fs::read_to_string(scratch.work().join(name)).expect("written")
}

#[test]
fn the_script_alone_gets_the_signal_ahead_of_the_limit() {
    let scratch = cluster();
    // The command would end by the signal, and the script would not see its own end.
    let text = "#!/bin/sh\n#SBATCH --signal=B:USR1@3590 --time=1:00:00 -o out\n\
                trap 'echo caught; kill $child; exit 7' USR1\n\
                sleep 1000 & child=$!\nwait $child\necho went on\n";
    let job = batch(&scratch, text, "");
    assert_eq!((&job["state"], &job["exit_code"]), (&"FAILED".into(), &7.into()), "{job}");
    assert_eq!(read(&scratch, "out"), "caught\n");
    assert!(job["log"].to_string().contains("ahead of the time limit"), "{job}");
}

#[test]
fn output_is_appended_or_emptied_as_the_job_requests() {
    let scratch = cluster();
    let text = "#!/bin/sh\n#SBATCH --open-mode=append --comment='two words' --wckey=w7\necho x\n";
    for lines in 1..3 {
        let job = batch(&scratch, text, "-o out");
        assert_eq!(job["state"], "COMPLETED");
        assert_eq!(job["remarks"]["comment"], "two words");
        assert_eq!(job["remarks"]["wckey"], "w7");
        assert_eq!(read(&scratch, "out"), "x\n".repeat(lines));
    }
    batch(&scratch, text, "-o out --open-mode truncate");
    assert_eq!(read(&scratch, "out"), "x\n");
    assert!(scratch.prints("hist --json").contains("two words"));
}

#[test]
fn a_job_has_itself_requeued_when_it_has_saved_its_state() {
    let scratch = cluster();
    let storm = crate::scratch::STORM;
    let text = format!(
        "#!/bin/sh\n#SBATCH --signal=B:USR2@3590 --time=1:00:00 --open-mode=append -o out\n\
         if [ -e saved ]; then echo from the saved state; exit 0; fi\n\
         trap 'echo saves; touch saved; {storm} requeue $STORM_JOB_ID' USR2\n\
         sleep 1000 & wait; wait\n"
    );
    let job = batch(&scratch, &text, "");
    assert_eq!(job["state"], "COMPLETED", "{job}");
    assert_eq!(job["runs"], 2, "{job}");
    let out = read(&scratch, "out");
    assert!(out.starts_with("saves\n") && out.ends_with("from the saved state\n"), "{out}");
    assert!(job["log"].to_string().contains("requeued by"), "{job}");
}

#[test]
fn named_nodes_are_had_or_left_out_and_a_running_job_is_changed() {
    let scratch = Scratch::make();
    scratch.prints("up --nodes 3 --pes 2");
    fs::write(scratch.work().join("nodes"), "n2\nn3\n").expect("written");
    for (options, nodes) in [
        ("-w n3 -n 2", "n3"),
        ("-x n1,n2 -n 1", "n3"),
        ("-F nodes", "n[2-3]"),
        ("-w ./nodes -x n1", "n[2-3]"),
        ("-N 1-3 -n 3 -x n1", "n[2-3]"),
    ] {
        let job = scratch.prints(&format!("--quiet submit {options} sleep 0"));
        scratch.does(&format!("wait --quiet --timeout 60s {}", job.trim()));
        let job = scratch.json(&format!("show {}", job.trim()));
        assert_eq!((&job["state"], &job["node_list"]), (&"COMPLETED".into(), &nodes.into()));
    }
    let never = scratch.does("submit -w n9 true");
    assert!(crate::scratch::stderr(&never).contains("there is no node n9"));
    let job = scratch.prints("--quiet submit -n 6 --time 1h sleep 1000");
    let job = job.trim();
    scratch.wait_for(&format!("show {job}"), |job| (job["state"] == "RUNNING").then_some(()));
    scratch.prints(&format!("suspend {job}"));
    assert_eq!(scratch.json(&format!("show {job}"))["state"], "SUSPENDED");
    scratch.prints(&format!("resume-job {job}"));
    scratch.prints(&format!("update {job} --time 50ms --comment later"));
    scratch.does(&format!("wait --quiet --timeout 60s {job}"));
    let ended = scratch.json(&format!("show {job}"));
    assert_eq!(
        (&ended["state"], &ended["remarks"]["comment"]),
        (&"TIMEOUT".into(), &"later".into())
    );
}
