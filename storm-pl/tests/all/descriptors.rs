//! Descriptors: how many each element needs, and the behaviour when there are none left.
//!
//! Limits apply to a whole process, and other tests run in this process. Each test of this module
//! therefore runs once more in a process of its own, and lowers the limits there.

use std::fs;
use std::future::Future;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;

use crate::support::{self, BOTH, Mechanism, Node, shell};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use storm_pl::{
    Errno, Event, Input, Keeper, LaunchError, LaunchSpec, Output, PadId, PadStep, PlIndex, RankSpec,
};

/// Marks the process that is to run out of descriptors.
const ALONE: &str = "STORM_TEST_DESCRIPTORS_ALONE";
const PAD: PadId = PadId(0);
const EMFILE: Errno = Errno(libc::EMFILE);

/// Runs a test of this file in a process of its own.
fn alone(name: &str, test: impl Future<Output = ()>) {
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.unwrap().block_on(test);
    }
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("descriptors::{name}"), "--test-threads=1", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

fn open_of(process: impl std::fmt::Display) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// Counts the descriptors of this process, which may have no room for another to list them.
fn open() -> usize {
    // SAFETY: F_GETFD takes no argument and changes nothing.
    (0..4096).filter(|&fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1).count()
}

/// Descriptors of a keeper with `pads` pads: standard streams, control socket, signals. With
/// cgroups also the lock of the node and three files of each pad.
fn kept_by(node: &Node, pads: usize) -> usize {
    5 + node.cgroup.as_ref().map_or(0, |_| 1 + 3 * pads)
}

fn set_limit(limit: u64) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, limit, limit.min(hard)).unwrap();
}

/// Takes descriptors until `number` is taken.
fn take_up_to(number: i32) -> Vec<OwnedFd> {
    let mut taken: Vec<OwnedFd> = Vec::new();
    while taken.last().is_none_or(|last| last.as_raw_fd() < number) {
        taken.push(fs::File::open("/dev/null").unwrap().into());
    }
    taken
}

/// A script with a PMI connection.
fn with_pmi(script: &str) -> LaunchSpec {
    LaunchSpec { pmi: true, ..shell(script) }
}

fn silent() -> RankSpec {
    RankSpec { stdout: Output::Null, stderr: Output::Null, ..RankSpec::default() }
}

#[test]
fn a_waiting_pl_costs_one_descriptor_and_a_rank_what_it_uses() {
    alone("a_waiting_pl_costs_one_descriptor_and_a_rank_what_it_uses", async {
        for mechanism in BOTH {
            let mut node = Node::start(mechanism, 8).await;
            let empty = open();
            let pad = node.handle.make_pad(8).unwrap();
            node.until_ready(pad).await;
            // One more for the pad's freezer, or the socket of its keeper.
            assert_eq!(open(), empty + 8 + 1, "{mechanism:?}");
            support::until("the keeper rests", || open_of(node.pid) == kept_by(&node, 2));
            let spec = with_pmi("exec sleep 1000").encode().unwrap();
            let both = RankSpec { stdin: Input::Pipe, ..RankSpec::default() };
            // The command socket is closed. This process has both ends of the rank's output.
            for (pl, rank, more) in [(0, silent(), 2), (1, RankSpec::default(), 6), (2, both, 7)] {
                let before = open();
                let pl = PlIndex(pl);
                let launching = node.handle.launch(PAD, pl, &spec, &rank).unwrap();
                assert_eq!(node.next().await, Event::Launched { pad: PAD, pl });
                assert_eq!(open(), before - 1 + more, "{mechanism:?} {pl:?}");
                // The rank's loader opens libraries, one at a time.
                let pid = launching.pid;
                support::until("it has standard streams and PMI only", || open_of(pid) == 4);
                std::mem::forget(launching);
            }
            node.shut_down().await;
        }
    });
}

#[test]
fn a_pad_without_descriptors_fails_and_is_filled_when_there_are() {
    alone("a_pad_without_descriptors_fails_and_is_filled_when_there_are", async {
        for mechanism in BOTH {
            let keeper = Keeper::start(&support::config(mechanism, 16)).unwrap();
            set_limit(128);
            let mut node = Node::attach(keeper);
            let at_rest = open();
            // The whole reserve is free, then only room for some sockets, then nothing.
            for number in [112, 104, 127] {
                let taken = take_up_to(number);
                let pad = node.handle.make_pad(16).unwrap();
                let failed = Event::PadFailed { pad, step: PadStep::Handover, errno: EMFILE };
                // The freezer is opened before the socket is checked.
                match node.next().await {
                    Event::PadFailed { step: PadStep::Freezer, errno: EMFILE, .. } => {}
                    other => assert_eq!(other, failed, "{mechanism:?} {number}"),
                }
                drop(taken);
                node.handle.release(pad).unwrap();
                node.until_ready(pad).await;
                assert_eq!(node.handle.waiting(pad).len(), 16);
                let spec = shell("exit 3").encode().unwrap();
                let launching = node.handle.launch(pad, PlIndex(15), &spec, &silent()).unwrap();
                assert!(matches!(node.next().await, Event::Launched { .. }));
                assert!(matches!(node.next().await, Event::Exited { .. }));
                node.handle.discard(pad).unwrap();
                drop(launching);
                assert_eq!(open(), at_rest, "{mechanism:?} {number}");
            }
            node.shut_down().await;
        }
    });
}

