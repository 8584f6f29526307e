//! Jobs that end if the NM does not extend their lease in time.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{BOTH, Mechanism, Node, alive, marked, shell, unique_cluster, until};
use storm_pl::{Event, ExitStatus, HostTime, PadId, PlIndex, RankSpec};

const PAD: PadId = PadId(0);
const KILLED: ExitStatus = ExitStatus::Signal { signal: libc::SIGKILL, core_dumped: false };
/// Longer than any test.
const LONG: Duration = Duration::from_secs(10_000);
/// More ends of ranks than the socket to the NM can hold.
const MANY: u16 = 600;

fn after(time: Duration) -> HostTime {
    HostTime(HostTime::now().0 + time)
}

/// A rank and a second process that leaves the rank's session.
const FUGITIVE: &str = "(setsid sleep 1000 &); exec sleep 1000";

#[tokio::test]
async fn a_lease_that_runs_out_ends_the_job_stopped_or_not_and_no_other() {
    for (mechanism, stopped) in BOTH.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let mut node = Node::start(mechanism, 1).await;
        node.handle.make_pads(1).unwrap();
        node.until_ready(PadId(1)).await;
        let tokens = [unique_cluster(), unique_cluster()];
        let mut ends = Vec::new();
        for (pad, token) in [PAD, PadId(1)].into_iter().zip(&tokens) {
            let spec = marked(shell(FUGITIVE), token).encode().unwrap();
            ends.push(node.handle.launch(pad, PlIndex(0), &spec, &RankSpec::default()).unwrap());
            assert_eq!(node.next().await, Event::Launched { pad, pl: PlIndex(0) });
            until("both run", || alive(token).len() == 2);
        }
        if stopped {
            node.handle.freezer(PAD).unwrap().stop().unwrap();
        }
        node.handle.lease(&[PadId(1)], after(LONG)).unwrap();
        node.handle.lease(&[PAD], after(Duration::from_millis(1))).unwrap();
        assert_eq!(node.next().await, Event::LeaseOver { pad: PAD });
        let Event::Exited { pad, status, .. } = node.next().await else { panic!("no exit") };
        assert_eq!((pad, status), (PAD, KILLED));
        until("nothing of it is left", || alive(&tokens[0]).is_empty());
        // A process shows no environment for a moment while it executes.
        until("the other job is whole", || alive(&tokens[1]).len() == 2);
        node.handle.destroy(PAD).unwrap();
        node.until_ready(PAD).await;
        // The pad is no longer stopped, and has no lease.
        assert!(node.run(&shell("exit 0"), &RankSpec::default()).await.status().success());
        node.shut_down().await;
        assert!(alive(&tokens[1]).is_empty());
    }
}

#[tokio::test]
async fn a_keeper_that_had_no_processor_ends_nothing_that_may_go_on() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 1).await;
        let spec = shell("exec sleep 1000").encode().unwrap();
        let _launching = node.handle.launch(PAD, PlIndex(0), &spec, &RankSpec::default()).unwrap();
        assert!(matches!(node.next().await, Event::Launched { .. }));
        // A pad's own keeper, if there is one, has the pad's leases.
        let keeper = if node.cgroup.is_some() { node.pid } else { only_child(node.pid) };
        signal(keeper, Signal::SIGSTOP);
        until("it is stopped", || is_stopped(keeper));
        node.handle.lease(&[PAD], HostTime::now()).unwrap();
        node.handle.lease(&[PAD], after(LONG)).unwrap();
        signal(keeper, Signal::SIGCONT);
        // A command that follows the leases is executed after them.
        node.handle.kill(PAD, libc::SIGTERM).unwrap();
        let Event::Exited { status, .. } = node.next().await else { panic!("no exit") };
        assert_eq!(status, ExitStatus::Signal { signal: libc::SIGTERM, core_dumped: false });
        node.handle.lease(&[PAD], HostTime::now()).unwrap();
        assert_eq!(node.next().await, Event::LeaseOver { pad: PAD });
        node.shut_down().await;
    }
}

fn only_child(parent: i32) -> i32 {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let children = std::fs::read_to_string(children).unwrap();
    children.trim().parse().expect("one child")
}

fn signal(process: i32, signal: Signal) {
    kill(Pid::from_raw(process), signal).unwrap();
}

fn is_stopped(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))
}

/// The NM takes no report, like a stopped NM.
#[tokio::test]
async fn a_lease_runs_out_also_when_the_keeper_cannot_tell_of_anything() {
    nobody_takes_reports(true).await;
}

/// The lease used to wait behind reports that the NM did not take.
#[tokio::test]
async fn a_lease_counts_also_where_it_is_said_when_the_keeper_cannot_tell_of_anything() {
    nobody_takes_reports(false).await;
}

/// Grants the lease before the reports, or when there is no room for more of them.
async fn nobody_takes_reports(before: bool) {
    let mut node = Node::start(Mechanism::Cgroup, MANY).await;
    node.handle.make_pad(1).unwrap();
    node.until_ready(PadId(1)).await;
    let token = unique_cluster();
    let spec = marked(shell("exec sleep 1000"), &token).encode().unwrap();
    let rank = RankSpec::default();
    let _job = node.handle.launch(PadId(1), PlIndex(0), &spec, &rank).unwrap();
    assert!(matches!(node.next().await, Event::Launched { pad: PadId(1), .. }));
    let lease = |node: &Node| node.handle.lease(&[PadId(1)], after(Duration::from_millis(300)));
    if before {
        lease(&node).unwrap();
    }
    let others = unique_cluster();
    let spec = marked(shell("exit 0"), &others).encode().unwrap();
    for pl in (0..MANY).map(PlIndex) {
        // Its streams are closed at once.
        drop(node.handle.launch(PAD, pl, &spec, &rank).unwrap());
    }
    if !before {
        until("the others have ended", || alive(&others).is_empty());
        lease(&node).unwrap();
    }
    until("the job is ended", || alive(&token).is_empty());
    let mut exits = 0;
    let mut leases = Vec::new();
    while exits <= MANY {
        match node.next().await {
            Event::Exited { pad: PadId(1), status, .. } => {
                assert_eq!((leases.len(), status), (1, KILLED), "the lease is told of first");
                exits += 1;
            }
            Event::Exited { .. } => exits += 1,
            Event::LeaseOver { pad } => leases.push(pad),
            Event::Launched { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(leases, [PadId(1)]);
    node.shut_down().await;
}
