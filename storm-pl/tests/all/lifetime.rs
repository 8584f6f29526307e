//! No process outlives its owner: strays, reuse of pads, and the sudden death of NM and keeper.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::support::{
    self, BOTH, Mechanism, NOBODY, Node, alive, config, is_gone, marked, shell, testbed,
    unique_cluster, until,
};
use storm_pl::{
    Event, ExitStatus, Keeper, LaunchError, PadId, PlIndex, ProcessId, RankSpec, Refusal,
    SignalFreezer, StartError,
};

const PAD: PadId = PadId(0);

/// Leaves its session twice, forks twice, and ignores all signals that it can. Five processes stay,
/// one of which is the rank.
const FUGITIVES: &str = "trap '' TERM HUP INT; \
    (setsid sh -c 'sleep 1000 & exec sleep 1000' &); \
    (setsid setsid sleep 1000 &); \
    (sleep 1000 &); \
    exec sleep 1000";
const FUGITIVES_COUNT: usize = 5;

fn sleepers(token: &str) -> usize {
    let is_sleep = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    };
    alive(token).iter().filter(|pid| is_sleep(pid)).count()
}

#[tokio::test]
async fn strays_die_with_their_job() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 2).await;
        let token = unique_cluster();
        let script = format!("{} read line", FUGITIVES.strip_suffix("exec sleep 1000").unwrap());
        let spec = marked(shell(&script), &token).encode().unwrap();
        let rank = RankSpec { stdin: storm_pl::Input::Pipe, ..RankSpec::default() };
        let launching = node.handle.launch(PAD, PlIndex(0), &spec, &rank).unwrap();
        until("the strays run", || sleepers(&token) == FUGITIVES_COUNT - 1);
        drop(launching);
        assert!(matches!(node.next().await, Event::Launched { .. }));
        assert!(matches!(node.next().await, Event::Exited { .. }));
        assert!(!alive(&token).is_empty());
        node.handle.release(PAD).unwrap();
        assert_eq!(node.next().await, Event::PadClean { pad: PAD });
        assert_eq!(alive(&token), [0; 0]);
        node.until_ready(PAD).await;
        assert_eq!(node.handle.waiting(PAD).len(), 2);
        node.shut_down().await;
    }
}

#[tokio::test]
async fn a_pad_that_is_only_cleaned_stays_as_it_is_until_it_is_released() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 2).await;
        let spec = shell("exit 0").encode().unwrap();
        assert!(node.run_only(&spec, &RankSpec::default()).await.status().success());
        node.handle.clean(PAD).unwrap();
        assert_eq!(node.next().await, Event::PadClean { pad: PAD });
        // The keeper answers in turn, so an answer shows that it does not work on the pad.
        node.handle.make_pads(1).unwrap();
        node.until_ready(PadId(1)).await;
        assert_eq!(node.handle.waiting(PAD), [PlIndex(1)], "only the one that was not used");
        node.handle.release(PAD).unwrap();
        node.until_ready(PAD).await;
        assert_eq!(node.handle.waiting(PAD).len(), 2);
        node.shut_down().await;
    }
}

#[tokio::test]
async fn destroy_ends_a_stopped_job() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 2).await;
        let token = unique_cluster();
        let spec = marked(shell(FUGITIVES), &token).encode().unwrap();
        let _launching = node.handle.launch(PAD, PlIndex(0), &spec, &RankSpec::default()).unwrap();
        until("the fugitives run", || sleepers(&token) == FUGITIVES_COUNT);
        node.handle.freezer(PAD).unwrap().stop().unwrap();
        node.handle.destroy(PAD).unwrap();
        assert!(matches!(node.next().await, Event::Launched { .. }));
        let Event::Exited { status, .. } = node.next().await else { panic!("no exit") };
        assert_eq!(status, ExitStatus::Signal { signal: libc::SIGKILL, core_dumped: false });
        assert_eq!(node.next().await, Event::PadClean { pad: PAD });
        assert_eq!(alive(&token), [0; 0]);
        node.until_ready(PAD).await;
        // The pad is no longer stopped.
        assert!(node.run(&shell("exit 0"), &RankSpec::default()).await.status().success());
        node.shut_down().await;
    }
}

