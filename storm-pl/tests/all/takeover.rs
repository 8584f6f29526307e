//! A daemon that is gone, and the next daemon, which takes over the kept jobs.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use storm_pl::{
    Event, ExitStatus, HostTime, InheritedJob, InheritedLaunch, Input, Keeper, KeeperConfig,
    KeptId, LaunchSpec, Output, PadId, PlIndex, RankSpec, Survival,
};

use crate::support::{self, BOTH, Mechanism, Node, alive, marked, shell, unique_cluster, until};

const JOB: KeptId = KeptId(7);
const PAD: PadId = PadId(0);
/// More ranks than a socket has room for messages.
const MANY_RANKS: u16 = 500;

/// A configuration of a keeper that survives its daemon for `bound`.
fn surviving(mechanism: Mechanism, door: &Path, bound: Duration) -> KeeperConfig {
    let survival = Some(Survival { door: door.join("keeper"), bound });
    KeeperConfig { survival, ..support::config(mechanism, 2) }
}

async fn start(config: &KeeperConfig) -> Option<Node> {
    let keeper = Keeper::start(config).unwrap();
    assert!(keeper.survives());
    if keeper.cgroup().is_none() && !config.signals_only {
        eprintln!("no cgroup v2 on this host: NOT tested");
        return None;
    }
    let mut node = Node::attach(keeper);
    for pad in [PAD, PadId(1)] {
        node.handle.make_pads(1).unwrap();
        node.until_ready(pad).await;
    }
    Some(node)
}

/// The process that keeps the first pad.
fn keeper_of_pad(node: &Node, mechanism: Mechanism) -> i32 {
    match mechanism {
        Mechanism::Cgroup => node.pid,
        Mechanism::Signals => {
            let children = format!("/proc/{0}/task/{0}/children", node.pid);
            let children = std::fs::read_to_string(children).unwrap();
            children.split_whitespace().next().unwrap().parse().unwrap()
        }
    }
}

fn note(text: &str) -> OwnedFd {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.into()
}

fn launch(node: &Node, script: &str) -> storm_pl::Launching {
    launch_in(node, (JOB, PAD), &shell(script))
}

fn launch_in(node: &Node, (job, pad): (KeptId, PadId), spec: &LaunchSpec) -> storm_pl::Launching {
    let file = note("what the next one has to know");
    node.handle.keep(job, pad, &[file.as_fd()]).unwrap();
    let rank = RankSpec {
        stdin: Input::Pipe,
        stdout: Output::Pipe,
        stderr: Output::Pipe,
        ..RankSpec::default()
    };
    let spec = spec.encode().unwrap();
    node.handle.launch_kept(pad, PlIndex(0), &spec, &rank, Some(job)).unwrap()
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
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), support::HANG);
        let Some(mut node) = start(&config).await else { continue };
        let cgroup = node.cgroup.clone();
        let launching =
            launch(&node, "read line; echo got $line; read other; echo and $other; exit 3");
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
        assert_eq!(
            (rank.pl, rank.launch, rank.ended),
            (PlIndex(0), InheritedLaunch::Executed, None)
        );
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
        // No job is kept now, so the keeper ends with this daemon.
        node.handle.shutdown().unwrap();
        while !matches!(node.next().await, Event::KeeperGone { .. }) {}
        assert!(cgroup.is_none_or(|cgroup| !cgroup.exists()));
        assert!(Keeper::take_over(&config).unwrap().is_none());
    }
}

#[tokio::test]
async fn an_end_that_nobody_saw_is_told_and_a_closed_input_is_closed() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), support::HANG);
        let Some(mut node) = start(&config).await else { continue };
        let mut launching = launch(&node, "cat; echo over >&2; exit 4");
        until_launched(&mut node).await;
        let stdin = launching.ends.stdin.take().unwrap();
        File::from(stdin).write_all(b"all of it").unwrap();
        node.handle.close_kept_input(JOB, PlIndex(0));
        // The rank ends in any case, whether there is a daemon to notice it or not.
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
        assert_eq!(
            (read_to_end(stdout), read_to_end(stderr)),
            ("all of it".into(), "over\n".into())
        );
        node.shut_down().await;
    }
}

