//! Node managers with real processes: keeper, PLs, pipes, files. Each test runs with control
//! groups, if root has any, and with signals. The tests also run as an ordinary user.
//!
//! The program is its own keeper: with the argument `keeper` it is nothing else.

mod cgroups;
mod loopback;
mod manager;

use bytes::Bytes;
use manager::{Cluster, node_config, own, plan, processes_with, shell};
use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use storm_nm::ExitReason;
use storm_nm::live::{ServeError, serve, start_keeper};
use storm_primitives::NodeId;
use storm_rm::message::{Command, ExitStatus, Report, Stream};
use storm_rm::{
    ContentHash, Destination, FileSpec, FirstStep, InputSpec, JobId, JobSpec, OutputSpec, Owner,
    Program, Rank, ResourceLimit, Row, RowSet, StepId, StepRef,
};

const NOBODY: Owner = Owner { uid: 65_534, gid: 65_534 };
const SIGTERM: i32 = 15;
/// Short, but long compared with the delay of an answer on a busy test machine.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(2);

type Test = fn(Rc<Cluster>) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        &[$((stringify!($name), |cluster| Box::pin($name(cluster)))),*]
    };
}

const TESTS: &[(&str, Test)] = tests![
    ranks_know_who_they_are,
    a_shipped_script_runs_from_the_jobs_directory,
    steps_beside_their_script_have_their_own_files_and_variables,
    failures_to_start_name_the_cause,
    input_comes_back_as_output,
    input_to_a_rank_that_is_gone_is_discarded_though_a_child_keeps_the_pipe,
    much_output_is_complete,
    output_goes_to_files_by_pattern,
    files_are_placed_where_asked,
    rows_take_turns,
    a_stopped_job_acts_on_signals_and_dies,
    children_left_behind_do_not_hold_the_job,
    pmi_is_served,
    hostile_pmi_clients_are_cut_off_and_no_other_job_suffers,
    limits_reach_the_ranks,
    jobs_of_other_users,
    many_short_jobs_follow_each_other,
    jobs_destroyed_at_once_give_their_places_back,
    places_of_small_jobs_serve_larger_ones,
    shutdown_kills_what_runs,
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "keeper") {
        return storm_pl::keeper_main();
    }
    let wanted = |name: &str| {
        let mut filters = args.iter().filter(|arg| !arg.starts_with('-')).peekable();
        filters.peek().is_none() || filters.any(|filter| name.contains(filter.as_str()))
    };
    for signals_only in [false, true] {
        for (name, test) in TESTS.iter().filter(|(name, _)| wanted(name)) {
            let begun = Instant::now();
            on_a_runtime(async {
                let cluster = Cluster::start(2, signals_only);
                test(cluster.clone()).await;
                cluster.shut_down().await;
            });
            let how = if signals_only { "signals" } else { "default" };
            println!("test {name} ({how}) ... ok, {:?}", begun.elapsed());
        }
        if wanted("a_keeper_that_hangs_is_killed_and_its_node_is_lost") {
            on_a_runtime(a_keeper_that_hangs_is_killed_and_its_node_is_lost(signals_only));
            println!("test a_keeper_that_hangs_is_killed_and_its_node_is_lost ... ok");
        }
    }
    if wanted("a_node_whose_places_cannot_be_made_is_lost") {
        on_a_runtime(a_node_whose_places_cannot_be_made_is_lost());
        println!("test a_node_whose_places_cannot_be_made_is_lost ... ok");
    }
    if wanted("the_daemon_serves_and_leaves_its_record") {
        // The daemon needs a thread of its own, which may become a real-time thread.
        let daemon = std::thread::spawn(the_daemon_serves_and_leaves_its_record);
        daemon.join().expect("the test passes");
        println!("test the_daemon_serves_and_leaves_its_record ... ok");
    }
    ExitCode::SUCCESS
}

fn on_a_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), test);
}

