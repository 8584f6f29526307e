//! `storm model` as users see it: refusals with their reasons, JSON, and a calibration of this
//! machine for predictions.

use crate::scratch::{STORM, Scratch, stderr, stdout, told};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Most searches of the system's processes while a cluster starts: many seconds.
const MAX_LOOKS: usize = 100_000;

fn model(words: &str) -> Output {
    let mut command = Command::new(STORM);
    command.arg("model").args(words.split_whitespace()).output().expect("storm starts")
}

fn json(words: &str) -> Value {
    let done = model(&format!("{words} --json"));
    assert!(done.status.success(), "{words}: {}", told(&done));
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{words}: {error}"))
}

#[test]
fn senseless_options_are_refused_with_reason_and_remedy() {
    for (words, reason, remedy) in [
        ("predict --nodes 0", "0 nodes", "at least 1"),
        ("predict --nodes 4 --pes 0", "processes", "more than 0"),
        ("predict --nodes 4 --cable -3", "cable is -3", "not negative"),
        ("predict --nodes 4 --cable nan", "cable is NaN", "not negative"),
        ("predict --nodes 4 --quantum 10us", "before the nodes have switched", "at least"),
        ("predict --nodes 4 --quantum 100us", "4.3.1", "300 us"),
        ("predict --nodes 4 --fan-out 2", "no meaning", "leave"),
        ("predict --nodes 4 --fan-out 0 --profile infiniband", "fan-out 0", "at least 1"),
        ("predict --nodes 4 --fan-out 9999 --profile infiniband", "1024", "at most"),
        ("predict --nodes 4 --chunk 0 --profile infiniband", "4 KiB to 64 MiB", "512KiB"),
        ("predict --nodes 4 --chunk 5000MiB --profile infiniband", "4 KiB to 64 MiB", "512KiB"),
        ("predict --nodes 4 --profile myrinet", "myrinet", "es40-qsnet"),
        ("predict --nodes 4 --profile ./nothing.toml", "cannot be read", "es40-qsnet"),
        ("predict --nodes 99999999999999", "more than", "at most"),
        ("size --nodes 0", "0 nodes", "at least 1"),
        ("size --cost -2", "cost", "more than 0"),
        ("size --cost nan", "cost", "more than 0"),
        ("size --quantum 1us", "before the nodes have switched", "at least"),
        ("size --profile es40-qsnet --chunk 1MB", "no meaning", "leave"),
        ("size --profile es40-qsnet,ideal --fan-out 4", "es40-qsnet, ideal", "leave"),
        ("size --profile ideal,ideal", "named twice", "once"),
        ("size --bytes 0 --chunk 1MiB", "nothing is sent", "leave one"),
        ("size --cost 101", "at most 100", "at most 100"),
        ("calibrate --program /no/such/program", "cannot be launched", "--program"),
        ("compare --nodes 4,0", "0 nodes", "at least 1"),
        ("calibrate --nodes 2,4", "cannot tell", "--nodes"),
        ("calibrate --with ./nothing.json", "cannot be read", "--json"),
        ("calibrate --output /no/such/place/f.toml", "cannot be written", "directory"),
    ] {
        let done = model(words);
        assert_eq!(done.status.code(), Some(1), "{words}: {}", told(&done));
        let said = stderr(&done);
        assert!(said.contains(reason), "{words}: {said}");
        assert!(said.contains(remedy), "{words}: {said}");
        let error = stderr(&model(&format!("{words} --json")));
        let error: Value = serde_json::from_str(&error).unwrap_or_else(|e| panic!("{e}: {error}"));
        assert!(error["error"]["hint"].is_string(), "{words}: {error}");
    }
}

#[test]
fn malformed_options_are_wrong_usage() {
    for words in [
        "predict",
        "predict --show-profile --nodes 4",
        "predict --nodes -1",
        "predict --nodes 4 --bytes 12mb",
        "predict --nodes 4 --fan-out many",
        "table 4",
        "size --launch 150",
        "calibrate --runs 0",
        "calibrate --nodes 0,1,2",
    ] {
        let done = model(words);
        assert_eq!(done.status.code(), Some(2), "{words}: {}", told(&done));
    }
}

