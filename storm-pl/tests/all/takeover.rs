//! A daemon that is gone, and the next one, which takes over what the keeper kept.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use storm_pl::{
    Event, ExitStatus, HostTime, InheritedJob, InheritedLaunch, Input, Keeper, KeeperConfig,
    KeptId, Output, PadId, PlIndex, RankSpec, Survival,
};

use crate::support::{self, Mechanism, Node, shell};

const JOB: KeptId = KeptId(7);
const PAD: PadId = PadId(0);

/// A configuration whose keeper survives for so long.
fn surviving(door: &Path, bound: Duration) -> KeeperConfig {
    let survival = Some(Survival { door: door.join("keeper"), bound });
    KeeperConfig { survival, ..support::config(Mechanism::Cgroup, 2) }
}

async fn start(config: &KeeperConfig) -> Option<Node> {
    let keeper = Keeper::start(config).unwrap();
    if !keeper.survives() {
        eprintln!("no cgroup v2 on this host: NOT tested");
        return None;
    }
    let mut node = Node::attach(keeper);
    node.handle.make_pads(2).unwrap();
    node.until_ready(PAD).await;
    node.until_ready(PadId(1)).await;
    Some(node)
}

fn note(text: &str) -> OwnedFd {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.into()
}

fn launch(node: &Node, script: &str) -> storm_pl::Launching {
    let file = note("what the next one has to know");
    node.handle.keep(JOB, PAD, &[file.as_fd()]).unwrap();
    let rank = RankSpec {
        stdin: Input::Pipe,
        stdout: Output::Pipe,
        stderr: Output::Pipe,
        ..RankSpec::default()
    };
    let spec = shell(script).encode().unwrap();
    node.handle.launch_kept(PAD, PlIndex(0), &spec, &rank, Some(JOB)).unwrap()
}

async fn until_launched(node: &mut Node) {
    loop {
        if let Event::Launched { .. } = node.next().await {
            return;
        }
    }
}

fn take_over(config: &KeeperConfig) -> (Node, InheritedJob) {
    let (keeper, mut jobs) = Keeper::take_over(config).unwrap().expect("a keeper is there");
    assert_eq!(jobs.len(), 1);
    (Node::attach(keeper), jobs.remove(0))
}

fn read_to_end(stream: OwnedFd) -> String {
    nix::fcntl::fcntl(stream.as_fd(), nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty()))
        .unwrap();
    let mut text = String::new();
    File::from(stream).read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn the_next_daemon_takes_over_a_rank_with_its_streams_and_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let config = surviving(directory.path(), support::HANG);
    let Some(mut node) = start(&config).await else { return };
    let cgroup = node.cgroup.clone().unwrap();
    let launching = launch(&node, "read line; echo got $line; read other; echo and $other; exit 3");
    until_launched(&mut node).await;
    drop((node, launching));

    let (mut node, job) = take_over(&config);
    assert_eq!((job.job, job.pad, job.given_back, job.lease_over), (JOB, PAD, false, false));
    let mut file = File::from(job.files.into_iter().next().unwrap());
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "what the next one has to know");
    let rank = job.ranks.into_iter().next().unwrap();
    assert_eq!((rank.pl, rank.launch, rank.ended), (PlIndex(0), InheritedLaunch::Executed, None));
    let mut stdin = File::from(rank.ends.stdin.unwrap());
    stdin.write_all(b"one\ntwo\n").unwrap();
    let exited = match node.next().await {
        Event::Exited { pad: PAD, status, .. } => status,
        other => panic!("{other:?}"),
    };
    assert_eq!(exited, ExitStatus::Code(3));
    assert_eq!(read_to_end(rank.ends.stdout.unwrap()), "got one\nand two\n");
    node.handle.release(PAD).unwrap();
    node.until_ready(PAD).await;
    node.handle.forget_kept(JOB);
    let new = node.handle.make_pad(1).unwrap();
    node.until_ready(new).await;
    // Nothing is kept now: it ends with this daemon.
    node.handle.shutdown().unwrap();
    while !matches!(node.next().await, Event::KeeperGone { .. }) {}
    assert!(!cgroup.exists());
    assert!(Keeper::take_over(&config).unwrap().is_none());
}