async fn a_keeper_that_hangs_is_killed_and_its_node_is_lost(signals_only: bool) {
    let cluster = Cluster::without_managers(1);
    let keeper = cluster.manage(cluster.nodes[0].clone(), |config| {
        config.signals_only = signals_only;
        config.keeper_timeout = KEEPER_TIMEOUT;
    });
    let mark = format!("76543{}", std::process::id());
    cluster.launch(1, 2, RowSet::ALL, shell(&format!("echo up; exec sleep {mark}"))).await;
    cluster.output_contains(1, 1, "up").await;
    let keeper = nix::unistd::Pid::from_raw(keeper);
    nix::sys::signal::kill(keeper, nix::sys::signal::Signal::SIGSTOP).expect("it is ours");
    let lost = |reports: &[(NodeId, Report)]| {
        reports.iter().any(|(_, report)| *report == Report::ProcessesLost).then_some(())
    };
    cluster.until(lost).await;
    assert_eq!(processes_with(&format!("sleep\0{mark}")), 0);
    assert_eq!(cluster.exits().await, [ExitReason::HostLost]);
}

/// The kernel allows no control groups for the places of this node.
async fn a_node_whose_places_cannot_be_made_is_lost() {
    let cluster = Cluster::without_managers(1);
    cluster.manage(cluster.nodes[0].clone(), |config| config.pads = 0);
    let Some(groups) = cgroups::of_node(NodeId(1)) else {
        println!("SKIPPED: places that cannot be made: this node has no cgroup v2 of its own");
        return cluster.shut_down().await;
    };
    cgroups::forbid_more(&groups);
    cluster.launch(1, 1, RowSet::ALL, shell("exit 0")).await;
    let lost = |reports: &[(NodeId, Report)]| {
        reports.iter().any(|(_, report)| *report == Report::ProcessesLost).then_some(())
    };
    cluster.until(lost).await;
    assert_eq!(cluster.exits().await, [ExitReason::HostLost]);
    assert!(!groups.exists(), "{} is left", groups.display());
}

fn the_daemon_serves_and_leaves_its_record() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("switches.csv");
    let mut config = node_config(NodeId(1), dir.path().join("n1"));
    config.switch_log = Some(log.clone());
    let keeper = start_keeper(&config).expect("a keeper");
    let exit = serve(keeper, config, plan(), || async {
        let cluster = Cluster::without_managers(1);
        let node = cluster.nodes[0].clone();
        tokio::task::spawn_local(async move {
            cluster.launch(1, 1, row(0), shell("exit 5")).await;
            let exits = cluster.exits_of(1).await;
            assert_eq!(exits[&Rank(0)].status, ExitStatus::Code(5));
            for strobe in 0..10 {
                cluster.strobe(strobe % 2).await;
            }
            cluster.say(vec![Command::Shutdown]).await;
        });
        Ok::<_, std::io::Error>(node)
    });
    let exit = exit.expect("a proper end");
    assert_eq!(exit.reason, ExitReason::Shutdown);
    assert_eq!(exit.switches.records().count(), 10);
    let log = std::fs::read_to_string(log).expect("the record");
    assert_eq!(log.lines().count(), 11, "{log}");
    let join = serve(
        start_keeper(&node_config(NodeId(1), dir.path().join("n1"))).expect("a keeper"),
        node_config(NodeId(1), dir.path().join("n1")),
        plan(),
        || async { Err::<loopback::Loopback, _>("no such cluster") },
    );
    assert!(matches!(join, Err(ServeError::Join(_))), "{join:?}");
    assert!(!dir.path().join("n1").exists());
}

fn row(row: u32) -> RowSet {
    RowSet::single(Row(row))
}

fn file(name: &str, content: &[u8], destination: Destination) -> FileSpec {
    let (hash, size_bytes) = (ContentHash::of(content), content.len() as u64);
    FileSpec { hash, size_bytes, mode: 0o755, name: name.into(), destination }
}