#[tokio::test]
async fn release_ends_ranks_that_still_run() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 1).await;
        let spec = shell("exec sleep 1000").encode().unwrap();
        let _launching = node.handle.launch(PAD, PlIndex(0), &spec, &RankSpec::default()).unwrap();
        assert!(matches!(node.next().await, Event::Launched { .. }));
        node.handle.release(PAD).unwrap();
        assert!(matches!(node.next().await, Event::Exited { .. }));
        node.until_ready(PAD).await;
        node.shut_down().await;
    }
}

#[tokio::test]
async fn a_signal_reaches_the_group_of_every_rank() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 2).await;
        let spec = shell("trap 'exit 7' TERM; (echo up; exec sleep 1000) & wait").encode().unwrap();
        let mut outputs = Vec::new();
        for pl in [PlIndex(0), PlIndex(1)] {
            let launching = node.handle.launch(PAD, pl, &spec, &RankSpec::default()).unwrap();
            outputs.push(support::PipeReader::new(launching.ends.stdout.unwrap()));
        }
        for output in &mut outputs {
            output.until("up\n").await;
        }
        node.handle.kill(PAD, libc::SIGTERM).unwrap();
        let mut codes = Vec::new();
        while codes.len() < 2 {
            if let Event::Exited { status, .. } = node.next().await {
                codes.push(status);
            }
        }
        assert_eq!(codes, [ExitStatus::Code(7); 2]);
        // The children in the groups got the signal too, so the pipes are at their ends.
        for output in &mut outputs {
            assert_eq!(output.read().await, None);
        }
        node.shut_down().await;
    }
}

#[tokio::test]
async fn a_pad_can_be_used_a_thousand_times() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 2).await;
        let spec = support::program("/bin/true", &["true"]);
        let count = |path: String| fs::read_dir(path).unwrap().count();
        let keeper = node.pid;
        let cgroup = node.cgroup.clone();
        let measure = || {
            let directories = cgroup.as_ref().map_or(0, |path| {
                fs::read_dir(path).unwrap().flatten().filter(|e| e.path().is_dir()).count()
            });
            let children = format!("/proc/{keeper}/task/{keeper}/children");
            let children = fs::read_to_string(children).unwrap().split_whitespace().count();
            (count(format!("/proc/{keeper}/fd")), directories, children)
        };
        let own = || count("/proc/self/fd".to_owned());
        node.run(&spec, &RankSpec::default()).await;
        let before = measure();
        let own_before = own();
        for _ in 0..1_000 {
            let outcome = node.run(&spec, &RankSpec::default()).await;
            assert!(outcome.status().success());
        }
        // The keeper closes its copies a moment after it has handed over the last ends.
        until("the keeper holds what it held before", || {
            let (descriptors, directories, children) = measure();
            descriptors <= before.0 && (directories, children) == (before.1, before.2)
        });
        // Other tests of this program have descriptors of their own for a while. A leak of one
        // descriptor a run would stay.
        until("this process holds about what it held before", || own() < own_before + 500);
        node.shut_down().await;
    }
}

#[tokio::test]
async fn unused_pls_survive_the_release() {
    let mut node = Node::start(Mechanism::Cgroup, 3).await;
    let spec = shell("exit 0").encode().unwrap();
    let keeper = parent_of_pls(&node);
    let former = children(keeper);
    assert_eq!(former.len(), 3);
    let launching = node.handle.launch(PAD, PlIndex(1), &spec, &RankSpec::default()).unwrap();
    assert!(matches!(node.next().await, Event::Launched { .. }));
    assert!(matches!(node.next().await, Event::Exited { .. }));
    node.handle.release(PAD).unwrap();
    node.until_ready(PAD).await;
    let survivors = children(keeper);
    for pid in former.iter().filter(|&&pid| pid != launching.pid.0) {
        assert!(survivors.contains(pid));
    }
    node.shut_down().await;
}

