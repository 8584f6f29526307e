//! `submit` to a cluster: the manager's requests, and the messages to the user.

use super::served::{Served, stderr, stdout};
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use storm_mm::api::{ApiError, ErrorCode, ManagerRequest, Reply};
use storm_rm::{ContentHash, Destination, InputSpec, JobId, JobSpec, OsBytes, OutputSpec, Program};

/// A manager that takes a job and passes it to the test.
fn taking_one() -> (Served, mpsc::Receiver<JobSpec>) {
    let (sender, seen) = mpsc::channel();
    let served = Served::start(async move |calls| {
        let call = calls.recv().await.expect("a call");
        let ManagerRequest::Submit { spec, attach: false, .. } = call.request else {
            panic!("{:?}", call.request)
        };
        sender.send(*spec).expect("the test waits");
        call.replies.send(Reply::Submitted { job: JobId(7) }).expect("it waits");
    });
    (served, seen)
}

#[test]
fn a_job_takes_its_surroundings_along() {
    let (served, seen) = taking_one();
    fs::write(served.path("mesh.bin"), "mesh").expect("written");
    let output = served
        .command(&[
            "submit",
            "-n",
            "4",
            "--time",
            "1:30",
            "--bcast",
            "mesh.bin:/tmp/m",
            "--name",
            "try",
            "/bin/true",
            "--flag",
            "-n",
            "9",
        ])
        .env("MARK", "here")
        .output()
        .expect("it can be started");
    assert_eq!(stdout(&output), "Submitted job 7\n", "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(0));
    let spec = seen.recv().expect("the manager saw it");
    assert_eq!((spec.name.as_str(), spec.procs), ("try", 4));
    assert_eq!(spec.time_limit.map(|limit| limit.as_secs()), Some(90));
    let argv: Vec<_> = spec.step.argv.iter().map(|word| word.to_string_lossy()).collect();
    assert_eq!(argv, ["/bin/true", "--flag", "-n", "9"]);
    assert!(spec.step.env.contains(&("MARK".into(), "here".into())));
    let here = served.path("").canonicalize().expect("it exists");
    assert_eq!(spec.step.cwd.as_os_str(), here.as_os_str());
    let Program::Shipped(program) = &spec.step.program else { panic!("{:?}", spec.step.program) };
    assert_eq!(program.hash, ContentHash::of(&fs::read("/bin/true").expect("readable")));
    assert_eq!(program.mode & 0o500, 0o500);
    assert_eq!(spec.step.files[0].destination, Destination::Path("/tmp/m".into()));
    let stdout = "storm-%j.out".into();
    assert_eq!(spec.step.output, OutputSpec::Files { stdout, stderr: None });
    assert_eq!(spec.step.input, InputSpec::None);
    assert!(!spec.step.limits.is_empty());
    served.end();
}

#[test]
fn in_json_only_the_number_is_printed() {
    let (served, _seen) = taking_one();
    let output = served.storm(&["submit", "--json", "true"]);
    assert_eq!(stdout(&output), "{\"id\":7,\"job\":7}\n", "{}", stderr(&output));
    served.end();
}

#[test]
fn a_program_on_the_nodes_need_not_exist_here() {
    let (served, seen) = taking_one();
    let output = served.storm(&["submit", "--no-bcast", "/opt/nowhere/solver"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let spec = seen.recv().expect("the manager saw it");
    assert_eq!(spec.step.program, Program::OnNodes("/opt/nowhere/solver".into()));
    served.end();
}

/// `storm submit` with a script on its standard input.
fn submit_script(served: &Served, arguments: &[&str], script: &str) -> Output {
    let mut command = served.command(arguments);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut storm = piped.spawn().expect("it can be started");
    let mut input = storm.stdin.take().expect("piped");
    // A command that is refused for its options ends without reading.
    match input.write_all(script.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.expect("it reads"),
    }
    drop(input);
    storm.wait_with_output().expect("it ends")
}

#[test]
fn a_script_may_come_by_standard_input() {
    const SCRIPT: &str = "#!/bin/sh\n#PBS -l procs=64\necho $1\n";
    let (sender, seen) = mpsc::channel();
    let served = Served::start(async move |calls| {
        let call = calls.recv().await.expect("a call");
        let ManagerRequest::Submit { spec, .. } = call.request else { panic!("no job") };
        sender.send(*spec).expect("the test waits");
        call.replies.send(Reply::Submitted { job: JobId(7) }).expect("it waits");
    });
    let output = submit_script(&served, &["submit", "-n", "4", "-", "mesh", "-v"], SCRIPT);
    assert_eq!(stdout(&output), "Submitted job 7\n", "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("#PBS lines"), "{said}");
    assert!(said.contains("storm submit -n 64 - mesh -v < SCRIPT; each process"), "{said}");
    let spec = seen.recv().expect("the manager saw it");
    assert_eq!((spec.name.as_str(), spec.procs, spec.step.input), ("stdin", 4, InputSpec::None));
    assert_eq!(spec.step.argv, ["stdin", "mesh", "-v"].map(OsBytes::from));
    let Program::Shipped(program) = &spec.step.program else { panic!("{:?}", spec.step.program) };
    assert_eq!(program.hash, ContentHash::of(SCRIPT.as_bytes()));
    assert_eq!(program.size_bytes, SCRIPT.len() as u64);
    served.end();
}

#[test]
fn standard_input_without_a_script_is_refused() {
    let served = Served::start(async |_| {});
    for (script, arguments, status, told) in [
        ("", &["submit", "-"][..], 126, "there is no script"),
        ("echo\n", &["submit", "-"], 126, "names its interpreter"),
        ("#!/bin/sh\r\nls\r\n", &["submit", "-"], 126, "dos2unix < SCRIPT | storm submit -"),
        ("#!/bin/sh\n", &["submit", "--no-bcast", "-"], 2, "--no-bcast"),
        ("#!/bin/sh\n", &["run", "--input", "all", "-"], 2, "standard input is the script"),
    ] {
        let output = submit_script(&served, arguments, script);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{arguments:?}: {}", stderr(&output));
    }
    served.end();
}

/// Regression: only the nodes reported an error, that the script does not exist.
#[test]
fn a_script_with_the_line_ends_of_windows_is_refused_with_what_mends_it() {
    let served = Served::start(async |_| {});
    let script = served.path("a job.sh");
    fs::write(&script, "#!/bin/bash -e\r\nls\r\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("ours");
    let output = served.storm(&["submit", "./a job.sh"]);
    assert_eq!(output.status.code(), Some(126));
    let said = stderr(&output);
    for words in
        ["CR LF", "\"/bin/bash -e\"", "dos2unix './a job.sh'", "sed -i 's/\\r$//' './a job.sh'"]
    {
        assert!(said.contains(words), "no {words}: {said}");
    }
    served.end();
}

/// Regression: the job was accepted, and failed on the nodes.
#[test]
fn a_working_directory_that_this_host_has_not_is_told() {
    let (served, seen) = taking_one();
    let output = served.storm(&["submit", "-D", "/nonexistent/x", "true"]);
    assert_eq!(output.status.code(), Some(0), "the nodes may have it");
    let said = stderr(&output);
    assert!(said.contains("-D /nonexistent/x: this host has no such directory"), "{said}");
    assert_eq!(seen.recv().expect("the manager saw it").step.cwd, "/nonexistent/x".into());
    served.end();
    let mut alone = Command::new(env!("CARGO_BIN_EXE_storm"));
    let alone = alone.args(["submit", "--nodes", "1", "-D", "/nonexistent/x", "true"]).output();
    let alone = alone.expect("it can be started");
    assert_eq!(alone.status.code(), Some(1), "the nodes are this host");
    assert!(stderr(&alone).contains("there is no such directory"), "{}", stderr(&alone));
}

#[test]
fn a_line_of_shell_is_run_by_the_shell_of_the_nodes() {
    let (served, seen) = taking_one();
    let output = served.storm(&["submit", "--wrap", "echo 'a  b' | cat"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let spec = seen.recv().expect("the manager saw it");
    assert_eq!(spec.name, "wrap");
    assert_eq!(spec.step.program, Program::OnNodes("/bin/sh".into()));
    assert_eq!(spec.step.argv, ["sh", "-c", "echo 'a  b' | cat"].map(OsBytes::from));
    served.end();
}

#[test]
fn a_refusal_says_what_why_and_what_to_try() {
    let served = Served::start(async |calls| {
        for _ in 0..2 {
            let call = calls.recv().await.expect("a call");
            let error = ApiError::new(ErrorCode::NoSuchPolicy, "no partition runs lottery")
                .why("there are gang (main), fcfs (batch)")
                .hint("--sched gang");
            call.replies.refuse(error).expect("it waits");
        }
    });
    let arguments = ["submit", "--sched", "lottery", "true"];
    let output = served.storm(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let expected = "storm: no partition runs lottery: there are gang (main), fcfs (batch)\n  \
                    try: --sched gang\n";
    assert_eq!(stderr(&output), expected);
    let output = served.storm(&[["--json"].as_slice(), &arguments].concat());
    let said: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(said["error"]["code"], "no-such-policy");
    assert_eq!(said["error"]["exit_code"], 1);
    served.end();
}

#[test]
fn a_wrong_program_is_found_out_before_anything_starts() {
    // Reported first, even without a manager.
    let storm = |program: &str| {
        Command::new(env!("CARGO_BIN_EXE_storm"))
            .args(["submit", "--socket", "/nonexistent/mm.sock", program])
            .output()
            .expect("it can be started")
    };
    assert_eq!(storm("./nowhere").status.code(), Some(127));
    assert_eq!(storm("/").status.code(), Some(126));
    for wrong in [&["-o", "a%q"][..], &["-o", ""], &["-o", "fine-%j", "-e", "%"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_storm"))
            .args([&["submit", "--json"], wrong, &["true"]].concat())
            .output()
            .expect("it can be started");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", stderr(&output));
        let said: Value = serde_json::from_str(&stderr(&output)).expect("one error in JSON");
        assert_eq!(said["error"]["code"], "usage", "{said}");
    }
    let output = storm("true");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot connect to /nonexistent/mm.sock"));
    assert!(stderr(&output).contains("storm up"));
}

#[test]
fn a_script_that_asks_for_json_is_refused_in_json() {
    let output = Command::new(env!("CARGO_BIN_EXE_storm"))
        .args(["queue", "--no-such-option", "--json"])
        .output()
        .expect("it can be started");
    assert_eq!(output.status.code(), Some(2));
    let said: Value = serde_json::from_str(&stderr(&output)).expect("one error in JSON");
    assert_eq!(said["error"]["code"], "usage", "{said}");
    assert!(said["error"]["message"].as_str().is_some_and(|text| text.contains("--no-such")));
}