async fn launch_failure(cluster: &Cluster, job: u64) -> (String, u8) {
    cluster
        .until(|reports| {
            reports.iter().find_map(|(_, report)| match report {
                Report::LaunchFailed {
                    step: StepRef { job: JobId(id), .. },
                    reason,
                    exit_code,
                    ..
                } if *id == job => Some((reason.clone(), *exit_code)),
                _ => None,
            })
        })
        .await
}

async fn ranks_know_who_they_are(cluster: Rc<Cluster>) {
    let script = "echo $STORM_JOB_ID $STORM_RANK/$STORM_SIZE $STORM_LOCAL_RANK \
                  $STORM_NODE_ID $STORM_NODELIST $STORM_NODE_ADDR $PMI_RANK/$PMI_SIZE; \
                  cd $STORM_JOB_DIR && echo here; echo problem >&2; exit $STORM_RANK";
    cluster.launch(1, 2, RowSet::ALL, shell(script)).await;
    let exits = cluster.exits_of(1).await;
    for rank in 0..4u32 {
        let status = exits[&Rank(rank)].status;
        assert_eq!(status, ExitStatus::Code(rank as u8));
        let (local, node) = (rank % 2, rank / 2 + 1);
        let expected = format!("1 {rank}/4 {local} {node} n[1-2] 127.0.0.1 {rank}/4\nhere\n");
        assert_eq!(cluster.output(1, rank, Stream::Stdout), expected);
        assert_eq!(cluster.output(1, rank, Stream::Stderr), "problem\n");
    }
    cluster.say(vec![Command::ReleaseJob { step: StepRef::program(JobId(1)) }]).await;
}

async fn a_shipped_script_runs_from_the_jobs_directory(cluster: Rc<Cluster>) {
    let content = b"#!/bin/bash\necho \"$0 $1\"\ncat \"$STORM_JOB_DIR/data\"\n".to_vec();
    let data = vec![b'd'; 1_500_000];
    let program = file("script", &content, Destination::JobDirectory);
    let more = file("data", &data, Destination::JobDirectory);
    for (job, shipped) in [(1, 2), (2, 0)] {
        let times = cluster.ship(&program, &content).await.expect("shipped");
        assert_eq!(times.sent_to.len(), shipped);
        let times = cluster.ship(&more, &data).await.expect("shipped");
        assert_eq!(times.sent_to.len(), shipped);
        let mut spec = shell("");
        spec.step.program = Program::Shipped(program.clone());
        spec.step.files = vec![more.clone()];
        spec.step.argv = vec!["script".into(), "argument".into()];
        cluster.launch(job, 1, RowSet::ALL, spec).await;
        let exits = cluster.exits_of(job).await;
        assert!(exits.values().all(|exit| exit.status == ExitStatus::Code(0)), "{exits:?}");
        let said = cluster.output(job, 0, Stream::Stdout);
        let path = cluster.node_dir(1).join(format!("jobs/{job}.1"));
        let head = format!("{}/script argument\n", path.display());
        assert!(said.starts_with(&head), "{}", &said[..said.len().min(200)]);
        assert!(said.as_bytes()[head.len()..] == data);
        assert!(path.exists());
        cluster.say(vec![Command::ReleaseJob { step: StepRef::program(JobId(job)) }]).await;
    }
    // Every node notices damage on the way.
    let mut damaged = content.clone();
    damaged.push(b'x');
    let announced = file("script2", &damaged, Destination::JobDirectory);
    damaged[0] = b'y';
    assert!(cluster.ship(&announced, &damaged).await.is_err());
    let reason = cluster.until(|reports| {
        reports.iter().find_map(|(_, report)| match report {
            Report::FileFailed { reason, .. } => Some(reason.clone()),
            _ => None,
        })
    });
    let reason = reason.await;
    assert!(reason.contains("cannot receive script2") && reason.contains("damaged"), "{reason}");
}