#[tokio::test]
async fn a_failed_launch_leaves_the_other_pls() {
    let mut node = Node::start(Mechanism::Cgroup, 2).await;
    let keeper = parent_of_pls(&node);
    let before = children(keeper);
    node.run(&support::program("/no/such", &["x"]), &RankSpec::default()).await.failure();
    let after = children(keeper);
    assert_eq!(after.len(), 2);
    assert_eq!(before.iter().filter(|pid| after.contains(pid)).count(), 1);
    node.shut_down().await;
}

#[tokio::test]
async fn a_pad_being_cleaned_takes_no_launch() {
    let mut node = Node::start(Mechanism::Cgroup, 2).await;
    let spec = shell("exit 0").encode().unwrap();
    node.handle.release(PAD).unwrap();
    let early = node.handle.launch(PAD, PlIndex(0), &spec, &RankSpec::default());
    assert!(matches!(early, Err(LaunchError::NotWaiting { .. })));
    node.until_ready(PAD).await;
    assert!(node.run_only(&spec, &RankSpec::default()).await.status().success());
    node.shut_down().await;
}

#[tokio::test]
async fn a_pl_that_dies_waiting_is_reported_and_comes_back() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 1).await;
        kill(only_child(parent_of_pls(&node)));
        let event = node.next().await;
        assert!(matches!(event, Event::PlDied { pad: PAD, pl: PlIndex(0), .. }), "{event:?}");
        node.handle.release(PAD).unwrap();
        node.until_ready(PAD).await;
        assert!(node.run(&shell("exit 0"), &RankSpec::default()).await.status().success());
        node.shut_down().await;
    }
}