#[test]
fn the_papers_figures_come_as_json_and_as_tables() {
    let launch = &json("predict --nodes 64")["launch"];
    assert_eq!(launch["total_ms"].as_f64().map(f64::round), Some(110.0));
    let table = json("table 3");
    assert_eq!(table[5]["bandwidth_mib_s"][8].as_f64().map(f64::round), Some(146.0));
    assert_eq!(json("table fig8").as_array().map(Vec::len), Some(15));
    assert_eq!(json("table fig9")[12]["nodes"], 4_096);
    assert_eq!(json("table 5")[5]["manager"], "STORM");
    assert_eq!(json("table 2")[3]["value"], 953.0);
    assert_eq!(json("table crossover")[0]["nodes"], Value::Null);
    let text = stdout(&model("table 3"));
    let last = text.lines().nth(6).expect("six sizes");
    let cells = "4096 16384 6 11 209 198 188 180 172 164 158 152 146";
    assert_eq!(last.split_whitespace().collect::<Vec<_>>().join(" "), cells);
    let text = stdout(&model("compare --nodes 4096 --quiet"));
    assert!(text.starts_with("4096\t3826.9"), "{text}");
}

#[test]
fn sizes_meet_the_goal_and_name_the_limit() {
    let sizings = json("size --launch 150ms --quantum 2ms --cost 2 --bytes 12MiB");
    let sizings = sizings.as_array().expect("a list");
    // A machine may be too slow for the goal at any size; most machines are not.
    let reached = sizings.iter().filter(|sizing| sizing["largest"].is_object()).count();
    assert!(reached >= 5, "{reached} machines reach the goal");
    for sizing in sizings.iter().filter(|sizing| sizing["largest"].is_object()) {
        let largest = &sizing["largest"];
        assert!(largest["launch_ms"].as_f64().expect("a time") <= 150.0, "{sizing}");
        assert!(largest["cost_percent"].as_f64().expect("a part") <= 2.0, "{sizing}");
        assert!(sizing["limit"]["bound"].is_string(), "{sizing}");
    }
    let text = stdout(&model("size --profile gigabit-ethernet --launch 1s"));
    assert!(text.contains("LIMIT"), "{text}");
    let text = stdout(&model("size --fan-out 8"));
    assert!(text.contains("n/a") && text.contains("The largest machine is es40-qsnet"), "{text}");
    let text = stdout(&model("size --quantum 100us --cost 50"));
    assert!(text.contains("shorter than this machine handles"), "{text}");
    assert!(text.contains("gigabit-ethernet"), "{text}");
    let text = stdout(&model("size --nodes 10000"));
    let whom = "enough for 10000 nodes: es40-qsnet, ideal, ethernet-100g";
    assert!(text.contains(whom), "{text}");
}

#[test]
fn a_shown_profile_can_be_changed_and_used() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("mine.toml");
    let shown = stdout(&model("predict --profile es40-qsnet --show-profile"));
    assert!(shown.contains("source = \"paper, Table 2\""), "{shown}");
    let faster = shown.replace("value = 131.0", "value = 262.0");
    std::fs::write(&path, faster).expect("written");
    let predicted = json(&format!("predict --nodes 64 --profile {}", path.display()));
    // The I/O bus, 175 MB/s, is the next bottleneck.
    assert_eq!(predicted["launch"]["parts"][0]["limit"], "bus", "{predicted}");
    std::fs::write(&path, shown.replace("value = 3.94", "value = -3.94")).expect("written");
    let refused = model(&format!("predict --nodes 64 --profile {}", path.display()));
    let said = stderr(&refused);
    assert!(said.contains("cable") && said.contains("line "), "{}", told(&refused));
    assert!(said.contains("mine.toml") && said.contains("0 to 1000"), "{}", told(&refused));
    std::fs::write(&path, shown.replace("spawn-us", "spawn-ms")).expect("written");
    let refused = stderr(&model(&format!("predict --nodes 64 --profile {}", path.display())));
    assert_eq!(refused.matches("unknown field").count(), 1, "{refused}");
}