/// The script waits for its input, and two steps run beside it on both nodes.
async fn steps_beside_their_script_have_their_own_files_and_variables(cluster: Rc<Cluster>) {
    let step = |step| StepRef { job: JobId(1), step };
    let (script, numbered) = (step(StepId::Batch), |number| step(StepId::Number(number)));
    let in_place = |spec| JobSpec { first: FirstStep::Script, ..spec };
    let mut spec =
        shell("echo $STORM_PLACE ${STORM_STEP_ID-none} $SLURM_NTASKS; read line; exit 3");
    spec.step.input = InputSpec::RankZero;
    cluster.launch_step((script, 1), 1, RowSet::ALL, in_place(spec)).await;
    let begun =
        |_: &[_]| (cluster.output_of(script, 0, Stream::Stdout) == "1:1 none 2\n").then_some(());
    cluster.until(begun).await;
    let text = "echo $STORM_PLACE $STORM_STEP_ID $SLURM_STEP_ID $SLURM_PROCID/$SLURM_STEP_NUM_TASKS \
                $SLURM_NODEID $PMI_RANK/$PMI_SIZE ${STORM_JOB_DIR##*/}; exit $SLURM_STEP_ID";
    for number in [0, 1] {
        let launch = (numbered(number), u64::from(number) + 2);
        cluster.launch_step(launch, 1, RowSet::ALL, in_place(shell(text))).await;
    }
    for number in [0, 1] {
        let exits = cluster.exits_of_step(numbered(number), 2).await;
        let code = ExitStatus::Code(number as u8);
        assert!(exits.len() == 2 && exits.values().all(|exit| exit.status == code), "{exits:?}");
        for rank in [0, 1] {
            let said = cluster.output_of(numbered(number), rank, Stream::Stdout);
            let run = number + 2;
            let told = format!("1:1 {number} {number} {rank}/2 {rank} {rank}/2 1.{run}\n");
            assert_eq!(said, told);
        }
        cluster.say(vec![Command::ReleaseJob { step: numbered(number) }]).await;
    }
    let data = Bytes::from_static(b"end\n");
    cluster.say(vec![Command::Input { step: script, data, eof: true }]).await;
    let exits = cluster.exits_of_step(script, 1).await;
    assert_eq!(exits[&Rank(0)].status, ExitStatus::Code(3), "the script outlives its steps");
    cluster.say(vec![Command::ReleaseJob { step: script }]).await;
}

async fn failures_to_start_name_the_cause(cluster: Rc<Cluster>) {
    let mut spec = shell("");
    spec.step.program = Program::OnNodes("/no/such/program".into());
    cluster.launch(1, 1, RowSet::ALL, spec).await;
    let (reason, code) = launch_failure(&cluster, 1).await;
    assert!(reason.contains("/no/such/program: No such file or directory"), "{reason}");
    assert_eq!(code, 127);
    let mut spec = shell("");
    spec.step.program = Program::OnNodes("/etc/passwd".into());
    cluster.launch(2, 1, RowSet::ALL, spec).await;
    let (reason, code) = launch_failure(&cluster, 2).await;
    assert!(reason.contains("/etc/passwd: Permission denied"), "{reason}");
    assert_eq!(code, 126);
    let mut spec = shell("");
    spec.step.cwd = "/no/such/directory".into();
    cluster.launch(3, 1, RowSet::ALL, spec).await;
    let (reason, code) = launch_failure(&cluster, 3).await;
    assert!(reason.contains("working directory /no/such/directory"), "{reason}");
    assert_eq!(code, 126);
    for job in 1..=3 {
        let exits = cluster.exits_of(job).await;
        assert!(exits.values().all(|exit| exit.status != ExitStatus::Code(0)));
    }
}

