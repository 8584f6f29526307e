//! Limits on the memory of jobs: each run has its own limit, free of charges from the run before.

use std::fs;

use crate::support::{BOTH, Mechanism, Node, config, shell};
use storm_pl::{Keeper, PadId, RankSpec};

const LIMIT_BYTES: u64 = 64 << 20;
/// Runs that each leave more than half of the limit behind.
const RUNS: usize = 3;

/// A node of one ready pad, unless this machine has no memory controller.
async fn node(mechanism: Mechanism) -> Option<Node> {
    let keeper = Keeper::start(&config(mechanism, 2)).unwrap();
    let limits = keeper.limits_memory();
    let mut node = Node::attach(keeper);
    node.handle.make_pads(1).unwrap();
    node.until_ready(PadId(0)).await;
    match limits {
        Ok(()) => Some(node),
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            node.shut_down().await;
            None
        }
    }
}

#[tokio::test]
async fn files_in_memory_that_a_run_leaves_count_against_no_other() {
    for mechanism in BOTH {
        let Some(mut node) = node(mechanism).await else { return };
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().display();
        for run in 0..RUNS {
            node.handle.limit_memory(PadId(0), Some(LIMIT_BYTES)).unwrap();
            let script = format!("head -c 40000000 /dev/zero > {path}/{run}");
            let outcome = node.run(&shell(&script), &RankSpec::default()).await;
            assert!(outcome.status().success(), "run {run} by {mechanism:?}: {outcome:?}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), RUNS);
        node.shut_down().await;
    }
}

#[tokio::test]
async fn a_limit_holds_for_its_run_and_for_no_other() {
    for mechanism in BOTH {
        let Some(mut node) = node(mechanism).await else { return };
        let much = shell("head -c 200000000 /dev/zero | tail -c 150000000 | wc -c");
        for (limit, fits) in [(Some(LIMIT_BYTES), false), (None, true), (Some(LIMIT_BYTES), false)]
        {
            node.handle.limit_memory(PadId(0), limit).unwrap();
            let encoded = much.encode().unwrap();
            let outcome = node.run_only(&encoded, &RankSpec::default()).await;
            assert_eq!(outcome.stdout().trim() == "150000000", fits, "{mechanism:?} {limit:?}");
            let killed = node.handle.memory_kills(PadId(0)) > 0;
            assert_eq!(killed, !fits, "{mechanism:?} {limit:?}");
            node.handle.release(PadId(0)).unwrap();
            node.until_ready(PadId(0)).await;
        }
        node.shut_down().await;
    }
}
