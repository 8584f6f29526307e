//! Pads have as many processes as requested, and no more than fit.

use crate::support::{BOTH, HANG, Node, shell};
use std::path::Path;
use storm_pl::{Event, PlIndex, RankSpec};

#[tokio::test]
async fn a_pad_has_as_many_processes_as_it_was_made_for() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 3).await;
        let pad = node.handle.make_pad(1).unwrap();
        node.until_ready(pad).await;
        assert_eq!(node.handle.waiting(pad), [PlIndex(0)]);
        let spec = shell("exit 0").encode().unwrap();
        let rank = RankSpec::default();
        let _launching = node.handle.launch(pad, PlIndex(0), &spec, &rank).unwrap();
        assert!(matches!(node.next().await, Event::Launched { .. }));
        assert!(matches!(node.next().await, Event::Exited { .. }));
        for (asked, given) in [(0, 1), (2, 2), (1, 2), (9, 3)] {
            node.handle.enlarge(pad, asked).unwrap();
            node.handle.release(pad).unwrap();
            node.until_ready(pad).await;
            assert_eq!(node.handle.waiting(pad).len(), given, "asked for {asked}");
        }
        node.handle.destroy(pad).unwrap();
        loop {
            match node.next().await {
                Event::Ready { .. } => break,
                Event::PadClean { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(node.handle.waiting(pad).len(), 3);
        node.shut_down().await;
    }
}

/// The processes of a pad that could not be filled used to wait until their node ended.
#[tokio::test]
async fn a_pad_that_is_given_up_leaves_no_process_and_says_nothing_more() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 2).await;
        let pad = node.handle.make_pad(2).unwrap();
        node.until_ready(pad).await;
        let spec = shell("exec sleep 1000").encode().unwrap();
        let launching = node.handle.launch(pad, PlIndex(0), &spec, &RankSpec::default()).unwrap();
        assert!(matches!(node.next().await, Event::Launched { .. }));
        let stat = format!("/proc/{}/stat", launching.pid.0);
        let parent = std::fs::read_to_string(&stat).unwrap();
        let parent: i32 =
            parent.rsplit(')').next().unwrap().split(' ').nth(2).unwrap().parse().unwrap();
        let children = format!("/proc/{parent}/task/{parent}/children");
        node.handle.discard(pad).unwrap();
        assert_eq!(node.handle.size(pad), 0);
        assert!(node.handle.release(pad).is_err() && node.handle.discard(pad).is_err());
        let own_keeper = parent != node.pid;
        tokio::time::timeout(HANG, async {
            // The first pad's processes stay.
            let left = || std::fs::read_to_string(&children).unwrap_or_default();
            let gone =
                || if own_keeper { left().is_empty() } else { left().split(' ').count() <= 3 };
            while Path::new(&stat).exists() || !gone() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("they end");
        // The next event is of another pad.
        let other = node.handle.make_pad(1).unwrap();
        node.until_ready(other).await;
        node.shut_down().await;
    }
}