async fn input_comes_back_as_output(cluster: Rc<Cluster>) {
    let mut spec = shell("cat; echo the end");
    spec.step.input = InputSpec::RankZero;
    cluster.launch(1, 2, RowSet::ALL, spec).await;
    let mut sent = String::new();
    for piece in 0..20 {
        let text = format!("{piece}-").repeat(2000);
        sent += &text;
        let data = Bytes::from(text);
        cluster
            .say(vec![Command::Input { step: StepRef::program(JobId(1)), data, eof: false }])
            .await;
    }
    cluster
        .say(vec![Command::Input {
            step: StepRef::program(JobId(1)),
            data: Bytes::new(),
            eof: true,
        }])
        .await;
    cluster.exits_of(1).await;
    assert!(cluster.output(1, 0, Stream::Stdout) == sent + "the end\n");
    for rank in 1..4 {
        assert_eq!(cluster.output(1, rank, Stream::Stdout), "the end\n");
    }
}

/// The first rank leaves a child that holds the pipe and never reads. The other ranks continue.
async fn input_to_a_rank_that_is_gone_is_discarded_though_a_child_keeps_the_pipe(
    cluster: Rc<Cluster>,
) {
    const PIECES: usize = 8;
    let script = "if test $STORM_RANK = 0; then sleep 1000 <&0 >/dev/null 2>&1 & exit 0; fi; wc -c";
    let mut spec = shell(script);
    spec.step.input = InputSpec::All;
    cluster.launch(1, 2, RowSet::ALL, spec).await;
    let data = Bytes::from(vec![b'x'; 32 * 1024]);
    for _ in 0..PIECES {
        let data = data.clone();
        cluster
            .say(vec![Command::Input { step: StepRef::program(JobId(1)), data, eof: false }])
            .await;
    }
    let all = (PIECES * data.len()) as u64;
    for node in [NodeId(1), NodeId(2)] {
        cluster
            .until(|reports| {
                let taken = |(from, report): &(NodeId, Report)| match report {
                    Report::InputTaken { taken_bytes, .. } if *from == node => Some(*taken_bytes),
                    _ => None,
                };
                reports.iter().any(|report| taken(report) == Some(all)).then_some(())
            })
            .await;
    }
    cluster
        .say(vec![Command::Input {
            step: StepRef::program(JobId(1)),
            data: Bytes::new(),
            eof: true,
        }])
        .await;
    cluster.exits_of(1).await;
    for rank in 1..4 {
        assert_eq!(cluster.output(1, rank, Stream::Stdout), format!("{all}\n"));
    }
}

async fn much_output_is_complete(cluster: Rc<Cluster>) {
    cluster.launch(1, 2, RowSet::ALL, shell("seq 1 200000")).await;
    cluster.say(vec![Command::HoldOutput { step: StepRef::program(JobId(1)), hold: true }]).await;
    cluster.say(vec![Command::HoldOutput { step: StepRef::program(JobId(1)), hold: false }]).await;
    cluster.exits_of(1).await;
    let expected: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    for rank in 0..4 {
        assert!(cluster.output(1, rank, Stream::Stdout) == expected);
    }
}

async fn output_goes_to_files_by_pattern(cluster: Rc<Cluster>) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut spec = shell("echo $STORM_RANK; echo error >&2");
    spec.step.cwd = dir.path().as_os_str().to_owned().into();
    spec.step.output =
        OutputSpec::Files { stdout: "o-%j-%r-%n.txt".into(), stderr: Some("all".into()) };
    cluster.launch(7, 2, RowSet::ALL, spec).await;
    cluster.exits_of(7).await;
    for rank in 0..4 {
        let name = format!("o-7-{rank}-n{}.txt", rank / 2 + 1);
        let text = std::fs::read_to_string(dir.path().join(name)).expect("written");
        assert_eq!(text, format!("{rank}\n"));
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("all")).unwrap(), "error\n".repeat(4));
}

async fn files_are_placed_where_asked(cluster: Rc<Cluster>) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("placed");
    let content = b"content".to_vec();
    let to = |path: &std::path::Path| Destination::Path(path.as_os_str().to_owned().into());
    cluster.ship(&file("data", &content, to(&path)), &content).await.expect("placed");
    assert_eq!(std::fs::read(&path).unwrap(), content);
    let nowhere = dir.path().join("no/such/place");
    let outcome = cluster.ship(&file("data", &content, to(&nowhere)), &content).await;
    assert!(outcome.is_err());
}

