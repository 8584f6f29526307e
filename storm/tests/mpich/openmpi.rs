//! Programs of Debian's Open MPI, which find each other through PMIx.

use crate::library::{Library, missing};
use crate::scratch::hosts::Hosts;
use crate::scratch::{Scratch, stderr, stdout, told};
use crate::{Bench, ONE_AT_A_TIME, PROGRAMS, VECTOR_BYTES};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::PoisonError;

/// Where ScaLAPACK's test programs for Open MPI are in Debian's `scalapack-mpi-test`.
const SCALAPACK: &str = "/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests";
/// How often a directory is looked for that goes in the background: some seconds' worth.
const MAX_LOOKS: usize = 1_000_000;

/// Two hosts, a program of Open MPI, and a limit of time for what hangs.
fn on_two_hosts(what: impl FnOnce(&Bench<'_>, &Path)) {
    with(Library::of_open_mpi(), what);
}

fn with(library: Option<Library>, what: impl FnOnce(&Bench<'_>, &Path)) {
    let Some(library) = library else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::make();
    let Some(hosts) = Hosts::cluster(&scratch, 2, 8) else { return };
    let bench = Bench { scratch: &scratch, hosts, prefix: library.prefix.clone() };
    let program = scratch.work().join("program");
    library.compile(&program);
    what(&bench, &program);
}

#[test]
fn open_mpi_runs_across_hosts() {
    on_two_hosts(|bench, program| does_everything(bench, program, "Open MPI v4."));
}

#[test]
fn open_mpi_5_runs_across_hosts() {
    let library = Library::of_pypis_open_mpi();
    with(library, |bench, program| does_everything(bench, program, "Open MPI v5."));
}

fn does_everything(bench: &Bench<'_>, program: &Path, name: &str) {
    let four = |argument| bench.lines("-n 4 -N 2", program, argument);
    let version = bench.lines("-n 1", program, "version").join("\n");
    assert!(version.starts_with(name), "{version}");
    assert_eq!(four("hello"), [0, 1, 2, 3].map(|rank| format!("rank {rank} of 4")));
    let places = [0, 1, 2, 3].map(|rank: i32| {
        let local = rank % 2;
        format!("rank {rank}: {local} of 2, told {local} of 2")
    });
    assert_eq!(four("shared"), places);
    assert_eq!(four("ring"), ["ring 4"]);
    let sent = |host| bench.hosts.sent_bytes(host);
    let before = [sent(1), sent(2)];
    assert_eq!(four("allreduce"), [0, 1, 2, 3].map(|rank| format!("rank {rank}: 0 wrong")));
    for (host, before) in [(1, before[0]), (2, before[1])] {
        let crossed = sent(host) - before;
        assert!(crossed >= VECTOR_BYTES, "only {crossed} bytes left host {host}");
    }
    // More than a node may report to the manager at once.
    let many = bench.lines("-n 16 -N 2", program, "hello");
    assert_eq!(many.len(), 16, "{many:?}");
    let aborted = bench.run("-n 4 -N 2", program, "quit");
    assert_eq!(aborted.status.code(), Some(7), "{}", told(&aborted));
}

#[test]
fn what_open_mpi_may_not_do_is_refused_and_does_not_hang() {
    on_two_hosts(|bench, program| {
        let names = bench.lines("-n 2 -N 2", program, "names");
        let refused = |what: &str| [0, 1].map(|rank| format!("rank {rank}: {what} refused"));
        let mut expected = [refused("lookup"), refused("publish")].concat();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let alone = bench.run("-n 2 -N 2 --mpi pmi1", program, "hello");
        assert!(!alone.status.success(), "ranks without PMIx are two jobs: {}", told(&alone));
        assert!(stderr(&alone).contains("An error occurred in MPI_Init"), "{}", told(&alone));
        assert_eq!(bench.lines("-n 1", program, "spawn"), ["rank 0: spawn refused"]);
        let spawned = bench.run("-n 2 -N 2", program, "spawn");
        assert_eq!(spawned.status.code(), Some(1), "{}", told(&spawned));
        assert!(stderr(&spawned).contains("MPI_Comm_spawn is refused"), "{}", told(&spawned));
    });
}

#[test]
fn however_a_rank_of_open_mpi_goes_the_job_ends_and_leaves_nothing() {
    on_two_hosts(|bench, program| {
        let ended_on = |ranks: &str, argument: &str, status: Option<i32>, reason: &str| {
            let done = bench.run(ranks, program, argument);
            assert!(!done.status.success(), "{argument}: {}", told(&done));
            assert!(
                status.is_none() || done.status.code() == status,
                "{argument}: {}",
                told(&done)
            );
            assert!(stderr(&done).contains(reason), "{argument}: {}", told(&done));
            done
        };
        let ended =
            |argument: &str, status, reason: &str| ended_on("-n 4 -N 2", argument, status, reason);
        ended("quit", Some(7), "rank 3 aborted the job with exit code 7");
        // Others may see that their connections with it are closed, and be faster.
        let killed = ended("killed", None, "storm: job");
        // Its own node sees it or the manager, whoever looks first.
        ended("absent", Some(1), "in a PMI barrier");
        ended_on("-n 2 -N 1", "outlive", Some(1), "rank 1 is gone and rank 0 waits for it");
        shared_memory_is_gone(&killed);
        let servers = bench.scratch.processes().into_iter().filter(|line| line.contains("__pmix"));
        assert_eq!(servers.collect::<Vec<_>>(), [""; 0]);
    });
}

/// The program said where its files in shared memory were.
fn shared_memory_is_gone(done: &Output) {
    let text = stdout(done);
    let said = text.lines().find_map(|line| line.strip_prefix("shared memory in "));
    let directory = PathBuf::from(said.unwrap_or_else(|| panic!("nothing said of it: {text}")));
    assert!(directory.starts_with("/dev/shm") && directory != Path::new("/dev/shm"), "{said:?}");
    // The job's end is told before the node has removed what was the job's.
    let gone = (0..MAX_LOOKS).any(|_| !directory.exists());
    assert!(gone, "{} is still there", directory.display());
}

#[test]
fn the_death_of_a_pmix_server_ends_the_job() {
    on_two_hosts(|bench, program| {
        let mut command = bench.scratch.storm(["run", "--time", "100s", "-n", "4", "-N", "2"]);
        command.args(bench.hosts.at().split_whitespace()).arg(program).arg("waits");
        let mut running =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("storm starts");
        let lines = BufReader::new(running.stdout.take().expect("piped")).lines();
        assert_eq!(lines.take(4).filter_map(Result::ok).count(), 4, "all ranks wait");
        // The server is a child of the process that watches it, which has the same arguments.
        let all = bench.scratch.pids_of("--serve");
        let server = all.iter().find(|(_, parent)| all.iter().any(|(pid, _)| pid == parent));
        let (server, _) = server.unwrap_or_else(|| panic!("no server and watcher in {all:?}"));
        kill(Pid::from_raw(*server), Signal::SIGKILL).expect("it lives");
        let done = running.wait_with_output().expect("storm ends");
        assert_eq!(done.status.code(), Some(1), "{}", told(&done));
        let said = stderr(&done);
        assert!(said.contains("the PMIx server of this node has died"), "{said}");
    });
}

#[test]
fn open_mpi_runs_under_each_policy_that_leaves_its_messages_alone() {
    let Some(library) = Library::of_open_mpi() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::make();
    let program = scratch.work().join("program");
    library.compile(&program);
    for policy in ["gang", "fcfs", "backfill", "local"] {
        let options = format!("run --time 100s --nodes 2 --sched {policy} -n 4 -N 2");
        let mut command = scratch.storm(options.split_whitespace());
        let done = command.arg(&program).arg("allreduce").output().expect("storm starts");
        assert!(done.status.success(), "{policy}: {}", told(&done));
        let mut lines: Vec<_> = stdout(&done).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        assert_eq!(lines, [0, 1, 2, 3].map(|rank| format!("rank {rank}: 0 wrong")), "{policy}");
    }
}

#[test]
fn programs_of_scalapack_factorize_with_open_mpi() {
    if !Path::new(SCALAPACK).exists() {
        return missing("ScaLAPACK", "apt-get install scalapack-mpi-test");
    }
    on_two_hosts(|bench, _| {
        let input = bench.scratch.work().join("input");
        fs::create_dir(&input).expect("made");
        for (program, file, parameters) in PROGRAMS {
            fs::write(input.join(file), parameters).expect("written");
            // It is linked with ScaLAPACK, and that with Open MPI.
            let program = Path::new(SCALAPACK).join(program);
            let done = bench.run("-n 2 -N 2 --chdir input", &program, "");
            assert!(done.status.success(), "{}", told(&done));
            let said = stdout(&done);
            assert!(said.contains(" tests completed and passed residual checks"), "{said}");
            assert!(!said.contains(" 0 tests completed and passed residual checks"), "{said}");
            assert!(said.contains(" 0 tests completed and failed residual checks"), "{said}");
        }
    });
}

#[test]
fn two_jobs_of_open_mpi_share_nodes_under_gang() {
    on_two_hosts(|bench, program| {
        let run = || {
            let mut command = bench.scratch.storm(["run", "--time", "100s", "-n", "16", "-N", "2"]);
            command.args(bench.hosts.at().split_whitespace()).arg(program).arg("ring");
            command.env("OMPI_MCA_mpi_yield_when_idle", "1");
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("storm starts")
        };
        for running in [run(), run()] {
            let done = running.wait_with_output().expect("storm ends");
            assert!(done.status.success(), "{}", told(&done));
            assert_eq!(stdout(&done), "ring 16\n");
        }
    });
}