/// Two short jobs on four nodes of the machine in this file.
const SCENARIO: &str = "limit = \"60s\"\n[machine]\nprofile = \"plain\"\nnodes = 4\n\
    [[job]]\nname = \"a\"\nbinary-mib = 1.0\n\
    application = { kind = \"compute\", time = \"1ms\" }\n";

#[test]
fn one_file_serves_the_model_and_the_simulator() {
    let place = tempfile::tempdir().expect("a directory");
    let (mine, scenario) = (place.path().join("mine.toml"), place.path().join("scenario.toml"));
    std::fs::write(&scenario, SCENARIO).expect("written");
    let storm = |words: &[&str]| Command::new(STORM).args(words).output().expect("storm starts");
    let (file, run) = (mine.display().to_string(), scenario.display().to_string());
    for name in ["es40-qsnet", "ideal", "gigabit-ethernet", "infiniband", "ethernet-100g"] {
        let shown = storm(&["sim", "--show-profile", name]);
        assert!(shown.status.success(), "{}", told(&shown));
        let by_model = storm(&["model", "predict", "--show-profile", "--profile", name]);
        assert_eq!(stdout(&shown), stdout(&by_model));
        std::fs::write(&mine, stdout(&shown)).expect("written");
        let again = storm(&["sim", "--show-profile", &file]);
        assert_eq!(stdout(&again), stdout(&shown), "{name}");
        let predict = |of| json(&format!("predict --nodes 64 --profile {of}"));
        assert_eq!(predict(file.as_str()), predict(name));
        let simulated = |of| {
            let done = storm(&["sim", &run, "--profile", of, "--json"]);
            assert!(done.status.success(), "{name}: {}", told(&done));
            let report: Value = serde_json::from_str(&stdout(&done)).expect("JSON");
            report["jobs"].clone()
        };
        assert_eq!(simulated(file.as_str()), simulated(name), "{name}");
    }
    let wrong = storm(&["sim", &run, "--profile", "myrinet"]);
    assert!(stderr(&wrong).contains("es40-qsnet"), "{}", told(&wrong));
}

#[test]
fn a_calibration_of_this_machine_can_be_predicted_with() {
    let scratch = Scratch::make();
    let options = "calibrate --nodes 1,2,4 --pes 1 --sizes 100kB,1MB --runs 1";
    let calibration = scratch.json(&format!("model {options} --output here.toml"));
    assert_eq!(calibration["launches"].as_array().map(Vec::len), Some(12), "{calibration}");
    let transfer = &calibration["transfer"]["parameters"];
    assert_eq!(transfer.as_array().map(Vec::len), Some(5), "{calibration}");
    let work = scratch.work().join("here.toml");
    assert!(Path::new(&work).exists());
    let predicted = scratch.json("model predict --profile here.toml --nodes 8 --bytes 1MB");
    assert!(predicted["launch"]["total_ms"].as_f64().expect("a time") > 0.0, "{predicted}");
    assert!(predicted["strobe"]["strobe_us"].as_f64().expect("a time") > 0.0, "{predicted}");
    scratch.assert_nothing_runs();
}

#[test]
fn an_interrupted_calibration_leaves_nothing_behind() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use std::process::Stdio;
    let scratch = Scratch::make();
    let mut command = scratch.storm(["model", "calibrate", "--output", "here.toml"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // The first cluster exists when its Machine Manager does.
    let begun = || scratch.processes().iter().any(|line| line.contains("--local-nodes"));
    assert!((0..MAX_LOOKS).any(|_| begun()), "no cluster is started");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid fits"));
    kill(pid, Signal::SIGINT).expect("it lives");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(130), "{}", told(&done));
    assert!(stderr(&done).contains("interrupted"), "{}", told(&done));
    let left: Vec<_> = std::fs::read_dir(scratch.work()).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
}
