//! What job scripts ask for besides room: signals ahead of the limit, how output is opened, remarks.

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
