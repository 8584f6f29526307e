//! Pads have as many processes as they were asked to, and no more than fit.

use crate::support::{BOTH, Node, shell};
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
