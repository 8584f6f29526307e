//! Launches: what an application sees, how its end is reported, and what a failed step says.

mod support;

use storm_pl::{ExitStatus, RankSpec};
use support::{BOTH, Node, shell};

#[tokio::test]
async fn every_exit_code_arrives() {
    for mechanism in BOTH {
        let mut node = Node::start(mechanism, 1).await;
        for code in 0..=255u8 {
            let outcome = node.run(&shell(&format!("exit {code}")), &RankSpec::default()).await;
            assert_eq!(outcome.status(), ExitStatus::Code(code));
        }
        node.shut_down().await;
    }
}
