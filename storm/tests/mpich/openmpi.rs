//! Programs of Debian's Open MPI, which find each other through PMIx.

use crate::library::{Library, missing};
use crate::scratch::hosts::Hosts;
use crate::scratch::{Scratch, stderr, stdout, told};
use crate::{Bench, ONE_AT_A_TIME, PROGRAMS, VECTOR_BYTES};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::PoisonError;

/// The directory of ScaLAPACK's test programs for Open MPI in Debian's `scalapack-mpi-test`.
const SCALAPACK: &str = "/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests";
/// Most checks whether a directory is gone, which happens in the background: some seconds.
const MAX_LOOKS: usize = 1_000_000;

/// Runs a test with two hosts, a program of Open MPI, and a time limit in case it hangs.
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
fn forbidden_calls_of_open_mpi_are_refused_and_do_not_hang() {
    on_two_hosts(|bench, program| {
        let names = bench.lines("-n 2 -N 2", program, "names");
        let refused = |what: &str| [0, 1].map(|rank| format!("rank {rank}: {what} refused"));
        let mut expected = [refused("lookup"), refused("publish")].concat();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let alone = bench.run("-n 2 -N 2 --mpi pmi1", program, "hello");
        assert!(!alone.status.success(), "ranks without PMIx are two jobs: {}", told(&alone));
        assert!(stderr(&alone).contains("An error occurred in MPI_Init"), "{}", told(&alone));
        assert!(stderr(&alone).contains("say --mpi pmix"), "{}", told(&alone));
        assert_eq!(bench.lines("-n 1", program, "spawn"), ["rank 0: spawn refused"]);
        let spawned = bench.run("-n 2 -N 2", program, "spawn");
        assert_eq!(spawned.status.code(), Some(1), "{}", told(&spawned));
        assert!(stderr(&spawned).contains("MPI_Comm_spawn is refused"), "{}", told(&spawned));
    });
}

#[test]
fn a_program_of_open_mpi_behind_others_joins_its_job() {
    on_two_hosts(|bench, program| {
        let line = format!("A=B nice -n 1 {} hello", program.display());
        let ranks = bench.lines("-n 2 -N 2", Path::new("/usr/bin/env"), &line);
        assert_eq!(ranks, ["rank 0 of 2", "rank 1 of 2"]);
    });
}

#[test]
fn a_program_of_which_only_a_library_needs_open_mpi_joins_its_job() {
    on_two_hosts(|bench, program| {
        let apart = program.with_file_name("apart");
        Library::of_open_mpi().expect("it was there").compile_apart(&apart);
        let ranks = bench.lines("-n 2 -N 2", &apart, "hello");
        assert_eq!(ranks, ["rank 0 of 2", "rank 1 of 2"]);
        let behind = bench.lines(
            "-n 2 -N 2",
            Path::new("/usr/bin/env"),
            &format!("{} hello", apart.display()),
        );
        assert_eq!(behind, ranks);
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
        // Other ranks may notice first that their connections to it are closed.
        let killed = ended("killed", None, "storm: job");
        // Its own node or the manager notices, whichever checks first.
        ended("absent", Some(1), "in a PMI barrier");
        ended_on("-n 2 -N 1", "outlive", Some(1), "rank 1 is gone and rank 0 waits for it");
        shared_memory_is_gone(&killed);
        let servers = bench.scratch.processes().into_iter().filter(|line| line.contains("__pmix"));
        assert_eq!(servers.collect::<Vec<_>>(), [""; 0]);
    });
}

/// Checks that the shared-memory files that the program named are gone.
fn shared_memory_is_gone(done: &Output) {
    let text = stdout(done);
    let said = text.lines().find_map(|line| line.strip_prefix("shared memory in "));
    let directory = PathBuf::from(said.unwrap_or_else(|| panic!("nothing said of it: {text}")));
    assert!(directory.starts_with("/dev/shm") && directory != Path::new("/dev/shm"), "{said:?}");
    // The end of a job is reported before the node has removed its files.
    let gone = (0..MAX_LOOKS).any(|_| !directory.exists());
    assert!(gone, "{} is still there", directory.display());
}

/// Starts a waiting job of two ranks on each host, and returns once all ranks wait. On each host
/// the first rank starts the server.
fn waiting_job(bench: &Bench<'_>, program: &Path, options: &[&str]) -> Child {
    let mut command = bench.scratch.storm(["run", "--time", "100s", "-n", "4", "-N", "2"]);
    command.args(bench.hosts.at().split_whitespace()).args(options).arg(program).arg("waits");
    let mut running =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("storm starts");
    let lines = BufReader::new(running.stdout.take().expect("piped")).lines();
    assert_eq!(lines.take(4).filter_map(Result::ok).count(), 4, "all ranks wait");
    running
}

