//! Launches: the view of the application, the report of its end, and the errors of failed steps.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::support::{self, BOTH, Mechanism, NOBODY, Node, program, shell, testbed};
use storm_pl::{
    Credentials, ExitStatus, Input, Keeper, KeeperConfig, LaunchSpec, LaunchStep, Output, PadId,
    RankSpec, RefusedLimit, ResourceLimit, SpecError, StartMethod,
};

fn plain() -> RankSpec {
    RankSpec::default()
}

fn nobody() -> Credentials {
    Credentials { uid: NOBODY, gid: NOBODY, groups: vec![NOBODY, 12_345] }
}

fn is_root() -> bool {
    Credentials::own().uid == 0
}

/// A directory that all users may enter.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

async fn failure_of(spec: &LaunchSpec) -> (LaunchStep, i32) {
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let failure = node.run(spec, &plain()).await.failure();
    // The pad is as good as new afterwards.
    assert!(node.run(&shell("exit 0"), &plain()).await.status().success());
    node.shut_down().await;
    (failure.step, failure.errno.0)
}

async fn output_of(spec: &LaunchSpec, rank: &RankSpec) -> String {
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let outcome = node.run(spec, rank).await;
    node.shut_down().await;
    assert!(outcome.status().success(), "{outcome:?}");
    outcome.stdout().to_owned()
}

#[tokio::test]
async fn every_exit_code_arrives() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 1).await;
        for code in 0..=255u8 {
            let outcome = node.run(&shell(&format!("exit {code}")), &plain()).await;
            assert_eq!(outcome.status(), ExitStatus::Code(code));
        }
        node.shut_down().await;
    }
}

#[tokio::test]
async fn signals_are_told_from_exit_codes() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 1).await;
        for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGUSR1, libc::SIGPIPE, libc::SIGINT] {
            let outcome = node.run(&shell(&format!("kill -{signal} $$")), &plain()).await;
            assert_eq!(outcome.status(), ExitStatus::Signal { signal, core_dumped: false });
        }
        node.shut_down().await;
    }
}

#[tokio::test]
async fn a_program_that_cannot_run_says_why() {
    let dir = directory();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(
        failure_of(&program("/no/such/program", &["x"])).await,
        (LaunchStep::Program, libc::ENOENT)
    );
    assert_eq!(
        failure_of(&program("no-such-program-in-path", &["x"])).await,
        (LaunchStep::Program, libc::ENOENT)
    );
    assert_eq!(failure_of(&program(&path(""), &["x"])).await, (LaunchStep::Program, libc::EACCES));
    fs::write(path("data"), "text").unwrap();
    assert_eq!(
        failure_of(&program(&path("data"), &["x"])).await,
        (LaunchStep::Program, libc::EACCES)
    );
    fs::write(path("script"), "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(path("script"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        failure_of(&program(&path("script"), &["x"])).await,
        (LaunchStep::Interpreter, libc::ENOENT)
    );
}

#[tokio::test]
async fn scripts_run_with_and_without_an_interpreter_line() {
    let dir = directory();
    for (name, text) in [("with", "#!/bin/sh\necho ran \"$@\"\n"), ("without", "echo ran \"$@\"\n")]
    {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let spec = program(path.to_str().unwrap(), &["name", "a b", "c"]);
        assert_eq!(output_of(&spec, &plain()).await, "ran a b c\n");
    }
}

#[tokio::test]
async fn an_unchanged_program_is_executed_in_its_place() {
    let dir = directory();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let (said, other) = ("#!/bin/sh\necho \"$0\"\n", "#!/bin/sh\necho other\n");
    let copy = file("copy", said);
    let mut spec = program(copy.to_str().unwrap(), &["name"]);
    let forbidden = file("forbidden", said);
    fs::set_permissions(&forbidden, fs::Permissions::from_mode(0o444)).unwrap();
    let original = file("original", said);
    for (original, executed) in [
        (&original, &original),
        (&file("edited", other), &copy),
        (&forbidden, &copy),
        (&dir.path().join("nowhere"), &copy),
    ] {
        spec.original = Some(original.clone());
        assert_eq!(output_of(&spec, &plain()).await, format!("{}\n", executed.display()));
    }
}

