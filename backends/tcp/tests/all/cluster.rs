//! A cluster in one process: joins, the three primitives with small and large data, and the effects
//! of a death.

use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;
use storm_backend_tcp::TcpPrimitives;
use storm_backend_tcp::{JoinError, NameTable, Node, NodeConfig, Refusal, Root, RootConfig};
use storm_primitives::{
    CompareAndWrite, Incarnation, Layout, NodeId, NodeSet, PrimitiveError, Primitives, Region,
    Relation, Runtime, Var, Xfer,
};

const BULK_BYTES: u64 = 20 << 20;

struct Plan {
    layout: Layout,
    word: Var<u64>,
    bulk: Region,
    event: storm_primitives::EventId,
}

fn plan() -> Plan {
    let mut builder = Layout::builder();
    let word = builder.var("word");
    let bulk = builder.region("bulk", BULK_BYTES);
    let event = builder.event("event");
    Plan { layout: builder.build(), word, bulk, event }
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn run<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, body)
}

async fn cluster(plan: &Plan, nodes: u32) -> (Root, Vec<TcpPrimitives>) {
    let names = NameTable::open(nodes);
    let mut config = RootConfig::new(loopback(), plan.layout.clone(), names);
    config.fanout = 2;
    let root = Root::bind(config).expect("a port");
    let mut handles = vec![root.handle()];
    for index in 0..nodes {
        handles.push(join(&root, plan, &format!("host{index}")).await.expect("joins"));
    }
    (root, handles)
}

async fn join(root: &Root, plan: &Plan, name: &str) -> Result<TcpPrimitives, JoinError> {
    let layout = plan.layout.clone();
    Node::join(NodeConfig::new(root.local_addr(), name, loopback(), layout)).await
}

fn pattern(len: u64) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8).collect()
}

#[test]
fn small_and_large_transfers_reach_all_and_signal() {
    run(async {
        let plan = plan();
        let (_root, nodes) = cluster(&plan, 9).await;
        let all = NodeSet::range(NodeId::MM, NodeId(9));
        for initiator in [0, 7] {
            for len in [0, 8, 8 << 10, (8 << 10) + 1, 1 << 20, BULK_BYTES] {
                let data = pattern(len);
                let xfer = Xfer::new(all.clone(), plan.bulk.addr, data.clone());
                let status = nodes[initiator].xfer_and_wait(xfer.signal_remote(plan.event)).await;
                assert_eq!(status, Ok(()));
                for node in &nodes {
                    assert_eq!(node.test_event(plan.event), Some(Ok(())), "{node:?} {len}");
                    let seen = node.memory().read_vec(plan.bulk.addr, len as usize);
                    assert!(seen.expect("in bounds") == data, "{node:?} {len}");
                    assert!(initiator != 0 || node.node() == NodeId::MM || node.held_bytes() == 0);
                }
            }
        }
    });
}

#[test]
fn compare_and_write_asks_all_and_writes_all_or_none() {
    run(async {
        let plan = plan();
        let (_root, nodes) = cluster(&plan, 6).await;
        let set = NodeSet::compute(6);
        let caw = |value| {
            CompareAndWrite::new(set.clone(), plan.word, Relation::Equal, value)
                .then_write(plan.word, value + 1)
        };
        assert_eq!(nodes[0].compare_and_write(caw(0)).await, Ok(true));
        assert_eq!(nodes[3].compare_and_write(caw(1)).await, Ok(true));
        assert_eq!(nodes[5].compare_and_write(caw(1)).await, Ok(false));
        nodes[4].memory().store(plan.word, 7);
        assert_eq!(nodes[0].compare_and_write(caw(2)).await, Ok(false));
        let seen: Vec<u64> = nodes.iter().map(|node| node.memory().load(plan.word)).collect();
        assert_eq!(seen, [0, 2, 2, 2, 7, 2, 2]);
    });
}

