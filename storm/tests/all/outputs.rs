//! The output of jobs: lines of ranks stay whole, and nothing is lost when jobs share a file.

use crate::scratch::{Scratch, stderr, stdout, told};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

fn cluster(shape: &str) -> Scratch {
    let scratch = Scratch::make();
    scratch.prints(&format!("up {shape}"));
    scratch
}

fn storm(scratch: &Scratch, words: &str, script: &str) -> Output {
    let mut command = scratch.storm(words.split_whitespace());
    command.args(["sh", "-c", script]).output().expect("storm starts")
}

/// The number of a job submitted with these words.
fn submit(scratch: &Scratch, words: &str, script: &str) -> String {
    let done = storm(scratch, &format!("submit --quiet {words}"), script);
    assert!(done.status.success(), "{}", told(&done));
    stdout(&done).trim().to_owned()
}

/// Regression: 22 of 24,000 lines were broken, as programs write full buffers that end within a
/// line.
#[test]
fn lines_of_ranks_come_whole() {
    const LINES: usize = 2_000;
    let scratch = cluster("--nodes 2 --pes 4");
    let script = format!(
        "awk -v rank=$STORM_RANK 'BEGIN {{ for (i = 0; i < {LINES}; i++) printf \"%d %070d\\n\", rank, i }}'"
    );
    let done = storm(&scratch, "run -n 8", &script);
    assert!(done.status.success(), "{}", stderr(&done));
    assert_whole(&stdout(&done), 8, LINES, "followed");
}

/// Checks that each of so many ranks has its numbered lines, in order and whole.
fn assert_whole(text: &str, ranks: usize, lines: usize, what: &str) {
    let mut seen = BTreeMap::<&str, usize>::new();
    for line in text.lines() {
        let (rank, number) = line.split_once(' ').unwrap_or_else(|| panic!("{what}: {line:?}"));
        let next = seen.entry(rank).or_default();
        assert_eq!(number, format!("{next:070}"), "{what}: of rank {rank}");
        *next += 1;
    }
    assert_eq!(seen.len(), ranks, "{what}: {:?}", seen.keys());
    assert!(seen.values().all(|count| *count == lines), "{what}: {seen:?}");
}

/// Regression: 8,308 of 24,000 lines were broken. Programs in C and Python write full buffers; the
/// ranks of two nodes append to one file here.
#[test]
fn lines_of_ranks_in_one_file_are_whole() {
    const LINES: usize = 3_000;
    let scratch = cluster("--nodes 2 --pes 4");
    let in_c = format!(
        "exec awk -v r=$STORM_RANK 'BEGIN {{ for (i = 0; i < {LINES}; i++) printf \"%d %070d\\n\", r, i }}'"
    );
    let in_python = format!(
        "unset PYTHONUNBUFFERED; exec python3 -c 'import os\nfor i in range({LINES}): \
         print(os.environ[\"STORM_RANK\"], \"%070d\" % i)'"
    );
    let has_python = Command::new("python3").arg("--version").output().is_ok();
    let programs = [("C", in_c, true), ("Python", in_python, has_python)];
    for (name, program, _) in programs.into_iter().filter(|(.., there)| *there) {
        for options in ["-o one", "-o one -e one", "", "-o one-%n"] {
            let job = submit(&scratch, &format!("-n 8 {options}"), &program);
            scratch.prints(&format!("wait {job}"));
            let read = |file: &str| {
                let path = scratch.work().join(file);
                let text = fs::read_to_string(&path).expect("written");
                fs::remove_file(path).expect("ours");
                text
            };
            let what = format!("{name}, {options}");
            match options {
                "" => assert_whole(&read(&format!("storm-{job}.out")), 8, LINES, &what),
                "-o one-%n" => {
                    assert_whole(&read("one-n1"), 4, LINES, &what);
                    assert_whole(&read("one-n2"), 4, LINES, &what);
                }
                _ => assert_whole(&read("one"), 8, LINES, &what),
            }
        }
    }
}