/// Rank 0 of each job answers each line of its input while it runs. The stopped job answers only in
/// its turn.
async fn rows_take_turns(cluster: Rc<Cluster>) {
    cluster.strobe(0).await;
    for (job, rows) in [(1, row(0)), (2, row(1))] {
        let mut spec = shell("echo begun; while read -r line; do echo \"$line\"; done");
        spec.step.input = InputSpec::RankZero;
        cluster.launch(job, 1, rows, spec).await;
    }
    cluster.output_contains(1, 0, "begun").await;
    let ask = |job, text: String| {
        let data = Bytes::from(format!("{text}\n"));
        Command::Input { step: StepRef::program(JobId(job)), data, eof: false }
    };
    for turn in 0..30_u32 {
        let (running, stopped) = if turn % 2 == 0 { (1, 2) } else { (2, 1) };
        cluster.strobe(turn % 2).await;
        // The first answer shows that the switch is over; the stopped job gets its question only
        // then.
        for (job, question) in [(running, "first"), (stopped, "asked"), (running, "second")] {
            cluster.say(vec![ask(job, format!("{question} of turn {turn}."))]).await;
            if job == running {
                cluster.output_contains(job, 0, &format!("{question} of turn {turn}.")).await;
            }
        }
        let answered = cluster.output(stopped, 0, Stream::Stdout);
        assert!(!answered.contains(&format!("asked of turn {turn}.")), "{stopped} ran: {answered}");
    }
    cluster.output_contains(1, 0, "asked of turn 27.").await;
    // Job 2 has the last turn. On a busy host this rank may not have run in any before.
    cluster.output_contains(2, 1, "begun").await;
    let destroy = |job| Command::DestroyJob { step: StepRef::program(JobId(job)) };
    cluster.say(vec![destroy(1), destroy(2)]).await;
    cluster.exits_of(1).await;
    cluster.exits_of(2).await;
    assert_eq!(cluster.output(2, 1, Stream::Stdout), "begun\n");
}

async fn a_stopped_job_acts_on_signals_and_dies(cluster: Rc<Cluster>) {
    cluster.strobe(0).await;
    let script = "trap 'echo caught' TERM; echo ready; while :; do sleep 0.01; done";
    cluster.launch(1, 1, row(0), shell(script)).await;
    for rank in 0..2 {
        // A rank whose trap is not set yet would die of the signal.
        cluster.output_contains(1, rank, "ready").await;
    }
    cluster.strobe(1).await;
    cluster
        .say(vec![Command::SignalJob { step: StepRef::program(JobId(1)), signal: SIGTERM }])
        .await;
    cluster.say(vec![Command::SetRows { job: JobId(1), rows: RowSet::ALL }]).await;
    cluster.output_contains(1, 0, "caught").await;
    cluster.say(vec![Command::SetRows { job: JobId(1), rows: row(0) }]).await;
    cluster.say(vec![Command::DestroyJob { step: StepRef::program(JobId(1)) }]).await;
    let exits = cluster.exits_of(1).await;
    assert!(exits.values().all(|exit| exit.status == ExitStatus::Signal(9)), "{exits:?}");
}

async fn children_left_behind_do_not_hold_the_job(cluster: Rc<Cluster>) {
    let mark = format!("98765{}", std::process::id());
    let script = format!("setsid sleep {mark} & echo left it; exit 0");
    cluster.launch(1, 1, RowSet::ALL, shell(&script)).await;
    let exits = cluster.exits_of(1).await;
    assert!(exits.values().all(|exit| exit.status == ExitStatus::Code(0)));
    assert_eq!(cluster.output(1, 0, Stream::Stdout), "left it\n");
    assert_eq!(processes_with(&format!("sleep\0{mark}")), 0);
}