#[tokio::test]
async fn a_keeper_that_nobody_takes_over_ends_what_it_keeps_at_its_bound() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), Duration::from_millis(200));
        let Some(mut node) = start(&config).await else { continue };
        let (cgroup, pid) = (node.cgroup.clone(), node.pid);
        let launching = launch(&node, "sleep 1000");
        until_launched(&mut node).await;
        drop((node, launching));
        let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None);
        assert!(cgroup.is_none_or(|cgroup| !cgroup.exists()));
        assert!(!directory.path().join("keeper").exists());
        assert!(Keeper::take_over(&config).unwrap().is_none());
    }
}

#[tokio::test]
async fn a_lease_that_runs_out_ends_a_job_without_a_daemon_and_the_next_one_hears_of_it() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), support::HANG);
        let Some(mut node) = start(&config).await else { continue };
        let launching = launch(&node, "sleep 1000");
        until_launched(&mut node).await;
        let until = HostTime(HostTime::now().0 + Duration::from_millis(100));
        node.handle.lease(&[PAD], until).unwrap();
        // The end of the output shows the end of the rank.
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
        node.shut_down().await;
    }
}

#[tokio::test]
async fn a_keeper_without_a_daemon_ends_when_it_is_asked_to() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), support::HANG);
        let Some(mut node) = start(&config).await else { continue };
        let (cgroup, pid) = (node.cgroup.clone(), nix::unistd::Pid::from_raw(node.pid));
        let launching = launch(&node, "sleep 1000");
        until_launched(&mut node).await;
        // While there is a daemon, SIGTERM does not end the keeper.
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        node.handle.make_pad(1).unwrap();
        node.until_ready(PadId(2)).await;
        drop((node, launching));
        let _ = nix::sys::wait::waitpid(pid, None);
        assert!(cgroup.is_none_or(|cgroup| !cgroup.exists()));
    }
}

/// Processes that have left their session and their parent end as well.
#[tokio::test]
async fn nothing_of_a_job_is_left_after_the_bound() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), Duration::from_millis(200));
        let Some(mut node) = start(&config).await else { continue };
        let (token, pid) = (unique_cluster(), node.pid);
        let script = "(setsid sleep 1000 &); (sleep 1000 &); echo up; exec sleep 1000";
        let launching = launch_in(&node, (JOB, PAD), &marked(shell(script), &token));
        until_launched(&mut node).await;
        until("all run", || alive(&token).len() == 3);
        drop((node, launching));
        let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None);
        assert_eq!(alive(&token), [0; 0]);
    }
}