/// A rank that has a file to itself writes to it directly.
#[test]
fn a_rank_writes_to_a_file_of_its_own_itself() {
    let scratch = cluster("--nodes 2 --pes 2");
    let script = "own=$(readlink /proc/$$/fd/1); echo $own >&2";
    for (words, file, direct) in [
        ("-n 4 -o own-%r -e err-%r", "own-3", true),
        ("-n 1 -o own -e err-%r", "own", true),
        ("-n 2 -N 2 -o own-%n -e err-%r", "own-n1", true),
        ("-n 4 -o shared -e err-%r", "shared", false),
        ("-n 4 -o /dev/null -e err-%r", "/dev/null", true),
    ] {
        let job = submit(&scratch, words, script);
        scratch.prints(&format!("wait {job}"));
        let rank = if file == "own-3" { 3 } else { 0 };
        let said = fs::read_to_string(scratch.work().join(format!("err-{rank}"))).expect("written");
        let path = scratch.work().join(file);
        assert!(path.exists(), "{words}");
        match direct {
            true => assert_eq!(said.trim(), path.to_str().expect("text"), "{words}"),
            false => assert!(said.starts_with("pipe:"), "{words}: {said}"),
        }
    }
}

#[test]
fn a_cancelled_job_has_its_last_words_in_the_file_of_its_ranks() {
    let scratch = cluster("--nodes 1 --pes 2");
    let script = "printf 'last words, '; touch said-$STORM_RANK; exec sleep 1000";
    let job = submit(&scratch, "-n 2 -o words", script);
    let said = |rank| scratch.work().join(format!("said-{rank}")).exists();
    scratch.wait_for(&format!("show {job}"), |_| (said(0) && said(1)).then_some(()));
    scratch.prints(&format!("cancel {job}"));
    scratch.does(&format!("wait {job}"));
    let text = fs::read_to_string(scratch.work().join("words")).expect("written");
    assert_eq!(text, "last words, last words, ");
}

#[test]
fn a_prompt_of_one_of_several_ranks_is_seen() {
    let scratch = cluster("--nodes 1 --pes 2");
    let script = "test $STORM_RANK = 1 || { printf 'name? '; read name; echo hello $name; }";
    let mut command = scratch.storm(["run", "-n", "2", "sh", "-c", script]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = command.spawn().expect("storm starts");
    let mut output = running.stdout.take().expect("a pipe");
    let mut prompt = [0; 6];
    output.read_exact(&mut prompt).expect("a prompt");
    assert_eq!(&prompt, b"name? ");
    let mut input = running.stdin.take().expect("a pipe");
    input.write_all(b"ada\n").expect("it reads");
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "hello ada\n");
    assert!(running.wait().expect("it ends").success());
}

/// Regression: each job of an array emptied their common file.
#[test]
fn an_array_with_one_file_loses_nothing_and_is_told_of() {
    let scratch = cluster("--nodes 1 --pes 4");
    let submitted = storm(&scratch, "submit --array 1-20 -o one", "echo out; echo err >&2");
    assert!(stderr(&submitted).contains("all 20 jobs of the array append to one"), "{submitted:?}");
    scratch.prints("wait 1");
    let text = fs::read_to_string(scratch.work().join("one")).expect("written");
    let count = |wanted: &str| text.lines().filter(|line| *line == wanted).count();
    assert_eq!((count("out"), count("err"), text.lines().count()), (20, 20, 40), "{text}");
}

#[test]
fn a_job_does_not_empty_the_file_that_another_writes_to() {
    let scratch = cluster("--nodes 1 --pes 4");
    let path = scratch.work().join("one");
    let slow = "echo first; until test -e go; do :; done; echo last";
    for options in ["-o one", "-n 2 -o one"] {
        let _ = fs::remove_file(&path);
        let first = submit(&scratch, options, slow);
        let begun = |_: &serde_json::Value| {
            fs::read_to_string(&path).is_ok_and(|text| text.contains("first")).then_some(())
        };
        scratch.wait_for(&format!("show {first}"), begun);
        let between = submit(&scratch, "-o one", "echo between");
        scratch.prints(&format!("wait {between}"));
        fs::write(scratch.work().join("go"), "").expect("written");
        scratch.prints(&format!("wait {first}"));
        let text = fs::read_to_string(&path).expect("written");
        assert!(text.starts_with("first\n") && text.ends_with("last\n"), "{text}");
        assert!(text.contains("between\n"), "{text}");
        fs::remove_file(scratch.work().join("go")).expect("ours");
        // A later job starts an empty file.
        let later = submit(&scratch, "-o one", "echo later");
        scratch.prints(&format!("wait {later}"));
        assert_eq!(fs::read_to_string(&path).expect("written"), "later\n");
    }
}