#[tokio::test]
async fn path_of_the_job_is_searched() {
    let dir = directory();
    let path = dir.path().join("only-here");
    fs::write(&path, "#!/bin/sh\necho found\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut spec = program("only-here", &["only-here"]);
    spec.env = vec![("PATH".into(), format!("/nowhere:{}", dir.path().display()).into())];
    assert_eq!(output_of(&spec, &plain()).await, "found\n");
}

#[tokio::test]
async fn a_missing_working_directory_is_its_own_step() {
    let mut spec = shell("pwd");
    spec.cwd = "/no/such/directory".into();
    assert_eq!(failure_of(&spec).await, (LaunchStep::WorkingDirectory, libc::ENOENT));
    spec.cwd = "/usr/bin".into();
    assert_eq!(output_of(&spec, &plain()).await, "/usr/bin\n");
}

#[tokio::test]
async fn too_many_arguments_is_its_own_step() {
    let mut spec = shell("exit 0");
    spec.args.extend((0..70).map(|_| "x".repeat(100_000).into()));
    assert_eq!(failure_of(&spec).await, (LaunchStep::Arguments, libc::E2BIG));
    spec.args.extend((0..70).map(|_| "x".repeat(100_000).into()));
    assert!(matches!(spec.encode(), Err(SpecError::TooLarge { .. })));
}

#[tokio::test]
async fn an_environment_larger_than_a_message_arrives() {
    let mut spec = shell("echo ${#LARGE_7} $LAST");
    for index in 0..10 {
        spec.env.push((format!("LARGE_{index}").into(), "v".repeat(100_000).into()));
    }
    spec.env.push(("LAST".into(), "here".into()));
    assert_eq!(output_of(&spec, &plain()).await, "100000 here\n");
}

#[test]
fn arguments_that_no_program_can_receive_are_refused() {
    let mut spec = shell("exit 0");
    spec.args.push("a\0b".into());
    assert!(matches!(spec.encode(), Err(SpecError::Nul { .. })));
    let mut spec = shell("exit 0");
    spec.env.push(("A=B".into(), "c".into()));
    assert!(matches!(spec.encode(), Err(SpecError::VariableName(_))));
    let mut spec = shell("exit 0");
    spec.args.clear();
    assert!(matches!(spec.encode(), Err(SpecError::NoArguments)));
}

#[tokio::test]
async fn variables_of_the_rank_win() {
    let mut spec = program("/usr/bin/env", &["env"]);
    spec.env = vec![("A".into(), "job".into()), ("B".into(), "job".into())];
    let rank = RankSpec { env: vec![("A".into(), "rank".into())], ..plain() };
    let output = output_of(&spec, &rank).await;
    let mut lines: Vec<_> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["A=rank", "B=job"]);
}

#[tokio::test]
async fn only_the_agreed_descriptors_are_open() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 3).await;
        let mut spec = program(testbed().to_str().unwrap(), &["testbed", "descriptors"]);
        let outcome = node.run(&spec, &plain()).await;
        let numbers = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
        };
        assert_eq!(numbers(outcome.stdout()), ["0", "1", "2"]);
        spec.pmi = true;
        let rank = RankSpec { stdin: Input::Pipe, stderr: Output::SameAsStdout, ..plain() };
        let outcome = node.run(&spec, &rank).await;
        assert_eq!(numbers(outcome.stdout()), ["0", "1", "2", "3"]);
        node.shut_down().await;
    }
}

#[tokio::test]
async fn the_pmi_socket_is_named_and_connected() {
    let mut spec = shell("echo cmd=init >&$PMI_FD; read answer <&$PMI_FD; echo $answer");
    spec.pmi = true;
    spec.env.push(("PMI_FD".into(), "99".into()));
    let node = Node::start(Mechanism::Cgroup, 1).await;
    let launching = node
        .handle
        .launch(storm_pl::PadId(0), storm_pl::PlIndex(0), &spec.encode().unwrap(), &plain())
        .unwrap();
    let pmi = std::os::unix::net::UnixStream::from(launching.ends.pmi.unwrap());
    let mut pmi = tokio::net::UnixStream::from_std(pmi).unwrap();
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut line = [0; 9];
    pmi.read_exact(&mut line).await.unwrap();
    assert_eq!(&line, b"cmd=init\n");
    pmi.write_all(b"cmd=response\n").await.unwrap();
    drop(launching.own);
    assert_eq!(support::read_all(launching.ends.stdout).await, "cmd=response\n");
    node.shut_down().await;
}