#[test]
fn a_launch_without_descriptors_fails_alone() {
    alone("a_launch_without_descriptors_fails_alone", async {
        for mechanism in BOTH {
            let keeper = Keeper::start(&support::config(mechanism, 2)).unwrap();
            set_limit(128);
            let mut node = Node::attach(keeper);
            node.handle.make_pads(1).unwrap();
            node.until_ready(PAD).await;
            let (spec, rank) = (with_pmi("echo here").encode().unwrap(), RankSpec::default());
            for number in [108, 111, 125, 126, 127] {
                let taken = take_up_to(number);
                let before = open();
                let error = node.handle.launch(PAD, PlIndex(0), &spec, &rank).unwrap_err();
                let LaunchError::Streams(why) = &error else { panic!("{error}") };
                assert_eq!(why.raw_os_error(), Some(libc::EMFILE));
                let text = error.to_string();
                assert!(
                    text.contains("128 descriptors") && text.contains("LimitNOFILE="),
                    "{text}"
                );
                assert_eq!(open(), before, "what was made is closed");
                assert_eq!(node.handle.waiting(PAD).len(), 2, "the PL waits on");
                drop(taken);
            }
            assert_eq!(node.run(&with_pmi("echo here"), &rank).await.stdout(), "here\n");
            node.shut_down().await;
        }
    });
}

#[test]
fn ends_of_streams_are_not_held_twice_where_descriptors_are_few() {
    alone("ends_of_streams_are_not_held_twice_where_descriptors_are_few", async {
        let keeper = Keeper::start(&support::config(Mechanism::Cgroup, 1)).unwrap();
        set_limit(128);
        let mut node = Node::attach(keeper);
        node.handle.make_pads(1).unwrap();
        node.until_ready(PAD).await;
        let spec = with_pmi("exit 0").encode().unwrap();
        for (taken, held) in [(0, 3), (64, 0)] {
            let taken = take_up_to(taken);
            let launching = node.handle.launch(PAD, PlIndex(0), &spec, &RankSpec::default());
            assert_eq!(launching.unwrap().own.count(), held);
            drop(taken);
            assert!(matches!(node.next().await, Event::Launched { .. }));
            assert!(matches!(node.next().await, Event::Exited { .. }));
            node.handle.release(PAD).unwrap();
            node.until_ready(PAD).await;
        }
        node.shut_down().await;
    });
}

#[test]
fn a_keeper_without_descriptors_makes_pads_again_when_it_has_some() {
    alone("a_keeper_without_descriptors_makes_pads_again_when_it_has_some", async {
        for mechanism in BOTH {
            let mut node = Node::start(mechanism, 2).await;
            let at_rest = kept_by(&node, 1);
            support::until("the keeper rests", || open_of(node.pid) == at_rest);
            // The shortage hits the first file of the pad, its last file, and the first socket.
            for more in [0, 2, 3] {
                let hard = support::limit_other(node.pid, (at_rest + more) as u64).unwrap();
                let pad = node.handle.make_pad(2).unwrap();
                match node.next().await {
                    Event::PadFailed { pad: failed, errno: EMFILE, .. } if failed == pad => {}
                    // The pad's own keeper cannot do without the descriptor.
                    Event::PadLost { .. } if mechanism == Mechanism::Signals => {
                        support::limit_other(node.pid, hard).unwrap();
                        continue;
                    }
                    // A pad with a keeper of its own needs no more descriptors.
                    Event::Ready { .. } if mechanism == Mechanism::Signals && more > 0 => {}
                    other => panic!("{mechanism:?} {more}: {other:?}"),
                }
                support::limit_other(node.pid, hard).unwrap();
                node.handle.release(pad).unwrap();
                node.until_ready(pad).await;
                node.handle.discard(pad).unwrap();
                let directory =
                    node.cgroup.as_ref().map(|node| node.join(format!("pad-{}", pad.0)));
                support::until("the pad is gone", || {
                    open_of(node.pid) == at_rest && directory.as_ref().is_none_or(|it| !it.exists())
                });
            }
            assert!(node.run(&shell("exit 0"), &silent()).await.status().success());
            node.shut_down().await;
        }
    });
}

#[test]
fn ranks_have_the_limit_that_was_raised_for_the_daemon() {
    alone("ranks_have_the_limit_that_was_raised_for_the_daemon", async {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 300, hard.min(900)).unwrap();
        for mechanism in BOTH {
            let mut node = Node::start(mechanism, 1).await;
            let soft = |process: String| {
                let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
                let line = limits.lines().find(|line| line.starts_with("Max open files"));
                line.unwrap().split_whitespace().nth(3).unwrap().to_owned()
            };
            assert_eq!(soft("self".into()), "900");
            assert_eq!(soft(node.pid.to_string()), "900");
            let outcome = node.run(&shell("ulimit -n; ulimit -Hn"), &RankSpec::default()).await;
            assert_eq!(outcome.stdout(), "300\n900\n");
            node.shut_down().await;
            setrlimit(Resource::RLIMIT_NOFILE, 300, hard.min(900)).unwrap();
        }
    });
}
