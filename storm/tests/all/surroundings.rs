//! The environment of a job's processes: variables, working directory, cores, their numbers on the
//! node, and the settings for MPI libraries if there are too few cores.

use crate::scratch::{Scratch, stderr, stdout, told};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A kept cluster of 2 nodes.
fn cluster(pes: usize) -> Scratch {
    let scratch = Scratch::make();
    scratch.prints(&format!("up --nodes 2 --pes {pes}"));
    scratch
}

fn run(scratch: &Scratch, options: &[&str], program: &[&str]) -> Output {
    let mut command = scratch.storm(["run"]);
    command.args(options).args(program).env("HERE", "mine").env("OTHER", "too");
    command.output().expect("storm starts")
}

/// The sorted output lines of the ranks.
fn lines(scratch: &Scratch, options: &[&str], script: &str) -> Vec<String> {
    let done = run(scratch, options, &["/bin/sh", "-c", script]);
    assert!(done.status.success(), "{options:?}: {}", told(&done));
    let mut lines: Vec<String> = stdout(&done).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Processors that this host's processes may run on.
fn processors() -> usize {
    std::thread::available_parallelism().expect("the kernel tells").get()
}

#[test]
fn the_environment_that_is_asked_for_is_what_the_job_gets() {
    let scratch = cluster(1);
    let script = "echo ${HERE-none} ${OTHER-none} ${NEW-none} ${STORM_RANK-none}";
    for (export, expected) in [
        (None, "mine too none 0"),
        (Some("ALL"), "mine too none 0"),
        (Some("NONE"), "none none none 0"),
        (Some("HERE"), "mine none none 0"),
        (Some("HERE,NEW=1"), "mine none 1 0"),
        (Some("ALL,NEW='a,b',OTHER="), "mine a,b 0"),
    ] {
        let options = export.map_or_else(Vec::new, |export| vec!["--export", export]);
        assert_eq!(lines(&scratch, &options, script)[0], expected, "{export:?}");
    }
    let wrong = run(&scratch, &["--export", "NONE,HERE"], &["true"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
    assert!(stderr(&wrong).contains("NONE stands alone"), "{}", told(&wrong));
}

#[test]
fn the_job_runs_in_the_directory_that_is_asked_for() {
    let scratch = cluster(1);
    fs::create_dir(scratch.work().join("a place")).expect("made");
    let place = scratch.work().join("a place").canonicalize().expect("it is there");
    assert_eq!(lines(&scratch, &["--chdir", "a place"], "pwd"), [place.display().to_string()]);
    let nowhere = run(&scratch, &["--chdir", "/no/such/place"], &["pwd"]);
    assert_eq!(nowhere.status.code(), Some(126), "{}", told(&nowhere));
    let said = stderr(&nowhere);
    assert!(said.contains("cannot enter the working directory /no/such/place"), "{said}");
}

#[test]
fn bound_ranks_have_a_core_each_and_others_have_them_all() {
    let scratch = cluster(1);
    let script = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status";
    let mine = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let mine = mine.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let mine = mine.expect("the kernel tells").trim().to_owned();
    for options in [&["-n", "2"][..], &["-n", "2", "--bind", "none"]] {
        assert_eq!(lines(&scratch, options, script), [mine.clone(), mine.clone()]);
    }
    let bound = lines(&scratch, &["-n", "2", "--bind", "core"], script);
    if processors() > 1 {
        assert!(bound.iter().all(|cpus| *cpus != mine), "{bound:?} of {mine}");
        let siblings = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
        let siblings = std::fs::read_to_string(siblings).unwrap_or_default();
        if siblings.trim() == "0" {
            let different: BTreeSet<&String> = bound.iter().collect();
            assert_eq!(different.len(), 2, "the nodes of one host share it: {bound:?}");
        }
    }
}

#[test]
fn ranks_are_numbered_on_their_node_as_mpi_libraries_expect() {
    let scratch = cluster(2);
    let script = "echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS \
                  $STORM_LOCAL_RANK/$STORM_LOCAL_SIZE";
    let said = lines(&scratch, &["-n", "3", "-N", "2"], script);
    assert_eq!(said, ["0/3 0/2 0/2", "1/3 1/2 1/2", "2/3 0/1 0/1"]);
}

#[test]
fn jobs_of_the_same_number_in_two_clusters_have_not_the_same_name_for_mpi_libraries() {
    // As in the names of these libraries' files in /dev/shm.
    let ask = r#"
        printf 'cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_my_kvsname\n' >&$PMI_FD
        read init <&$PMI_FD && read name <&$PMI_FD && echo "$STORM_JOB_ID ${STORM_MPI_SPACE-} $name"
        echo cmd=finalize >&$PMI_FD && read bye <&$PMI_FD
    "#;
    let named = || {
        let ranks = lines(&cluster(1), &["-N", "2"], ask);
        assert_eq!(ranks[0], ranks[1], "its ranks have one name");
        ranks[0].clone()
    };
    let (first, second) = (named(), named());
    assert!(first.starts_with("1  cmd=my_kvsname kvsname=storm-1-1-"), "{first}");
    assert!(second.starts_with("1  cmd=my_kvsname kvsname=storm-1-1-"), "{second}");
    assert_ne!(first, second);
}

#[test]
fn libraries_are_told_to_yield_when_ranks_exceed_the_cores() {
    let many = processors() + 1;
    let scratch = cluster(many);
    let script = "echo ${OMPI_MCA_mpi_yield_when_idle-0} ${I_MPI_WAIT_MODE-0} \
                  ${MPIR_CVAR_CH4_PROGRESS_THROTTLE-0}";
    let procs = many.to_string();
    // Two nodes of this host, which has fewer cores than the job has ranks on both together.
    for options in [&["-n", &procs][..], &["-n", &procs, "-N", "2"]] {
        assert_eq!(lines(&scratch, options, script), vec!["1 1 1"; many]);
    }
    assert_eq!(lines(&scratch, &["-n", "1"], script), ["0 0 0"]);
    let own = ["-n", &procs, "--export", "ALL,I_MPI_WAIT_MODE=mine"];
    assert_eq!(lines(&scratch, &own, script), vec!["1 mine 1"; many]);
}

/// A file that can be executed, in a directory of its own.
fn executable(scratch: &Scratch, name: &str, text: &str) -> PathBuf {
    let directory = scratch.work().join("programs");
    fs::create_dir_all(&directory).expect("made");
    let path = directory.canonicalize().expect("it is there").join(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("ours");
    path
}

fn compiled(arguments: &[&OsStr]) {
    let done = Command::new("cc").args(arguments).output().expect("cc starts");
    assert!(done.status.success(), "{}", told(&done));
}

#[test]
fn programs_find_what_lies_beside_them() {
    let scratch = cluster(1);
    let script = executable(&scratch, "script", "#!/usr/bin/perl\nprint \"$0\\n\";\n");
    let run = |options: &[&str], program: &Path| {
        let done = run(&scratch, options, &[program.to_str().expect("it is text")]);
        assert!(done.status.success(), "{}", told(&done));
        stdout(&done)
    };
    let there = format!("{}\n", script.display());
    assert_eq!(run(&["-n", "2", "-N", "2"], &script), there.repeat(2));
    // The program's files are where the user has them copied.
    let beside = run(&["--bcast", "/etc/hostname"], &script);
    assert!(beside.ends_with("/script\n") && beside != there, "{beside}");
    // A shell reads a script while it runs it, so its copy is executed, which cannot be edited.
    let shell = run(&[], &executable(&scratch, "shell", "#!/bin/sh\necho \"$0\"\n"));
    assert!(shell.contains("/jobs/3.") && shell.ends_with("/shell\n"), "{shell}");

    let library = executable(&scratch, "library.c", "int seven(void) { return 7; }");
    let main = "int seven(void);\nint main(void) { return seven() - 7; }";
    let main = executable(&scratch, "main.c", main);
    let directory = main.parent().expect("a directory");
    let (shared, linked) = (directory.join("libseven.so"), directory.join("linked"));
    let (o, path) = (OsStr::new("-o"), OsStr::new("-Wl,-rpath,$ORIGIN"));
    compiled(&["-shared".as_ref(), "-fPIC".as_ref(), o, shared.as_ref(), library.as_ref()]);
    compiled(&[o, linked.as_ref(), main.as_ref(), shared.as_ref(), path]);
    assert_eq!(run(&[], &linked), "");
}

#[test]
fn a_program_that_is_edited_while_its_job_waits_runs_as_it_was_submitted() {
    let scratch = cluster(1);
    let script = executable(&scratch, "script", "#!/usr/bin/perl\nprint \"old $0\\n\";\n");
    let path = script.to_str().expect("it is text");
    scratch.prints(&format!("submit --hold --output said {path}"));
    fs::write(&script, "#!/usr/bin/perl\nprint \"new $0\\n\";\n").expect("written");
    scratch.prints("release 1");
    scratch.prints("wait 1");
    let said = fs::read_to_string(scratch.work().join("said")).expect("it was written");
    assert!(said.starts_with("old ") && said.ends_with("/jobs/1.1/script\n"), "{said}");
}