async fn pmi_is_served(cluster: Rc<Cluster>) {
    let script = r#"
        ask() { echo "$1" >&$PMI_FD; read -r answer <&$PMI_FD; }
        ask "cmd=init pmi_version=1 pmi_subversion=1"
        ask "cmd=get_my_kvsname"; kvs=${answer#*kvsname=}
        ask "cmd=put kvsname=$kvs key=k$PMI_RANK value=v$PMI_RANK"
        ask "cmd=barrier_in"
        ask "cmd=get kvsname=$kvs key=k$(( (PMI_RANK + 1) % PMI_SIZE ))"; echo "$answer"
        ask "cmd=get kvsname=$kvs key=PMI_process_mapping"; echo "$answer"
        ask "cmd=finalize"; echo "$answer""#;
    cluster.launch(1, 2, RowSet::ALL, shell(script)).await;
    let puts = cluster
        .until(|reports| {
            let mut puts = Vec::new();
            for (_, report) in reports {
                if let Report::Fence { sequence: 1, puts: own, .. } = report {
                    puts.extend(own.clone());
                }
            }
            (puts.len() == 4).then_some(puts)
        })
        .await;
    cluster
        .say(vec![Command::FenceDone { step: StepRef::program(JobId(1)), sequence: 1, puts }])
        .await;
    cluster.exits_of(1).await;
    for rank in 0..4 {
        let said = cluster.output(1, rank, Stream::Stdout);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].contains(&format!("value=v{}", (rank + 1) % 4)), "{said}");
        assert!(lines[1].contains("value=(vector,(0,2,2))"), "{said}");
        assert!(lines[2].starts_with("cmd=finalize_ack"), "{said}");
    }
}

async fn hostile_pmi_clients_are_cut_off_and_no_other_job_suffers(cluster: Rc<Cluster>) {
    let hostile = [
        "head -c 100000 /dev/zero | tr '\\0' x >&$PMI_FD",
        "head -c 100000 /dev/urandom >&$PMI_FD",
        "printf '\\377\\000\\n' >&$PMI_FD",
        "echo cmd=destroy_everything >&$PMI_FD",
        "echo 'cmd=put kvsname=x' >&$PMI_FD",
        "echo cmd=init pmi_version=99999999999999999999 >&$PMI_FD",
        "yes cmd=get_maxes | head -c 1000000 >&$PMI_FD",
    ];
    for (job, attack) in (1..).zip(hostile) {
        // The rank reads answers, if any, until the connection ends.
        let script =
            format!("trap '' PIPE; {attack} 2>/dev/null; cat <&$PMI_FD >/dev/null; echo cut");
        cluster.launch(job, 1, RowSet::ALL, shell(&script)).await;
    }
    let last = hostile.len() as u64 + 1;
    let honest = "echo cmd=get_appnum >&$PMI_FD; read -r answer <&$PMI_FD; echo $answer";
    cluster.launch(last, 1, RowSet::ALL, shell(honest)).await;
    cluster.exits_of(last).await;
    assert_eq!(cluster.output(last, 0, Stream::Stdout), "cmd=appnum appnum=0\n");
    for job in 1..last {
        cluster.exits_of(job).await;
        assert_eq!(cluster.output(job, 0, Stream::Stdout), "cut\n", "job {job}");
    }
}

async fn limits_reach_the_ranks(cluster: Rc<Cluster>) {
    let mut spec = shell("ulimit -S -c; ulimit -S -n; umask");
    spec.step.limits = vec![
        ResourceLimit { resource: 4, soft: 0 },
        ResourceLimit { resource: 7, soft: 123 },
        ResourceLimit { resource: 999, soft: 5 },
    ];
    spec.step.umask = 0o027;
    cluster.launch(1, 1, RowSet::ALL, spec).await;
    cluster.exits_of(1).await;
    assert_eq!(cluster.output(1, 0, Stream::Stdout), "0\n123\n0027\n");
}