/// Regression: the job ended by signal 13 without an explanation.
#[test]
fn a_stream_of_the_process_as_its_output_is_explained_or_done() {
    let scratch = cluster("--nodes 1 --pes 1");
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let done = storm(&scratch, &format!("run -o {name}"), "echo hi");
        assert_eq!((done.status.code(), &*stdout(&done)), (Some(0), "hi\n"), "{}", told(&done));
        let refused = storm(&scratch, &format!("submit -o {name}"), "echo hi");
        assert_eq!(refused.status.code(), Some(2), "{}", told(&refused));
        assert!(stderr(&refused).contains("`storm run` brings the output here"), "{refused:?}");
    }
    let both = storm(&scratch, "run -o /dev/stdout -e /dev/stderr", "echo hi; echo ho >&2");
    assert_eq!((&*stdout(&both), both.status.code()), ("hi\n", Some(0)), "{}", told(&both));
    assert!(stderr(&both).contains("ho\n"), "{}", told(&both));
    let crossed = storm(&scratch, "run -o /dev/stderr", "echo hi");
    assert_eq!(crossed.status.code(), Some(2), "{}", told(&crossed));
}

#[test]
fn a_copy_without_its_set_uid_bit_is_told_of_and_recorded() {
    let scratch = cluster("--nodes 1 --pes 1");
    let path = scratch.work().join("own");
    fs::copy("/bin/true", &path).expect("copied");
    fs::set_permissions(&path, Permissions::from_mode(0o4755)).expect("ours");
    let done = scratch.does("run ./own");
    assert!(done.status.success(), "{}", told(&done));
    assert!(stderr(&done).contains("the copies of own on the nodes have no set-uid"), "{done:?}");
    let shown = scratch.prints("show 1");
    assert!(shown.contains("copies of own"), "{shown}");
    // Regression: these forms hid it.
    for (form, told) in [("-q", "storm: the copies"), ("--json", "{\"warning\":\"the copies")] {
        let done = scratch.does(&format!("run {form} ./own"));
        assert!(stderr(&done).starts_with(told) && stdout(&done).is_empty(), "{done:?}");
    }
    let mode = storm(&scratch, "run --bcast own", "stat -c %a $STORM_JOB_DIR/own");
    assert!(!stdout(&mode).trim().starts_with('4'), "{}", told(&mode));
    assert!(stderr(&mode).contains("the copies of own"), "{}", told(&mode));
}

/// `show --json` has a single form for text that is not UTF-8: an array of bytes.
#[test]
fn bytes_that_are_not_utf_8_are_an_array_in_json() {
    let scratch = cluster("--nodes 1 --pes 1");
    let odd = std::ffi::OsStr::from_bytes(b"d\xff");
    fs::create_dir(scratch.work().join(odd)).expect("made");
    let mut command = scratch.storm(["run"]);
    command.current_dir(scratch.work().join(odd)).arg("true").arg(odd);
    let done = command.output().expect("storm starts");
    assert!(done.status.success(), "{}", told(&done));
    let spec = &scratch.json("show 1")["spec"];
    let bytes = |value: &serde_json::Value| {
        let bytes = value.as_array().expect("an array").iter();
        bytes.map(|byte| byte.as_u64().expect("a byte")).collect::<Vec<_>>()
    };
    assert!(bytes(&spec["cwd"]).ends_with(&[u64::from(b'd'), 0xff]), "{spec}");
    assert_eq!(bytes(&spec["argv"][1]), [u64::from(b'd'), 0xff]);
    assert_eq!(spec["argv"][0], "true");
}