#[tokio::test]
async fn jobs_of_several_pads_go_on_over_several_daemons_and_stopped_ones_stay_stopped() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), support::HANG);
        let Some(mut node) = start(&config).await else { continue };
        let (other, other_pad) = (KeptId(8), PadId(1));
        let script = "read line; echo $line; exit 5";
        let launched = [(JOB, PAD), (other, other_pad)].map(|at| {
            let launching = launch_in(&node, at, &shell(script));
            (launching.pid, launching)
        });
        until_launched(&mut node).await;
        until_launched(&mut node).await;
        node.handle.freezer(other_pad).unwrap().stop().unwrap();
        let pids = launched.map(|(pid, _)| pid);
        drop(node);
        for _ in 0..2 {
            let (keeper, jobs) = Keeper::take_over(&config).unwrap().expect("a keeper is there");
            let found: Vec<_> = jobs.iter().map(|job| (job.pad, job.ranks[0].pid)).collect();
            assert_eq!(found, [(PAD, pids[0]), (other_pad, pids[1])]);
            // The second daemon ends before it has done anything.
            drop((keeper, jobs));
        }
        let (keeper, jobs) = Keeper::take_over(&config).unwrap().expect("a keeper is there");
        let mut node = Node::attach(keeper);
        let stopped = |pad| node.handle.freezer(pad).unwrap().is_stopped();
        assert_eq!((stopped(PAD), stopped(other_pad)), (false, true));
        node.handle.freezer(other_pad).unwrap().resume().unwrap();
        for job in jobs {
            let rank = job.ranks.into_iter().next().unwrap();
            File::from(rank.ends.stdin.unwrap()).write_all(b"on\n").unwrap();
            node.handle.close_kept_input(job.job, PlIndex(0));
            match node.next().await {
                Event::Exited { pad, status, .. } => {
                    assert_eq!((pad, status), (job.pad, ExitStatus::Code(5)));
                }
                event => panic!("{event:?}"),
            }
            assert_eq!(read_to_end(rank.ends.stdout.unwrap()), "on\n");
            node.handle.release(job.pad).unwrap();
            node.until_ready(job.pad).await;
            node.handle.forget_kept(job.job);
        }
        let new = node.handle.make_pad(1).unwrap();
        assert!(new > other_pad, "{new} is taken");
        node.until_ready(new).await;
        node.shut_down().await;
    }
}

/// The job's pad may have another job by then.
#[tokio::test]
async fn a_job_that_gave_its_pad_back_is_told_of_until_it_is_forgotten() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), support::HANG);
        let Some(mut node) = start(&config).await else { continue };
        let launching = launch(&node, "exit 6");
        until_launched(&mut node).await;
        assert!(matches!(node.next().await, Event::Exited { .. }));
        node.handle.clean(PAD).unwrap();
        assert_eq!(node.next().await, Event::PadClean { pad: PAD });
        drop((node, launching));
        for _ in 0..2 {
            let (node, job) = take_over(&config);
            assert!(job.given_back);
            let ended = job.ranks[0].ended.map(|(status, _)| status);
            assert_eq!(ended, Some(ExitStatus::Code(6)));
            assert!(node.handle.waiting(PAD).is_empty());
            drop(node);
        }
        let (mut node, job) = take_over(&config);
        node.handle.forget_kept(job.job);
        node.handle.make_pads(1).unwrap();
        let pid = nix::unistd::Pid::from_raw(node.pid);
        // No event belongs to the pad that has ended.
        assert!(matches!(node.next().await, Event::Ready { pad } if pad != PAD));
        drop(node);
        let _ = nix::sys::wait::waitpid(pid, None);
        assert!(Keeper::take_over(&config).unwrap().is_none(), "nothing was left");
    }
}

/// Keeps a process from being reaped: its end is shown to its parent only when its tracer has gone.
struct Tracer {
    release: mpsc::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Tracer {
    fn of(process: i32) -> Self {
        let (release, released) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: the request reads and writes no memory.
            let traced = unsafe { libc::ptrace(libc::PTRACE_SEIZE, process, 0, 0) };
            tell.send(traced).unwrap();
            let _ = released.recv();
        });
        assert_eq!(told.recv(), Ok(0), "it is traced");
        Self { release, thread }
    }

    fn let_go(self) {
        drop(self.release);
        self.thread.join().unwrap();
    }
}