async fn jobs_of_other_users(cluster: Rc<Cluster>) {
    let script = "id -u; id -g; cd $STORM_JOB_DIR && touch mine && echo wrote";
    let mut spec = shell(script);
    spec.owner = NOBODY;
    cluster.launch(1, 1, RowSet::ALL, spec).await;
    if own().uid == 0 {
        cluster.exits_of(1).await;
        let said = cluster.output(1, 1, Stream::Stdout);
        assert_eq!(said, "65534\n65534\nwrote\n");
    } else if own().uid != NOBODY.uid {
        let (reason, code) = launch_failure(&cluster, 1).await;
        assert!(reason.contains("not as root"), "{reason}");
        assert_eq!(code, 126);
    }
    let mut spec = shell("id -u");
    spec.owner = Owner { uid: 54_321, gid: 54_321 };
    cluster.launch(2, 1, RowSet::ALL, spec).await;
    let (reason, _) = launch_failure(&cluster, 2).await;
    let expected = if own().uid == 0 { "no user has the id 54321" } else { "not as root" };
    assert!(reason.contains(expected), "{reason}");
}

async fn many_short_jobs_follow_each_other(cluster: Rc<Cluster>) {
    let begun = Instant::now();
    for job in 1..=40 {
        let mut spec = shell("");
        spec.step.program = Program::OnNodes("/bin/false".into());
        spec.step.argv = vec!["false".into()];
        cluster.launch(job, 2, RowSet::ALL, spec).await;
        let exits = cluster.exits_of(job).await;
        assert!(exits.values().all(|exit| exit.status == ExitStatus::Code(1)));
        cluster.say(vec![Command::ReleaseJob { step: StepRef::program(JobId(job)) }]).await;
    }
    println!("  {:?} for one job of 2 x 2 after the other", begun.elapsed() / 40);
}

async fn jobs_destroyed_at_once_give_their_places_back(cluster: Rc<Cluster>) {
    for job in 1..=8 {
        cluster.launch(job, 2, RowSet::ALL, shell("sleep 1000")).await;
        cluster.say(vec![Command::DestroyJob { step: StepRef::program(JobId(job)) }]).await;
        let exits = cluster.exits_of(job).await;
        assert!(exits.values().all(|exit| exit.status == ExitStatus::Signal(9)), "{exits:?}");
    }
    cluster.launch(9, 2, RowSet::ALL, shell("exit 0")).await;
    let exits = cluster.exits_of(9).await;
    assert!(exits.values().all(|exit| exit.status == ExitStatus::Code(0)), "{exits:?}");
}

/// A place has as many processes as its first job needed.
async fn places_of_small_jobs_serve_larger_ones(cluster: Rc<Cluster>) {
    for job in 1..=4 {
        cluster.launch(job, 1, RowSet::ALL, shell("echo up; exec sleep 1000")).await;
        cluster.output_contains(job, 1, "up").await;
    }
    for job in 1..=4 {
        cluster.say(vec![Command::DestroyJob { step: StepRef::program(JobId(job)) }]).await;
        cluster.exits_of(job).await;
        cluster.say(vec![Command::ReleaseJob { step: StepRef::program(JobId(job)) }]).await;
    }
    for job in 5..=9 {
        cluster.launch(job, 2, RowSet::ALL, shell("exit 3")).await;
    }
    for job in 5..=9 {
        let exits = cluster.exits_of(job).await;
        assert_eq!(exits.len(), 4);
        assert!(exits.values().all(|exit| exit.status == ExitStatus::Code(3)), "{exits:?}");
    }
}

async fn shutdown_kills_what_runs(cluster: Rc<Cluster>) {
    let mark = format!("87654{}", std::process::id());
    cluster.launch(1, 2, RowSet::ALL, shell(&format!("echo up; exec sleep {mark}"))).await;
    cluster.output_contains(1, 3, "up").await;
    cluster.shut_down().await;
    assert_eq!(processes_with(&format!("sleep\0{mark}")), 0);
}