/// The servers of a job. Each is a child of its watcher, which has the same arguments.
fn servers(bench: &Bench<'_>) -> Vec<Pid> {
    let all = bench.scratch.pids_of("--serve");
    let is_child = |(_, parent): &&(i32, i32)| all.iter().any(|(pid, _)| pid == parent);
    let servers: Vec<Pid> =
        all.iter().filter(is_child).map(|(pid, _)| Pid::from_raw(*pid)).collect();
    assert!(!servers.is_empty(), "no server and watcher in {all:?}");
    servers
}

#[test]
fn the_death_of_a_pmix_server_ends_the_job() {
    on_two_hosts(|bench, program| {
        let running = waiting_job(bench, program, &[]);
        kill(servers(bench)[0], Signal::SIGKILL).expect("it lives");
        let done = running.wait_with_output().expect("storm ends");
        assert_eq!(done.status.code(), Some(1), "{}", told(&done));
        let said = stderr(&done);
        assert!(said.contains("the PMIx server of this node has died"), "{said}");
    });
}

/// Regression: only the rank that had started the server was watched.
#[test]
fn the_death_of_a_pmix_server_ends_the_job_whichever_rank_is_left() {
    on_two_hosts(|bench, _| {
        // One of two ranks exits without becoming a program of MPI; it may be the first of the two.
        for gone in [0, 1] {
            let script =
                format!("if [ $STORM_RANK = {gone} ]; then exit 0; fi; echo here; exec sleep 1000");
            let mut command = bench.scratch.storm(["run", "--time", "100s", "-n", "2", "-N", "1"]);
            command.args(bench.hosts.at().split_whitespace()).args(["--mpi", "pmix", "/bin/sh"]);
            command.args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut running = command.spawn().expect("storm starts");
            let mut lines = BufReader::new(running.stdout.take().expect("piped")).lines();
            assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("here"));
            // From now on only `storm run` has the script among its arguments.
            let alone = (0..MAX_LOOKS).any(|_| bench.scratch.pids_of(&script).len() == 1);
            assert!(alone, "rank {gone} is still there");
            servers(bench).into_iter().for_each(|server| {
                kill(server, Signal::SIGKILL).expect("it lives");
            });
            let done = running.wait_with_output().expect("storm ends");
            assert_eq!(done.status.code(), Some(1), "{gone}: {}", told(&done));
            let said = stderr(&done);
            assert!(said.contains("the PMIx server of this node has died"), "{said}");
        }
    });
}

#[test]
fn the_server_of_bound_ranks_may_run_wherever_the_node_may() {
    on_two_hosts(|bench, program| {
        let mut running = waiting_job(bench, program, &["--bind", "core"]);
        let allowed = |process: &str| {
            let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
            let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
            line.expect("there is one").to_owned()
        };
        for server in servers(bench) {
            assert_eq!(allowed(&server.to_string()), allowed("self"));
        }
        running.kill().expect("it waits");
        running.wait().expect("it was killed");
    });
}

#[test]
fn a_users_parameter_file_is_not_overridden() {
    on_two_hosts(|bench, _| {
        let home = bench.scratch.work().join("home");
        fs::create_dir_all(home.join(".openmpi")).expect("made");
        let file = "# mine\nschizo = ^orte\nosc_sm_backing_directory=/tmp\n";
        fs::write(home.join(".openmpi/mca-params.conf"), file).expect("written");
        let mut command = bench.scratch.storm(["run", "--time", "100s", "-n", "2", "-N", "2"]);
        command.args(bench.hosts.at().split_whitespace()).args(["--mpi", "pmix", "/usr/bin/env"]);
        let done = command.env("HOME", &home).output().expect("storm starts");
        assert!(done.status.success(), "{}", told(&done));
        let said = stdout(&done);
        let count = |start: &str| said.lines().filter(|line| line.starts_with(start)).count();
        // Node Managers, which do not read the file, set the first one.
        assert_eq!(count("OMPI_MCA_schizo="), 0, "{said}");
        assert_eq!(count("OMPI_MCA_osc_sm_backing_directory="), 0, "{said}");
        assert_eq!(count("OMPI_MCA_ess=pmi"), 2, "{said}");
        assert_eq!(count("PMIX_RANK="), 2, "{said}");
    });
}

#[test]
fn a_node_manager_that_is_killed_with_its_keeper_leaves_nothing_in_shared_memory() {
    on_two_hosts(|bench, program| {
        let left = || {
            let names = fs::read_dir("/dev/shm").expect("it is there").flatten();
            let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
            // Other files may be those of other tests' jobs, and come and go.
            names.filter(|name| name.starts_with("storm-")).collect::<BTreeSet<_>>()
        };
        let before = left();
        let mut running = waiting_job(bench, program, &[]);
        let own: Vec<String> = left().difference(&before).cloned().collect();
        assert!(own.len() >= 2, "one of each node: {own:?}");
        let keepers = [1, 2].map(|host| bench.hosts.children(host)).concat();
        bench.hosts.signal(1, Signal::SIGKILL);
        bench.hosts.signal(2, Signal::SIGKILL);
        running.kill().expect("it waits");
        running.wait().expect("it was killed");
        let gone = (0..MAX_LOOKS).any(|_| {
            // A keeper without a Node Manager ends when requested.
            for keeper in &keepers {
                let _ = kill(*keeper, Signal::SIGTERM);
            }
            !own.iter().any(|name| left().contains(name))
        });
        assert!(gone, "{own:?} of {:?}", left());
    });
}