#[test]
fn a_dead_inner_node_is_named_and_its_children_work_on() {
    run(async {
        let plan = plan();
        let (root, nodes) = cluster(&plan, 14).await;
        let all = NodeSet::compute(14);
        let mm = &nodes[0];
        nodes[1].shut_down();
        let gone = async {
            while mm.membership().incarnation(NodeId(1)).is_some() {
                mm.membership().changed(mm.membership().epoch()).await;
            }
        };
        mm.runtime().timeout(Duration::from_secs(5), gone).await.expect("noticed");
        let xfer = |dest| Xfer::new(dest, plan.bulk.addr, pattern(1 << 20));
        let dead = PrimitiveError::NodesDead { nodes: NodeSet::single(NodeId(1)) };
        assert_eq!(mm.xfer_and_wait(xfer(all.clone())).await, Err(dead));
        let rest = all.difference(&NodeSet::single(NodeId(1)));
        assert_eq!(nodes[9].xfer_and_wait(xfer(rest.clone())).await, Ok(()));
        let again = join(&root, &plan, "host0").await.expect("joins again");
        assert_eq!((again.node(), again.incarnation().0), (NodeId(1), 2));
        assert_eq!(mm.xfer_and_wait(xfer(all)).await, Ok(()));
    });
}

#[test]
fn a_node_that_ends_and_one_that_goes_on_without_its_root_are_told_apart() {
    run(async {
        let plan = plan();
        let mut config = RootConfig::new(loopback(), plan.layout.clone(), NameTable::open(2));
        // The root never pings an idle node.
        config.patience.keepalive = Duration::from_secs(3600);
        let root = Root::bind(config).expect("a port");
        let mm = root.handle();
        let mut goes_on =
            NodeConfig::new(root.local_addr(), "goes-on", loopback(), plan.layout.clone());
        goes_on.root_timeout = Duration::from_millis(80);
        let ends = join(&root, &plan, "ends").await.expect("joins");
        let goes_on = Node::join(goes_on).await.expect("joins");
        ends.shut_down();
        goes_on.closed().await;
        let gone = async {
            while mm.membership().alive().len() > 1 {
                mm.membership().changed(mm.membership().epoch()).await;
            }
        };
        mm.runtime().timeout(Duration::from_secs(5), gone).await.expect("noticed");
        let known = |node: &TcpPrimitives| {
            mm.membership().has_process_ended(node.node(), node.incarnation())
        };
        assert!(known(&ends), "nothing of it goes on");
        assert!(!known(&goes_on), "it lives, and found nobody to talk to");
    });
}

/// A joining node that was dropped once counted as an ended process, so its jobs were soon started
/// elsewhere.
#[test]
fn a_node_that_gives_up_joining_has_not_died() {
    run(async {
        let plan = plan();
        let root = Root::bind(RootConfig::new(loopback(), plan.layout.clone(), NameTable::open(1)));
        let root = root.expect("a port");
        let mut given_up = 0;
        let last = loop {
            let mut attempt = Box::pin(join(&root, &plan, "hesitant"));
            let mut looks = 0;
            let joined = std::future::poll_fn(|context| match attempt.as_mut().poll(context) {
                Poll::Ready(joined) => Poll::Ready(Some(joined)),
                Poll::Pending if looks == given_up => Poll::Ready(None),
                Poll::Pending => {
                    looks += 1;
                    Poll::Pending
                }
            });
            match joined.await {
                Some(joined) => break joined.expect("joins at last"),
                None => given_up += 1,
            }
        };
        assert!(given_up > 1, "it was dropped while it waited for an answer");
        let membership = root.handle().membership().clone();
        assert!(last.incarnation() > Incarnation(1), "some attempts were heard");
        for life in 1..last.incarnation().0 {
            assert!(!membership.has_process_ended(last.node(), Incarnation(life)), "{life}");
        }
    });
}

#[test]
fn a_node_with_another_layout_is_told_both() {
    run(async {
        let plan = plan();
        let (root, nodes) = cluster(&plan, 1).await;
        let mut other = Layout::builder();
        other.event("other");
        let other = other.build();
        let config = NodeConfig::new(root.local_addr(), "x", loopback(), other.clone());
        match Node::join(config).await {
            Err(JoinError::Refused(Refusal::Layout { root, node, .. })) => {
                assert_eq!((root, node), (plan.layout.hash(), other.hash()));
            }
            other => panic!("{other:?}"),
        }
        let xfer = Xfer::new(NodeSet::compute(1), plan.word.addr(), vec![1; 8]);
        assert_eq!(nodes[0].xfer_and_wait(xfer).await, Ok(()));
    });
}

#[test]
fn a_node_whose_root_is_gone_says_so() {
    run(async {
        let plan = plan();
        let (root, nodes) = cluster(&plan, 2).await;
        drop(root);
        nodes[1].closed().await;
        let xfer = Xfer::new(NodeSet::compute(1), plan.word.addr(), vec![1; 8]);
        assert_eq!(nodes[1].xfer_and_wait(xfer).await, Err(PrimitiveError::Disconnected));
    });
}