#[tokio::test]
async fn streams_do_not_end_with_the_rank_while_its_own_ends_are_held() {
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let mut spec = shell("echo out; echo cmd=init >&$PMI_FD");
    spec.pmi = true;
    spec.env.push(("PMI_FD".into(), "99".into()));
    let (pad, pl) = (storm_pl::PadId(0), storm_pl::PlIndex(0));
    let launching = node.handle.launch(pad, pl, &spec.encode().unwrap(), &plain()).unwrap();
    while !matches!(node.next().await, storm_pl::Event::Exited { .. }) {}
    let storm_pl::PlEnds { stdout, stderr, pmi, .. } = launching.ends;
    let ends = [&stdout, &stderr, &pmi].map(|end| end.as_ref().unwrap().try_clone().unwrap());
    let mut ends = ends.map(std::fs::File::from);
    for (end, wrote) in ends.iter_mut().zip(["out\n", "", "cmd=init\n"]) {
        let mut bytes = [0; 64];
        let mut read = || std::io::Read::read(end, &mut bytes).map_err(|error| error.kind());
        if !wrote.is_empty() {
            assert_eq!(read(), Ok(wrote.len()));
        }
        assert_eq!(read(), Err(std::io::ErrorKind::WouldBlock), "after {wrote:?}");
    }
    drop(launching.own);
    for end in &mut ends {
        assert_eq!(std::io::Read::read(end, &mut [0; 64]).unwrap(), 0);
    }
    node.shut_down().await;
}

#[tokio::test]
async fn standard_input_ends_when_the_nm_closes_it() {
    let rank = RankSpec { stdin: Input::Pipe, ..plain() };
    assert_eq!(output_of(&shell("cat; echo end"), &rank).await, "end\n");
    assert_eq!(output_of(&shell("cat; echo end"), &plain()).await, "end\n");
}

#[tokio::test]
async fn standard_input_can_be_a_file() {
    let dir = directory();
    fs::write(dir.path().join("in"), "content").unwrap();
    let mut spec = program("/bin/cat", &["cat"]);
    spec.cwd = dir.path().into();
    let rank = RankSpec { stdin: Input::File("in".into()), ..plain() };
    assert_eq!(output_of(&spec, &rank).await, "content");
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let rank = RankSpec { stdin: Input::File("absent".into()), ..plain() };
    assert_eq!(node.run(&spec, &rank).await.failure().step, LaunchStep::Stdin);
    node.shut_down().await;
}

#[tokio::test]
async fn output_files_are_the_users() {
    let dir = directory();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let mut spec = shell("echo out; echo err >&2");
    spec.cwd = dir.path().into();
    spec.umask = 0o027;
    if is_root() {
        spec.credentials = nobody();
    }
    let file = |append| Output::File { path: "both".into(), append };
    let rank = |append| RankSpec { stdout: file(append), stderr: Output::SameAsStdout, ..plain() };
    let path = dir.path().join("both");
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    for (append, expected) in [(false, "out\nerr\n"), (true, "out\nerr\nout\nerr\n")] {
        assert!(node.run(&spec, &rank(append)).await.status().success());
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }
    assert!(node.run(&spec, &rank(false)).await.status().success());
    assert_eq!(fs::read_to_string(&path).unwrap(), "out\nerr\n");
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.uid()), (0o640, spec.credentials.uid));
    node.shut_down().await;
}

#[tokio::test]
async fn a_directory_closed_to_the_user_stays_closed() {
    let dir = directory();
    let mut spec = shell("exit 0");
    if is_root() {
        spec.credentials = nobody();
    } else {
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let file = || Output::File { path: dir.path().join("out"), append: false };
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let stdout = RankSpec { stdout: file(), ..plain() };
    let failure = node.run(&spec, &stdout).await.failure();
    assert_eq!((failure.step, failure.errno.0), (LaunchStep::Stdout, libc::EACCES));
    let stderr = RankSpec { stderr: file(), ..plain() };
    assert_eq!(node.run(&spec, &stderr).await.failure().step, LaunchStep::Stderr);
    assert!(!dir.path().join("out").exists());
    node.shut_down().await;
}

#[tokio::test]
async fn a_root_daemon_runs_jobs_as_their_user() {
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let mut spec = shell("echo $(id -u) $(id -g) $(id -G); grep Cap[EP] /proc/self/status");
    spec.credentials = nobody();
    if !is_root() {
        spec.credentials.uid = Credentials::own().uid + 1;
    }
    let outcome = node.run(&spec, &plain()).await;
    if is_root() {
        let lines: Vec<_> = outcome.stdout().lines().collect();
        assert_eq!(lines[0], "65534 65534 65534 12345");
        assert!(lines[1..].iter().all(|line| line.ends_with("0000000000000000")), "{lines:?}");
    } else {
        assert_eq!(outcome.failure().step, LaunchStep::OtherUser);
    }
    node.shut_down().await;
}

#[tokio::test]
async fn each_rank_leads_its_own_session() {
    // pid, ppid, pgrp and session of the shell itself.
    let output = output_of(&shell("cut -d' ' -f1,5,6 /proc/$$/stat"), &plain()).await;
    let fields: Vec<_> = output.split_whitespace().collect();
    assert_eq!(fields[0], fields[1]);
    assert_eq!(fields[0], fields[2]);
}

#[tokio::test]
async fn no_signal_is_blocked_or_ignored_whoever_started_the_keeper() {
    for mechanism in BOTH {
        let testbed = support::testbed().display().to_string();
        let ignoring = format!("trap '' HUP TERM PIPE CHLD USR1 USR2 40; exec {testbed} keeper");
        let start = StartMethod::Exec {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), ignoring.into()],
        };
        let config = KeeperConfig { start, ..support::config(mechanism, 1) };
        let mut node = Node::attach(Keeper::start(&config).unwrap());
        node.handle.make_pads(1).unwrap();
        node.until_ready(PadId(0)).await;
        let outcome = node.run(&program("/bin/cat", &["cat", "/proc/self/status"]), &plain()).await;
        node.shut_down().await;
        assert_no_signal_is_blocked_or_ignored(outcome.stdout());
    }
}