#[tokio::test]
async fn the_loss_of_a_pads_own_keeper_ends_its_job_only() {
    let mut node = Node::start(Mechanism::Signals, 1).await;
    let first = only_child(node.pid);
    node.handle.make_pads(1).unwrap();
    node.until_ready(PadId(1)).await;
    let token = unique_cluster();
    let spec = marked(shell(FUGITIVES), &token).encode().unwrap();
    let _launching = node.handle.launch(PAD, PlIndex(0), &spec, &RankSpec::default()).unwrap();
    until("the fugitives run", || sleepers(&token) == FUGITIVES_COUNT);
    kill(first);
    loop {
        match node.next().await {
            Event::PadLost { pad } => break assert_eq!(pad, PAD),
            Event::Launched { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    until("the fugitives are gone", || alive(&token).is_empty());
    let spec = shell("exit 5").encode().unwrap();
    let _launching = node.handle.launch(PadId(1), PlIndex(0), &spec, &RankSpec::default()).unwrap();
    assert!(matches!(node.next().await, Event::Launched { .. }));
    assert!(matches!(node.next().await, Event::Exited { status: ExitStatus::Code(5), .. }));
    node.shut_down().await;
}

/// An NM in a process of its own.
struct Manager {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    keeper: i32,
    cluster: String,
}

impl Manager {
    fn start(mechanism: Mechanism, script: &str) -> Self {
        let cluster = unique_cluster();
        let word = if mechanism == Mechanism::Cgroup { "cgroup" } else { "signals" };
        let own = storm_pl::Credentials::own().uid.to_string();
        let mut child = Command::new(testbed())
            .args(["manage", &cluster, word, &own, script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let keeper = field(&mut lines, "keeper ").parse().unwrap();
        field(&mut lines, "capabilities ");
        Self { child, lines, keeper, cluster }
    }

    fn with_fugitives(mechanism: Mechanism) -> Self {
        let manager = Self::start(mechanism, FUGITIVES);
        until("the fugitives run", || sleepers(&manager.cluster) == FUGITIVES_COUNT);
        manager
    }

    fn nothing_is_left(&self) {
        until("all processes are gone", || alive(&self.cluster).is_empty());
        until("the keeper is gone", || is_gone(self.keeper));
        if let Some(path) = self.cgroup() {
            until("the cgroup is gone", || !path.exists());
        }
    }

    fn cgroup(&self) -> Option<std::path::PathBuf> {
        let parent = storm_pl::Capabilities::probe(None).cgroup.ok()?;
        Some(parent.join(format!("storm-{}-n1", self.cluster)))
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn field(lines: &mut impl BufRead, name: &str) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let rest = line.trim_end().strip_prefix(name);
    rest.unwrap_or_else(|| panic!("{line:?} instead of {name:?}")).to_owned()
}

fn kill(pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL).unwrap();
}

/// The keeper of the only pad.
fn parent_of_pls(node: &Node) -> i32 {
    if node.cgroup.is_some() { node.pid } else { only_child(node.pid) }
}

fn children(parent: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn only_child(parent: i32) -> i32 {
    let children = children(parent);
    assert_eq!(children.len(), 1, "{children:?}");
    children[0]
}

#[test]
fn death_of_the_nm_ends_everything() {
    for mechanism in BOTH {
        let mut manager = Manager::with_fugitives(mechanism);
        manager.child.kill().unwrap();
        manager.nothing_is_left();
    }
}

/// A resubmitted job used to start within a second, while its old ranks still ran.
#[test]
fn death_of_the_nm_ends_everything_though_the_keeper_is_stopped() {
    for mechanism in BOTH {
        let mut manager = Manager::with_fugitives(mechanism);
        let keeper = nix::unistd::Pid::from_raw(manager.keeper);
        nix::sys::signal::kill(keeper, nix::sys::signal::SIGSTOP).unwrap();
        manager.child.kill().unwrap();
        manager.nothing_is_left();
    }
}

#[test]
fn death_of_the_keeper_ends_everything_and_is_reported() {
    for mechanism in BOTH {
        let mut manager = Manager::with_fugitives(mechanism);
        kill(manager.keeper);
        assert_eq!(field(&mut manager.lines, ""), "started");
        assert_eq!(field(&mut manager.lines, "event "), "KeeperGone { expected: false }");
        manager.nothing_is_left();
        assert!(manager.child.wait().unwrap().success());
    }
}

#[test]
fn death_of_the_nm_ends_stopped_jobs() {
    for mechanism in BOTH {
        let mut manager = Manager::with_fugitives(mechanism);
        match (mechanism, manager.cgroup()) {
            (Mechanism::Cgroup, Some(path)) => {
                fs::write(path.join("pad-0/cgroup.freeze"), "1").unwrap();
            }
            _ => SignalFreezer::new(ProcessId(only_child(manager.keeper))).stop().unwrap(),
        }
        manager.child.kill().unwrap();
        manager.nothing_is_left();
    }
}

#[test]
fn processes_that_outlived_nm_and_keeper_are_found_at_the_next_start() {
    let mut manager = Manager::with_fugitives(Mechanism::Cgroup);
    let Some(path) = manager.cgroup() else { return assert!(!is_root(), "root has cgroups") };
    // Both die at once: the NM must not see the keeper's death.
    let nm = nix::unistd::Pid::from_raw(manager.child.id() as i32);
    nix::sys::signal::kill(nm, nix::sys::signal::SIGSTOP).unwrap();
    fs::write(path.join("pad-0/cgroup.freeze"), "1").unwrap();
    kill(manager.keeper);
    manager.child.kill().unwrap();
    manager.child.wait().unwrap();
    until("the keeper is gone", || is_gone(manager.keeper));
    assert!(!alive(&manager.cluster).is_empty(), "nothing is left to be found");
    let mut config = config(Mechanism::Cgroup, 1);
    config.cluster.clone_from(&manager.cluster);
    let keeper = Keeper::start(&config).unwrap();
    assert_eq!(alive(&manager.cluster), [0; 0]);
    let pid = keeper.pid().0;
    drop(keeper);
    until("the second keeper is gone", || is_gone(pid));
    manager.nothing_is_left();
}

fn is_root() -> bool {
    storm_pl::Credentials::own().uid == 0
}

#[test]
fn a_second_daemon_of_the_same_node_is_refused() {
    let manager = Manager::with_fugitives(Mechanism::Cgroup);
    if manager.cgroup().is_none() {
        return assert!(!is_root(), "root has cgroups");
    }
    let mut config = config(Mechanism::Cgroup, 1);
    config.cluster.clone_from(&manager.cluster);
    let refused = Keeper::start(&config);
    assert!(matches!(refused, Err(StartError::Refused(Refusal::NodeInUse(_)))), "{refused:?}");
    assert_eq!(sleepers(&manager.cluster), FUGITIVES_COUNT);
}

/// The keeper's name was taken over before its manager noticed: the directory is the successor's.
#[tokio::test]
async fn a_manager_that_lost_its_keeper_leaves_its_successor_alone() {
    let config = config(Mechanism::Cgroup, 1);
    let mut former = Node::attach(Keeper::start(&config).unwrap());
    if former.cgroup.is_none() {
        eprintln!("no cgroup v2 on this host: NOT tested");
        return former.shut_down().await;
    }
    let killed = nix::unistd::Pid::from_raw(former.pid);
    nix::sys::signal::kill(killed, nix::sys::signal::Signal::SIGKILL).unwrap();
    let mut successor = Node::attach(Keeper::start(&config).unwrap());
    assert_eq!(successor.cgroup, former.cgroup);
    assert_eq!(former.next().await, Event::KeeperGone { expected: false });
    successor.handle.make_pads(1).unwrap();
    successor.until_ready(PAD).await;
    assert!(successor.run(&shell("exit 0"), &RankSpec::default()).await.status().success());
    successor.shut_down().await;
}

#[tokio::test]
async fn a_pad_that_could_not_be_made_can_be_tried_again() {
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    let Some(cgroup) = node.cgroup.clone() else {
        eprintln!("no cgroup v2 on this host: NOT tested");
        return node.shut_down().await;
    };
    // No second control group may be made.
    let limit = cgroup.join("cgroup.max.descendants");
    fs::write(&limit, "1").unwrap();
    let pad = node.handle.make_pads(1).unwrap()[0];
    let failed = node.next().await;
    assert!(matches!(failed, Event::PadFailed { pad: same, .. } if same == pad), "{failed:?}");
    fs::write(&limit, "max").unwrap();
    node.handle.release(pad).unwrap();
    node.until_ready(pad).await;
    node.shut_down().await;
}

#[test]
fn an_ordinary_user_runs_own_jobs_only_and_leaves_nothing() {
    if !is_root() {
        // In this case, every other test of this program has shown the same.
        return assert_ne!(storm_pl::Credentials::own().uid, 0);
    }
    // A place from which the user nobody can execute the program.
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("testbed");
    fs::copy(testbed(), &program).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    for (user, expected) in [(NOBODY, "started"), (0, "OtherUser")] {
        let cluster = unique_cluster();
        use std::os::unix::process::CommandExt;
        let mut child = Command::new(&program)
            .args(["manage", &cluster, "cgroup", &user.to_string(), FUGITIVES])
            .uid(NOBODY)
            .gid(NOBODY)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let keeper: i32 = field(&mut lines, "keeper ").parse().unwrap();
        let text = field(&mut lines, "capabilities ");
        assert!(text.contains("switched by signals"), "{text}");
        let line = field(&mut lines, "");
        assert!(line.contains(expected), "{line}");
        if user == NOBODY {
            until("the fugitives run", || sleepers(&cluster) == FUGITIVES_COUNT);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        until("all processes are gone", || alive(&cluster).is_empty());
        until("the keeper is gone", || is_gone(keeper));
    }
}
