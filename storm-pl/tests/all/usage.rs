//! The usage reported with the end of a rank, for every kind of child and of end.

use crate::support::{BOTH, Mechanism, Node, PipeReader, shell};
use std::os::fd::OwnedFd;
use std::time::Duration;
use storm_pl::{Event, Input, LaunchSpec, PadId, PlIndex, RankSpec, Usage};

/// Takes 32 MiB, works, prints its number, and stays.
const WORKER: &str = "x=$(head -c 33554432 /dev/zero | tr \"\\0\" x); \
    i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo $$; sleep 1000; true";
/// The same, but ends after its work.
const BRIEF_WORKER: &str = "x=$(head -c 33554432 /dev/zero | tr \"\\0\" x); \
    i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo $$";
const WORKER_KIB: u64 = 32 << 10;
/// The resolution of times in `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// A rank that has printed a number, and the pipe that keeps it from reading its end.
struct Started {
    stdin: OwnedFd,
    number: i32,
    _output: PipeReader,
    _held: (Option<OwnedFd>, storm_pl::OwnEnds),
}

async fn start(node: &mut Node, pl: PlIndex, spec: &LaunchSpec) -> Started {
    let rank = RankSpec { stdin: Input::Pipe, ..RankSpec::default() };
    let rank = RankSpec { stdout: storm_pl::Output::Pipe, ..rank };
    let launching = node.handle.launch(PadId(0), pl, &spec.encode().unwrap(), &rank).unwrap();
    let mut output = PipeReader::new(launching.ends.stdout.expect("a pipe"));
    let number = output.until("\n").await.trim().parse().unwrap();
    let held = (launching.ends.pmi, launching.own);
    Started { stdin: launching.ends.stdin.expect("a pipe"), number, _output: output, _held: held }
}

/// The CPU time so far of a process and of the children that it waited for.
fn used_by(pid: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split(' ').skip(12);
    TICK * fields.take(4).map(|field| field.parse::<u32>().unwrap()).sum()
}

async fn exit_of(node: &mut Node, of: PlIndex) -> Usage {
    loop {
        match node.next().await {
            Event::Exited { pl, usage, .. } if pl == of => return usage,
            Event::Launched { .. } => {}
            other => panic!("{other:?} instead of an end"),
        }
    }
}

fn assert_covers(usage: Usage, worked: Duration, what: &str) {
    assert!(worked > TICK, "{what}: it worked for {worked:?} only");
    let told = usage.user + usage.system;
    assert!(told + TICK >= worked, "{what}: {told:?} of {worked:?}");
    assert!(usage.max_rss_kib >= WORKER_KIB, "{what}: {} KiB", usage.max_rss_kib);
}

/// A script that used 4 ms itself: the job's usage was once reported as only that.
#[tokio::test]
async fn a_script_that_is_killed_used_what_its_child_did() {
    for mechanism in BOTH {
        for detached in ["", "setsid"] {
            let mut node = Node::start(mechanism, 2).await;
            let spec = shell(&format!("{detached} sh -c '{WORKER}'; echo never"));
            let started = start(&mut node, PlIndex(0), &spec).await;
            let worked = used_by(started.number);
            node.handle.destroy(PadId(0)).unwrap();
            let usage = exit_of(&mut node, PlIndex(0)).await;
            assert_covers(usage, worked, &format!("{mechanism:?} {detached}"));
            node.until_ready(PadId(0)).await;
            node.shut_down().await;
        }
    }
}

#[tokio::test]
async fn children_that_nobody_waits_for_count() {
    for mechanism in BOTH {
        // Children that live on, in the rank's session and outside, or have ended before the rank.
        for child in [
            format!("sh -c '{WORKER}' & read x"),
            format!("setsid sh -c '{WORKER}' & read x"),
            format!("(setsid sh -c '{BRIEF_WORKER}' &); read x"),
            format!("sh -c '{BRIEF_WORKER}' & exec cat"),
        ] {
            let mut node = Node::start(mechanism, 2).await;
            let started = start(&mut node, PlIndex(0), &shell(&child)).await;
            drop(started.stdin);
            let usage = exit_of(&mut node, PlIndex(0)).await;
            // A child that ended is no longer visible, but has worked for more than two ticks.
            assert_covers(usage, TICK * 3, &format!("{mechanism:?} {child}"));
            node.handle.release(PadId(0)).unwrap();
            node.until_ready(PadId(0)).await;
            node.shut_down().await;
        }
    }
}

/// No process reaps a child of this kind, so only the cgroup has counted it.
#[tokio::test]
async fn a_child_that_its_parent_disowns_counts_by_the_control_group() {
    let mut node = Node::start(Mechanism::Cgroup, 1).await;
    if node.cgroup.is_none() {
        eprintln!("no cgroup v2 on this host: NOT tested");
        return node.shut_down().await;
    }
    let spec = shell(&format!("trap '' CHLD; sh -c '{BRIEF_WORKER}' & exec cat"));
    let started = start(&mut node, PlIndex(0), &spec).await;
    // The child prints its number just before its end, and the kernel needs a moment to end it.
    crate::support::until("it is gone", || crate::support::is_gone(started.number));
    drop(started.stdin);
    let usage = exit_of(&mut node, PlIndex(0)).await;
    assert!(usage.user + usage.system > TICK * 3, "{usage:?}");
    node.shut_down().await;
}

#[tokio::test]
async fn each_rank_has_its_own_and_the_next_job_nothing_of_the_last() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 2).await;
        let idle = start(&mut node, PlIndex(1), &shell("echo 1; exec cat")).await;
        let busy = shell(&format!("sh -c '{WORKER}'; echo never"));
        let started = start(&mut node, PlIndex(0), &busy).await;
        let worked = used_by(started.number);
        node.handle.kill(PadId(0), libc::SIGTERM).unwrap();
        let (mut busy, mut idle_used) = (None, None);
        while busy.is_none() || idle_used.is_none() {
            match node.next().await {
                Event::Exited { pl: PlIndex(0), usage, .. } => busy = Some(usage),
                Event::Exited { usage, .. } => idle_used = Some(usage),
                Event::Launched { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_covers(busy.unwrap(), worked, &format!("{mechanism:?}"));
        let idle_used = idle_used.unwrap();
        assert!(idle_used.user + idle_used.system < worked / 2, "{idle_used:?} of {worked:?}");
        drop(idle);
        node.handle.release(PadId(0)).unwrap();
        node.until_ready(PadId(0)).await;
        let next = start(&mut node, PlIndex(0), &shell("echo 1; exec cat")).await;
        drop(next.stdin);
        let usage = exit_of(&mut node, PlIndex(0)).await;
        assert!(usage.user + usage.system < worked / 2, "{usage:?} of {worked:?}");
        assert!(usage.max_rss_kib < WORKER_KIB, "{usage:?}");
        node.shut_down().await;
    }
}