fn assert_no_signal_is_blocked_or_ignored(output: &str) {
    let sets = ["SigBlk:", "SigIgn:", "SigCgt:"];
    let lines: Vec<_> =
        output.lines().filter(|line| sets.iter().any(|set| line.starts_with(set))).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line.ends_with("\t0000000000000000")), "{lines:?}");
}

#[tokio::test]
async fn limits_mask_and_cpus_are_set() {
    let mut spec = shell("ulimit -n; ulimit -Hn; umask; grep Cpus_allowed_list /proc/self/status");
    let nofile = ResourceLimit { resource: libc::RLIMIT_NOFILE, soft: 77, hard: 99 };
    spec.limits = vec![nofile];
    spec.umask = 0o077;
    let rank = RankSpec { cpus: vec![0], ..plain() };
    let output = output_of(&spec, &rank).await;
    assert_eq!(
        output.split_whitespace().collect::<Vec<_>>(),
        ["77", "99", "0077", "Cpus_allowed_list:", "0"]
    );
    spec.limits = vec![ResourceLimit { resource: libc::RLIMIT_NOFILE, soft: 100, hard: 99 }];
    let permitted = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
    let refused = RefusedLimit {
        resource: libc::RLIMIT_NOFILE,
        wanted: 100,
        permitted: permitted.unwrap().1,
    };
    assert_eq!(failure_of(&spec).await, (LaunchStep::Limit(refused), libc::EINVAL));
}

/// Root in a container has no CAP_SYS_RESOURCE, and its jobs used to end with 126. No process may
/// have more descriptors than the kernel permits.
#[tokio::test]
async fn a_limit_above_what_is_permitted_is_what_is_permitted() {
    let mut spec = shell("ulimit -n; ulimit -Hn");
    let soft = u64::MAX - 1;
    spec.limits = vec![ResourceLimit { resource: libc::RLIMIT_NOFILE, soft, hard: soft }];
    let (_, hard) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    let output = output_of(&spec, &plain()).await;
    assert_eq!(output, format!("{hard}\n{hard}\n"));
}

#[tokio::test]
async fn usage_counts_what_the_rank_and_its_children_did() {
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let spec = shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
    let (pad, pl) = (storm_pl::PadId(0), storm_pl::PlIndex(0));
    let _launching = node.handle.launch(pad, pl, &spec.encode().unwrap(), &plain()).unwrap();
    assert_eq!(node.next().await, storm_pl::Event::Launched { pad, pl });
    let storm_pl::Event::Exited { usage, .. } = node.next().await else { panic!("no exit") };
    assert!(usage.user.as_micros() > 1_000, "{usage:?}");
    assert!(usage.max_rss_kib > 100, "{usage:?}");
    node.shut_down().await;
}

#[tokio::test]
async fn a_pl_takes_one_launch_only() {
    let node = Node::start(Mechanism::Cgroup, 2).await;
    let (pad, pl) = (storm_pl::PadId(0), storm_pl::PlIndex(1));
    let spec = shell("exit 3").encode().unwrap();
    let _launching = node.handle.launch(pad, pl, &spec, &plain()).unwrap();
    let again = node.handle.launch(pad, pl, &spec, &plain());
    assert!(matches!(again, Err(storm_pl::LaunchError::NotWaiting { .. })));
    let unknown = node.handle.launch(pad, storm_pl::PlIndex(2), &spec, &plain());
    assert!(matches!(unknown, Err(storm_pl::LaunchError::Unknown { .. })));
    assert_eq!(node.handle.waiting(pad), [storm_pl::PlIndex(0)]);
    node.shut_down().await;
}