#[tokio::test]
async fn an_end_that_nobody_saw_is_told_and_a_closed_input_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let config = surviving(directory.path(), support::HANG);
    let Some(mut node) = start(&config).await else { return };
    let mut launching = launch(&node, "cat; echo over >&2; exit 4");
    until_launched(&mut node).await;
    let stdin = launching.ends.stdin.take().unwrap();
    File::from(stdin).write_all(b"all of it").unwrap();
    node.handle.close_kept_input(JOB, PlIndex(0));
    // Its end comes whether the daemon is there to hear of it or not.
    drop((node, launching));
    let (mut node, job) = take_over(&config);
    let rank = job.ranks.into_iter().next().unwrap();
    let status = match rank.ended {
        Some((status, _)) => status,
        None => match node.next().await {
            Event::Exited { status, .. } => status,
            other => panic!("{other:?}"),
        },
    };
    assert_eq!(status, ExitStatus::Code(4));
    assert!(rank.ends.stdin.is_none());
    let (stdout, stderr) = (rank.ends.stdout.unwrap(), rank.ends.stderr.unwrap());
    assert_eq!((read_to_end(stdout), read_to_end(stderr)), ("all of it".into(), "over\n".into()));
}

#[tokio::test]
async fn a_keeper_that_nobody_takes_over_ends_what_it_keeps_at_its_bound() {
    let directory = tempfile::tempdir().unwrap();
    let config = surviving(directory.path(), Duration::from_millis(200));
    let Some(mut node) = start(&config).await else { return };
    let (cgroup, pid) = (node.cgroup.clone().unwrap(), node.pid);
    let launching = launch(&node, "sleep 1000");
    until_launched(&mut node).await;
    drop((node, launching));
    let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None);
    assert!(!cgroup.exists() && !directory.path().join("keeper").exists());
    assert!(Keeper::take_over(&config).unwrap().is_none());
}

#[tokio::test]
async fn a_lease_that_runs_out_ends_a_job_without_a_daemon_and_the_next_one_hears_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let config = surviving(directory.path(), support::HANG);
    let Some(mut node) = start(&config).await else { return };
    let launching = launch(&node, "sleep 1000");
    until_launched(&mut node).await;
    let until = HostTime(HostTime::now().0 + Duration::from_millis(100));
    node.handle.lease(&[PAD], until).unwrap();
    // The end of its output is that of the rank.
    let stdout = launching.ends.stdout.as_ref().unwrap().try_clone().unwrap();
    drop((node, launching));
    assert_eq!(read_to_end(stdout), "");
    let (mut node, job) = take_over(&config);
    assert!(job.lease_over);
    let killed = ExitStatus::Signal { signal: 9, core_dumped: false };
    match job.ranks[0].ended {
        Some((status, _)) => assert_eq!(status, killed),
        None => loop {
            if let Event::Exited { status, .. } = node.next().await {
                break assert_eq!(status, killed);
            }
        },
    }
}

#[tokio::test]
async fn a_keeper_without_a_daemon_ends_when_it_is_asked_to() {
    let directory = tempfile::tempdir().unwrap();
    let config = surviving(directory.path(), support::HANG);
    let Some(mut node) = start(&config).await else { return };
    let (cgroup, pid) = (node.cgroup.clone().unwrap(), nix::unistd::Pid::from_raw(node.pid));
    let launching = launch(&node, "sleep 1000");
    until_launched(&mut node).await;
    // While there is a daemon, that one decides.
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    node.handle.make_pad(1).unwrap();
    node.until_ready(PadId(2)).await;
    drop((node, launching));
    let _ = nix::sys::wait::waitpid(pid, None);
    assert!(!cgroup.exists());
}