#[test]
fn a_rank_may_be_a_script_of_several_programs_of_open_mpi() {
    on_two_hosts(several_programs);
}

#[test]
fn a_rank_may_be_a_script_of_several_programs_of_open_mpi_5() {
    with(Library::of_pypis_open_mpi(), several_programs);
}

fn several_programs(bench: &Bench<'_>, program: &Path) {
    let run = |ranks: &str, script: &str| {
        let mut command = bench.scratch.storm(["run", "--time", "100s", "--mpi", "pmix"]);
        command.args(bench.hosts.at().split_whitespace()).args(ranks.split_whitespace());
        command.args(["/bin/sh", "-c", script, "sh"]).arg(program);
        command.envs(bench.prefix.iter().map(|prefix| ("OPAL_PREFIX", prefix)));
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        command.output().expect("storm starts")
    };
    let done = run("-n 4 -N 2", "$1 ring && $1 shared && $1 ring && $1 allreduce && $1 hello");
    assert!(done.status.success(), "{}", told(&done));
    let said = stdout(&done);
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let mut expected = vec!["ring 4".to_owned(); 2];
    expected.extend([0, 1, 2, 3].map(|rank| {
        let local = rank % 2;
        format!("rank {rank}: {local} of 2, told {local} of 2")
    }));
    expected.extend([0, 1, 2, 3].map(|rank| format!("rank {rank} of 4")));
    expected.extend([0, 1, 2, 3].map(|rank| format!("rank {rank}: 0 wrong")));
    expected.sort_unstable();
    assert_eq!(lines, expected);
    for nodes in ["-n 2 -N 1", "-n 2 -N 2"] {
        let behind = run(nodes, "$1 hello; if [ $STORM_RANK = 0 ]; then $1 hello; fi");
        assert!(!behind.status.success(), "{}", told(&behind));
        assert!(stderr(&behind).contains("in a PMI barrier"), "{}", told(&behind));
    }
}

#[test]
fn a_job_that_a_rank_of_open_mpi_submits_is_one_of_its_own() {
    on_two_hosts(submits);
}

#[test]
fn a_job_that_a_rank_of_open_mpi_5_submits_is_one_of_its_own() {
    with(Library::of_pypis_open_mpi(), submits);
}

fn submits(bench: &Bench<'_>, program: &Path) {
    let storm = bench.scratch.storm(["run"]);
    let (storm, at) = (storm.get_program().display().to_string(), bench.hosts.at());
    let run = format!("{storm} run {at}");
    // The inner ranks must have the shared-memory directory of their own job.
    let inner = format!(
        "{run} --time 60s -n 2 -N 2 {} shared && {run} -n 1 --mpi pmi1 /usr/bin/env",
        program.display()
    );
    let mut command = bench.scratch.storm(["run", "--time", "100s", "-n", "2", "-N", "2"]);
    command.args(at.split_whitespace()).arg(program).arg("submits").env("SUBMITS", inner);
    command.envs(bench.prefix.iter().map(|prefix| ("OPAL_PREFIX", prefix)));
    command.env("OMPI_MCA_mpi_yield_when_idle", "1");
    let done = command.output().expect("storm starts");
    assert!(done.status.success(), "{}", told(&done));
    let said = stdout(&done);
    for rank in [0, 1] {
        let place = format!("rank {rank}: 0 of 1, told 0 of 1");
        assert!(said.lines().any(|line| line == place), "{said}");
    }
    // The second job has one rank, which joins by PMI-1, so it needs nothing of PMIx.
    let told_of = |prefix: &str| said.lines().filter(|line| line.starts_with(prefix)).count();
    assert_eq!(told_of("STORM_SIZE=1"), 1, "{said}");
    // Open MPI itself sets parameters in its ranks, which count as the user's.
    let of_pmix = told_of("PMIX_") - told_of("PMIX_MCA_") - told_of("PMIX_PREFIX=");
    // Each rank is told not to choose the launchers of Slurm.
    let of_storm = told_of("OMPI_MCA_plm=^slurm") + told_of("OMPI_MCA_ras=^slurm");
    assert_eq!((of_pmix, told_of("OMPI_MCA_") - of_storm), (0, 1), "{said}");
    assert_eq!(told_of("OMPI_MCA_mpi_yield_when_idle=1"), 1, "the user's: {said}");
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
            // The program is linked with ScaLAPACK, which is linked with Open MPI.
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
