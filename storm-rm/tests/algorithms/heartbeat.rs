//! Algorithms 4 and 5: order, delivery to all or none, repetition to survivors.

use crate::cluster::{Cluster, small_plan, spawn_on};
use crate::seeds::for_seeds;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{NodeId, NodeSet, PrimitiveError, Primitives, Runtime};
use storm_rm::GlobalPlan;
use storm_rm::heartbeat::{
    HeartbeatError, ReceiveHeartbeatError, encoded_bytes, heartbeat_handled, issue_heartbeat,
    receive_heartbeat,
};
use storm_rm::message::{Command, Heartbeat};
use storm_rm::remote_queue::{EnqueueError, Reader, Writer};
use storm_rm::{JobId, RowSet};

type Heard = Rc<RefCell<BTreeMap<NodeId, Vec<u64>>>>;

fn heartbeat(number: u64, set: &NodeSet) -> Heartbeat {
    let command = Command::SetRows { job: JobId(number), rows: RowSet(number) };
    Heartbeat { number, issued_ns: number * 1000, commands: vec![(set.clone(), command)] }
}

/// Every compute node notes the numbers it receives, some time after each.
fn listen(cluster: &Cluster, plan: &GlobalPlan) -> Heard {
    let heard = Heard::default();
    for node in cluster.compute().iter() {
        let (node, plan) = (cluster.network.node(node), plan.clone());
        let (cluster, heard) = (cluster.clone(), heard.clone());
        spawn_on(&node.clone(), async move {
            let mut queue = Reader::new(node.clone(), &plan.heartbeats);
            while let Ok((heartbeat, item)) = receive_heartbeat(&mut queue).await {
                cluster.pause(&node, Duration::from_micros(200)).await;
                heard.borrow_mut().entry(node.node()).or_default().push(heartbeat.number);
                heartbeat_handled(&node, &plan, &heartbeat);
                queue.release(item);
            }
        })
        .detach();
    }
    heard
}

/// Issues `LAST` heartbeats while `deaths` nodes die, each repeated to the
/// survivors until it is delivered.
fn commands_keep_their_order(seed: u64, deaths: u64) {
    const NODES: u32 = 6;
    const LAST: u64 = 30;
    let plan = small_plan(NODES);
    let cluster = Cluster::new(seed, NODES, &plan.layout);
    let heard = listen(&cluster, &plan);
    for _ in 0..deaths {
        let node = NodeId(1 + cluster.below(u64::from(NODES)) as u32);
        cluster.network.kill_after(node, cluster.below(100));
    }
    let (mm, mut set) = (cluster.mm(), cluster.compute());
    let survivors = cluster.run(async move {
        let mut queue = Writer::new(mm.clone(), &plan.heartbeats);
        for number in 1..=LAST {
            loop {
                match issue_heartbeat(&mm, &mut queue, &set, &heartbeat(number, &set)).await {
                    Ok(()) => break,
                    Err(HeartbeatError::NotDelivered(PrimitiveError::NodesDead { nodes })) => {
                        assert!(!nodes.is_empty() && nodes.is_subset(&set), "{nodes} of {set}");
                        set = set.difference(&nodes);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
        mm.runtime().sleep(Duration::from_millis(100)).await;
        set.intersection(&mm.membership().alive())
    });
    let all: Vec<u64> = (1..=LAST).collect();
    for (node, numbers) in heard.borrow().iter() {
        assert_eq!(*numbers, all[..numbers.len()], "{node}");
    }
    for node in survivors.iter() {
        assert_eq!(heard.borrow().get(&node), Some(&all), "{node}");
    }
}

#[test]
fn heartbeats_arrive_in_order_everywhere() {
    for_seeds(200, |seed| commands_keep_their_order(seed, 0));
}

#[test]
fn a_heartbeat_that_met_a_death_reaches_nobody_and_its_repetition_keeps_the_order() {
    for_seeds(300, |seed| commands_keep_their_order(seed, 1 + seed % 4));
}

#[test]
fn more_refused_heartbeats_than_slots_do_not_fill_the_queue() {
    for_seeds(30, |seed| {
        let plan = small_plan(3);
        let cluster = Cluster::new(seed, 3, &plan.layout);
        let heard = listen(&cluster, &plan);
        let (mm, everyone, world) = (cluster.mm(), cluster.compute(), cluster.clone());
        cluster.run(async move {
            let mut queue = Writer::new(mm.clone(), &plan.heartbeats);
            world.kill(NodeId(2));
            while mm.membership().alive().contains(NodeId(2)) {
                mm.runtime().sleep(Duration::from_millis(1)).await;
            }
            for number in 1..=3 * u64::from(plan.heartbeats.slots()) {
                let beat = heartbeat(number, &everyone);
                let refused = issue_heartbeat(&mm, &mut queue, &everyone, &beat).await;
                assert!(matches!(refused, Err(HeartbeatError::NotDelivered(_))));
            }
            let left = everyone.difference(&NodeSet::single(NodeId(2)));
            let beat = heartbeat(99, &left);
            issue_heartbeat(&mm, &mut queue, &left, &beat).await.expect("they live");
            mm.runtime().sleep(Duration::from_millis(10)).await;
        });
        let expected = BTreeMap::from([(NodeId(1), vec![99]), (NodeId(3), vec![99])]);
        assert_eq!(*heard.borrow(), expected);
    });
}

#[test]
fn a_heartbeat_that_does_not_fit_is_refused_and_the_next_is_sent() {
    let plan = small_plan(2);
    let cluster = Cluster::new(5, 2, &plan.layout);
    let heard = listen(&cluster, &plan);
    let (mm, everyone) = (cluster.mm(), cluster.compute());
    cluster.run(async move {
        let mut queue = Writer::new(mm.clone(), &plan.heartbeats);
        let mut large = heartbeat(1, &everyone);
        large.commands = vec![large.commands[0].clone(); 5000];
        let bytes = encoded_bytes(&large).expect("it can be encoded");
        let limit = plan.heartbeats.item_bytes();
        let refused = issue_heartbeat(&mm, &mut queue, &everyone, &large).await;
        assert_eq!(refused, Err(EnqueueError::TooLarge { bytes, limit }.into()));
        let beat = heartbeat(2, &everyone);
        issue_heartbeat(&mm, &mut queue, &everyone, &beat).await.expect("it fits");
        mm.runtime().sleep(Duration::from_millis(10)).await;
    });
    assert_eq!(*heard.borrow(), BTreeMap::from([(NodeId(1), vec![2]), (NodeId(2), vec![2])]));
}

#[test]
fn an_item_that_is_no_heartbeat_is_an_error() {
    let plan = small_plan(1);
    let cluster = Cluster::new(6, 1, &plan.layout);
    let (mm, node, all) = (cluster.mm(), cluster.node(1), cluster.compute());
    let received = cluster.run(async move {
        let mut queue = Writer::new(mm, &plan.heartbeats);
        queue.enqueue(&all, vec![0xff; 40].into()).await.expect("there is space");
        receive_heartbeat(&mut Reader::new(node, &plan.heartbeats)).await.map(drop)
    });
    assert!(matches!(received, Err(ReceiveHeartbeatError::Malformed(_))), "{received:?}");
}