/// The keeper used to take the rank for a process that waits for a launch, and its end was lost.
/// The next daemon used to drop an end in a pad that was given back.
#[tokio::test]
async fn the_end_of_a_rank_is_told_that_was_killed_and_not_reaped_when_the_daemon_ended() {
    let killed = ExitStatus::Signal { signal: 9, core_dumped: false };
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), support::HANG);
        let Some(mut node) = start(&config).await else { continue };
        let launching = launch(&node, "exec sleep 1000");
        until_launched(&mut node).await;
        let rank = launching.pid.0;
        let tracer = Tracer::of(rank);
        node.handle.destroy(PAD).unwrap();
        until("it is killed", || support::is_gone(rank));
        drop((node, launching));
        let (node, job) = take_over(&config);
        assert_eq!((job.given_back, job.ranks[0].ended), (true, None), "{mechanism:?}");
        drop(node);
        let (mut node, job) = take_over(&config);
        assert_eq!((job.given_back, job.ranks[0].ended), (true, None), "{mechanism:?}");
        tracer.let_go();
        match node.next().await {
            Event::Exited { pad: PAD, pl: PlIndex(0), status, .. } => assert_eq!(status, killed),
            other => panic!("{mechanism:?}: {other:?}"),
        }
        drop(node);
        let (node, job) = take_over(&config);
        let ended = job.ranks[0].ended.map(|(status, _)| status);
        assert_eq!((ended, job.has_processes()), (Some(killed), false), "{mechanism:?}");
        node.shut_down().await;
    }
}

/// The keeper used to read about a rank that had ended, find no process, and keep nothing of its
/// job.
#[tokio::test]
async fn a_rank_that_ends_before_its_keeper_reads_of_it_is_kept() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), support::HANG);
        let Some(mut node) = start(&config).await else { continue };
        let keeper = keeper_of_pad(&node, mechanism);
        let signal = |signal| nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper), signal);
        signal(nix::sys::signal::Signal::SIGSTOP).unwrap();
        let launching = launch(&node, "exit 6");
        until("it has ended", || support::is_gone(launching.pid.0));
        signal(nix::sys::signal::Signal::SIGCONT).unwrap();
        until_launched(&mut node).await;
        assert!(matches!(node.next().await, Event::Exited { .. }));
        drop((node, launching));
        let (node, job) = take_over(&config);
        let ended = job.ranks[0].ended.map(|(status, _)| status);
        assert_eq!(ended, Some(ExitStatus::Code(6)));
        node.shut_down().await;
    }
}

/// The keeper used to get 100 ms, after which the job could not be taken over any more.
#[tokio::test]
async fn a_job_of_many_ranks_is_kept_although_its_keeper_stood_still_while_they_started() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let survival = Survival { door: directory.path().join("keeper"), bound: support::HANG };
        let config =
            KeeperConfig { survival: Some(survival), ..support::config(mechanism, MANY_RANKS) };
        let keeper = Keeper::start(&config).unwrap();
        if keeper.cgroup().is_none() && !config.signals_only {
            eprintln!("no cgroup v2 on this host: NOT tested");
            continue;
        }
        let mut node = Node::attach(keeper);
        node.handle.make_pads(1).unwrap();
        node.until_ready(PAD).await;
        let keeper = keeper_of_pad(&node, mechanism);
        let signal = |signal| nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper), signal);
        signal(nix::sys::signal::Signal::SIGSTOP).unwrap();
        node.handle.keep(JOB, PAD, &[note("known").as_fd()]).unwrap();
        let waits = shell("read line; exit 3").encode().unwrap();
        // A rank ends before its keeper can know of it.
        let ends = shell("exit 6").encode().unwrap();
        let rank = RankSpec { stdin: Input::Pipe, ..RankSpec::default() };
        let last = PlIndex(MANY_RANKS - 1);
        let launched = (0..MANY_RANKS).map(PlIndex).map(|pl| {
            let spec = if pl == last { &ends } else { &waits };
            let launching = node.handle.launch_kept(PAD, pl, spec, &rank, Some(JOB)).unwrap();
            assert!(launching.kept.is_ok());
            launching
        });
        let mut launched: Vec<_> = launched.collect();
        // The last command: when this rank sees the end of its input, the keeper has read all.
        launched[0].ends.stdin = None;
        node.handle.close_kept_input(JOB, PlIndex(0));
        until("it has ended", || support::is_gone(launched.last().unwrap().pid.0));
        signal(nix::sys::signal::Signal::SIGCONT).unwrap();
        let mut ended = Vec::new();
        while ended.len() < 2 {
            match node.next().await {
                Event::Exited { pl, .. } => ended.push(pl),
                Event::Launched { .. } | Event::ToldAll => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(ended.contains(&PlIndex(0)) && ended.contains(&last), "{ended:?}");
        drop((node, launched));

        let (node, job) = take_over(&config);
        assert_eq!(job.ranks.len(), usize::from(MANY_RANKS));
        let ended = job.ranks.last().unwrap().ended.map(|(status, _)| status);
        assert_eq!(ended, Some(ExitStatus::Code(6)));
        node.shut_down().await;
    }
}

