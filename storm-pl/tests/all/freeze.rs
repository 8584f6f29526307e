//! The switch: a stopped job does nothing at all, and a resumed job continues.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{
    BOTH, Mechanism, Node, PipeReader, alive, marked, shell, testbed, unique_cluster, until,
};
use nix::time::{ClockId, clock_gettime};
use storm_pl::{Event, Freezer, Output, PadId, PlIndex, RankSpec, switch};

/// CPU time that the test burns while a stopped job must not run: 12 ticks at 250 Hz.
const OWN_WORK_NS: i64 = 50_000_000;

/// Nanoseconds on a CPU of every thread of the processes.
type Work = BTreeMap<String, u64>;

fn work(token: &str) -> Work {
    let mut work = Work::new();
    for pid in alive(token) {
        for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
            let path = task.path().join("schedstat");
            let text = fs::read_to_string(&path).unwrap();
            let on_cpu = text.split(' ').next().unwrap().parse().unwrap();
            work.insert(path.display().to_string(), on_cpu);
        }
    }
    work
}

/// Whether the last thread has stopped. A signalled thread may still have to be scheduled, only to
/// stop.
fn all_stopped(node: &Node, pad: PadId, token: &str) -> bool {
    if let Some(directory) = &node.cgroup {
        let events = directory.join(format!("pad-{}/cgroup.events", pad.0));
        return fs::read_to_string(events).unwrap().contains("frozen 1");
    }
    let stopped = |path: &String| {
        let stat = fs::read_to_string(path.replace("schedstat", "stat")).unwrap();
        stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))
    };
    work(token).keys().all(stopped)
}

fn own_ns() -> i64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

fn burn(ns: i64) {
    let end = own_ns() + ns;
    while own_ns() < end {
        std::hint::spin_loop();
    }
}

/// Starts a rank that spins in all its threads, children and processes outside of its session.
async fn start_burner(node: &Node, pad: PadId, token: &str) -> PipeReader {
    let script = "$BED burn 2 & (setsid $BED burn 1 &); exec $BED burn 1";
    let mut spec = marked(shell(script), token);
    spec.env.push(("BED".into(), testbed().into()));
    let spec = spec.encode().unwrap();
    let launching = node.handle.launch(pad, PlIndex(0), &spec, &RankSpec::default()).unwrap();
    let mut output = PipeReader::new(launching.ends.stdout.unwrap());
    let mut lines = 0;
    while lines < 3 {
        let bytes = output.read().await.unwrap();
        lines += bytes.iter().filter(|&&byte| byte == b'\n').count();
    }
    output
}

#[tokio::test]
async fn a_stopped_job_does_no_work_until_it_is_resumed() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 1).await;
        let token = unique_cluster();
        let _output = start_burner(&node, PadId(0), &token).await;
        let freezer = node.handle.freezer(PadId(0)).unwrap();
        assert_eq!(matches!(*freezer, Freezer::Cgroup(_)), node.cgroup.is_some());
        for _ in 0..3 {
            freezer.stop().unwrap();
            until("the job stands still", || all_stopped(&node, PadId(0), &token));
            let before = work(&token);
            // Three main threads and four that spin.
            assert_eq!(before.len(), 7);
            burn(OWN_WORK_NS);
            assert_eq!(work(&token), before);
            freezer.resume().unwrap();
            until("every process goes on", || {
                let now = work(&token);
                before.iter().filter(|(thread, ns)| now[*thread] > **ns).count() >= 4
            });
        }
        node.handle.destroy(PadId(0)).unwrap();
        while !matches!(node.next().await, Event::PadClean { .. }) {}
        assert_eq!(alive(&token), [0; 0]);
        node.shut_down().await;
    }
}

#[tokio::test]
async fn a_switch_exchanges_two_jobs() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 1).await;
        node.handle.make_pads(1).unwrap();
        node.until_ready(PadId(1)).await;
        let tokens = [unique_cluster(), unique_cluster()];
        let pads = [PadId(0), PadId(1)];
        let _outputs = [
            start_burner(&node, pads[0], &tokens[0]).await,
            start_burner(&node, pads[1], &tokens[1]).await,
        ];
        let freezers = pads.map(|pad| node.handle.freezer(pad).unwrap());
        for round in 0..6 {
            let (old, new) = (round % 2, (round + 1) % 2);
            switch([&*freezers[old]], [&*freezers[new]]).unwrap();
            until("the old job stands still", || all_stopped(&node, pads[old], &tokens[old]));
            let [old_before, new_before] = [work(&tokens[old]), work(&tokens[new])];
            until("the new job works", || {
                let now = work(&tokens[new]);
                new_before.iter().filter(|(thread, ns)| now[*thread] > **ns).count() >= 4
            });
            assert_eq!(work(&tokens[old]), old_before);
        }
        node.shut_down().await;
        for token in &tokens {
            assert_eq!(alive(token), [0; 0]);
        }
    }
}

#[tokio::test]
async fn stopping_and_resuming_twice_changes_nothing() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 1).await;
        let freezer = node.handle.freezer(PadId(0)).unwrap();
        for _ in 0..2 {
            freezer.stop().unwrap();
        }
        for _ in 0..2 {
            freezer.resume().unwrap();
        }
        let outcome = node.run(&shell("exit 4"), &RankSpec::default()).await;
        assert_eq!(outcome.status(), storm_pl::ExitStatus::Code(4));
        node.shut_down().await;
    }
}

#[tokio::test]
async fn a_job_that_keeps_forking_is_stopped_whole() {
    for mechanism in BOTH {
        let node = Node::start(mechanism, 1).await;
        let token = unique_cluster();
        let progress = tempfile::NamedTempFile::new().unwrap();
        let size = || progress.as_file().metadata().unwrap().len();
        let spec = marked(shell("while :; do echo x; (exit 0); done"), &token).encode().unwrap();
        let stdout = Output::File { path: progress.path().into(), append: true };
        let rank = RankSpec { stdout, ..RankSpec::default() };
        let _launching = node.handle.launch(PadId(0), PlIndex(0), &spec, &rank).unwrap();
        until("the job works", || size() > 0);
        let freezer = node.handle.freezer(PadId(0)).unwrap();
        for _ in 0..20 {
            freezer.stop().unwrap();
            until("the job stands still", || all_stopped(&node, PadId(0), &token));
            let before = size();
            burn(OWN_WORK_NS / 10);
            assert_eq!(size(), before);
            freezer.resume().unwrap();
            until("the job goes on", || size() > before);
        }
        node.shut_down().await;
        assert_eq!(alive(&token), [0; 0]);
    }
}

#[tokio::test]
async fn a_freezer_of_a_pad_that_is_gone_says_so_or_finds_nothing() {
    let node = Node::start(Mechanism::Cgroup, 1).await;
    let freezer = node.handle.freezer(PadId(0)).unwrap();
    let by_cgroup = matches!(*freezer, Freezer::Cgroup(_));
    node.shut_down().await;
    assert_eq!(freezer.stop().is_err(), by_cgroup);
    assert_eq!(switch([&*freezer], [&*freezer]).is_err(), by_cgroup);
}