/// Sets the limit of a keeper on descriptors: so many more than it has open.
fn leave_room(keeper: i32, more: usize) {
    let open = std::fs::read_dir(format!("/proc/{keeper}/fd")).unwrap();
    let numbers =
        open.map(|fd| fd.unwrap().file_name().to_str().unwrap().parse::<usize>().unwrap());
    let numbers: std::collections::BTreeSet<usize> = numbers.collect();
    let free = (0..).filter(|number| !numbers.contains(number)).nth(more).unwrap();
    support::limit_other(keeper, free as u64).unwrap();
}

/// The keeper used to forget the job without a report, and its ranks ended with the daemon. A
/// keeper with no descriptor left could not let the next daemon in.
#[tokio::test]
async fn a_job_that_its_keeper_has_no_descriptors_for_is_short_and_both_daemons_are_told() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), support::HANG);
        let Some(mut node) = start(&config).await else { continue };
        let keeper = keeper_of_pad(&node, mechanism);
        // The file of the job, the four descriptors of its first rank, and the keeper's spare one.
        leave_room(keeper, 6);
        let first = launch(&node, "exec sleep 1000");
        let spec = shell("exec sleep 1000").encode().unwrap();
        let rank = RankSpec { stdout: Output::Pipe, ..RankSpec::default() };
        let second = node.handle.launch_kept(PAD, PlIndex(1), &spec, &rank, Some(JOB)).unwrap();
        assert!(second.kept.is_ok(), "only the keeper knows");
        let told = loop {
            match node.next().await {
                Event::NotKept { job, errno } => break (job, errno.0),
                Event::Launched { .. } => {}
                other => panic!("{mechanism:?}: {other:?}"),
            }
        };
        assert_eq!(told, (JOB, libc::EMFILE));
        drop((node, first, second));
        let (node, job) = take_over(&config);
        assert!(job.is_short && job.files.len() == 1, "{mechanism:?}");
        assert_eq!(job.ranks.iter().map(|rank| rank.pl).collect::<Vec<_>>(), [PlIndex(0)]);
        node.shut_down().await;
    }
}

/// A node without control groups has a keeper for each pad.
#[tokio::test]
async fn the_keeper_of_a_pad_that_dies_without_a_daemon_takes_its_job_along_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let config = surviving(Mechanism::Signals, directory.path(), support::HANG);
    let Some(mut node) = start(&config).await else { return };
    let (token, other) = (unique_cluster(), KeptId(8));
    let script = "(setsid sleep 1000 &); exec sleep 1000";
    let doomed = launch_in(&node, (JOB, PAD), &marked(shell(script), &token));
    let lives = launch_in(&node, (other, PadId(1)), &shell("exec sleep 1000"));
    until_launched(&mut node).await;
    until_launched(&mut node).await;
    until("all run", || alive(&token).len() == 2);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", doomed.pid)).unwrap();
    let keeper: i32 = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    drop((node, doomed, lives));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    until("the job has ended", || alive(&token).is_empty());
    let (node, job) = take_over(&config);
    assert_eq!((job.job, job.ranks[0].ended), (other, None));
    node.shut_down().await;
}

/// Connects to the keeper like a daemon of this version. Returns the keeper's version too.
fn greeted(config: &KeeperConfig, version: u32) -> (OwnedFd, u32) {
    let door = UnixAddr::new(&config.survival.as_ref().unwrap().door).unwrap();
    let (kind, flags) = (SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
    let daemon = socket(AddressFamily::Unix, kind, flags, None).unwrap();
    connect(daemon.as_raw_fd(), &door).unwrap();
    let pid = std::process::id();
    let greeting = [&b"STORMkpr"[..], &version.to_le_bytes(), &pid.to_le_bytes()].concat();
    nix::unistd::write(&daemon, &greeting).unwrap();
    let mut answer = [0; 16];
    assert_eq!(nix::unistd::read(&daemon, &mut answer).unwrap(), answer.len());
    (daemon, u32::from_le_bytes(answer[8..12].try_into().unwrap()))
}

/// Connects to the keeper like a daemon of the keeper's version. Reads nothing of the handover.
fn knock(config: &KeeperConfig) -> OwnedFd {
    let (_stranger, version) = greeted(config, 0);
    greeted(config, version).0
}

/// The keeper used to wait for its bound.
#[tokio::test]
async fn a_keeper_ends_with_its_ranks_if_a_daemon_of_another_version_waits() {
    let directory = tempfile::tempdir().unwrap();
    let config = surviving(Mechanism::Cgroup, directory.path(), support::HANG);
    let Some(mut node) = start(&config).await else { return };
    let go = directory.path().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let launching = launch(&node, &script);
    until_launched(&mut node).await;
    let (rank, keeper) = (launching.pid.0, nix::unistd::Pid::from_raw(node.pid));
    drop((node, launching));
    // A daemon that does not wait does not count.
    drop(greeted(&config, 0));
    let (stranger, _) = greeted(&config, 0);
    assert!(!support::is_gone(rank));
    std::fs::write(&go, "").unwrap();
    let _ = nix::sys::wait::waitpid(keeper, None);
    assert!(support::is_gone(rank));
    assert_eq!(nix::unistd::read(&stranger, &mut [0]).unwrap(), 0, "it may begin");
}

#[tokio::test]
async fn a_daemon_that_hangs_and_dies_while_it_takes_over_holds_up_no_lease() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), support::HANG);
        let Some(mut node) = start(&config).await else { continue };
        let (token, other) = (unique_cluster(), KeptId(8));
        let leased = launch_in(&node, (JOB, PAD), &marked(shell("exec sleep 1000"), &token));
        let lives = launch_in(&node, (other, PadId(1)), &shell("exec sleep 1000"));
        until_launched(&mut node).await;
        until_launched(&mut node).await;
        let over = HostTime(HostTime::now().0 + Duration::from_millis(100));
        node.handle.lease(&[PAD], over).unwrap();
        drop((node, leased, lives));
        let hangs = knock(&config);
        until("the lease is over", || alive(&token).is_empty());
        drop(hangs);
        let (keeper, jobs) = Keeper::take_over(&config).unwrap().expect("a keeper is there");
        let over: Vec<_> = jobs.iter().map(|job| (job.job, job.lease_over)).collect();
        assert_eq!(over, [(JOB, true), (other, false)]);
        Node::attach(keeper).shut_down().await;
    }
}

#[tokio::test]
async fn the_next_daemon_holds_the_leases() {
    for mechanism in BOTH {
        let directory = tempfile::tempdir().unwrap();
        let config = surviving(mechanism, directory.path(), support::HANG);
        let Some(mut node) = start(&config).await else { continue };
        let launching = launch(&node, "exec sleep 1000");
        until_launched(&mut node).await;
        node.handle.lease(&[PAD], HostTime(HostTime::now().0 + support::HANG)).unwrap();
        drop((node, launching));
        let (mut node, job) = take_over(&config);
        assert!(!job.lease_over);
        node.handle.lease(&[PAD], HostTime::now()).unwrap();
        assert_eq!(node.next().await, Event::LeaseOver { pad: PAD });
        assert!(matches!(node.next().await, Event::Exited { .. }));
        node.shut_down().await;
    }
}
