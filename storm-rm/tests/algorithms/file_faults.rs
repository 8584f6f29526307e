//! Algorithms 6 and 7 while nodes fail: full disks, deaths at every step,
//! transfers given up half-way. Nothing hangs, and nobody is blamed for another.

use crate::cluster::{Cluster, small_plan};
use crate::file::{Disks, Sender, content, start_receivers};
use crate::seeds::for_seeds;
use std::time::Duration;
use storm_primitives::{NodeId, NodeSet, PrimitiveError, Primitives, Runtime};
use storm_rm::file_transfer::TransferError;
use storm_rm::remote_queue::EnqueueError;

/// The dead that an error names.
fn dead_of(error: &TransferError) -> Option<&NodeSet> {
    match error {
        TransferError::Network(PrimitiveError::NodesDead { nodes })
        | TransferError::Enqueue(EnqueueError::Network(PrimitiveError::NodesDead { nodes })) => {
            Some(nodes)
        }
        _ => None,
    }
}

#[test]
fn a_failing_disk_is_named_and_the_others_have_the_file() {
    for_seeds(200, |seed| {
        let plan = small_plan(5);
        let cluster = Cluster::new(seed, 5, &plan.layout);
        let (disks, file) = (Disks::default(), content(seed, 400));
        let failing = match seed % 3 {
            0 => cluster.some_nodes(),
            _ => NodeSet::single(NodeId(1 + cluster.below(5) as u32)),
        };
        // Any of the seven writes, or the check at the end.
        failing.iter().for_each(|node| disks.fail(node, cluster.below(8)));
        start_receivers(&cluster, &plan, &disks);
        let (mut sender, everyone) = (Sender::new(&cluster, &plan), cluster.compute());
        let sent = file.clone();
        let outcome = cluster.run(async move { sender.send(&everyone, &sent).await });
        match outcome {
            Err(TransferError::NotWritten { nodes }) => assert_eq!(nodes, failing),
            outcome => panic!("{outcome:?}"),
        }
        for node in cluster.compute().iter() {
            assert_eq!(disks.has(node, &file), !failing.contains(node), "{node}");
        }
    });
}

/// A node dies when it has taken `steps` steps. Either the error names it or all
/// survivors have the file; afterwards they can be sent another through the same
/// channel.
fn death_at(seed: u64, victim: NodeId, steps: u64) -> bool {
    let plan = small_plan(3);
    let cluster = Cluster::new(seed, 3, &plan.layout);
    let (disks, first, second) = (Disks::default(), content(seed, 350), content(seed + 1, 200));
    start_receivers(&cluster, &plan, &disks);
    cluster.network.kill_after(victim, steps);
    let (mut sender, everyone) = (Sender::new(&cluster, &plan), cluster.compute());
    let survivors = everyone.difference(&NodeSet::single(victim));
    let (left, stored, others) = (survivors.clone(), disks.clone(), second.clone());
    let failed = cluster.run(async move {
        let outcome = sender.send(&everyone, &first).await;
        match &outcome {
            Ok(_) => assert!(left.iter().all(|node| stored.has(node, &first))),
            Err(error) => {
                assert_eq!(dead_of(error), Some(&NodeSet::single(victim)), "{error:?}");
            }
        }
        sender.send(&left, &others).await.expect("the survivors are well");
        outcome.is_err()
    });
    for node in survivors.iter() {
        assert!(disks.has(node, &second), "{node} after {steps} steps of {victim}");
    }
    failed
}

#[test]
fn a_death_at_any_step_is_named_or_does_no_harm() {
    for_seeds(12, |seed| {
        let victim = NodeId(1 + seed as u32 % 3);
        let failures = (0..120).filter(|steps| death_at(seed, victim, *steps)).count();
        // The range of steps must cover the transfer, and more.
        assert!(failures > 10 && failures < 120, "{failures} of 120 transfers failed");
    });
}

#[test]
fn deaths_of_several_nodes_at_random_times_never_hang() {
    for_seeds(300, |seed| {
        let plan = small_plan(6);
        let cluster = Cluster::new(seed, 6, &plan.layout);
        let (disks, file) = (Disks::default(), content(seed, 500));
        start_receivers(&cluster, &plan, &disks);
        let doomed = cluster.some_nodes();
        doomed.iter().for_each(|node| cluster.network.kill_after(node, cluster.below(80)));
        let (mut sender, everyone) = (Sender::new(&cluster, &plan), cluster.compute());
        let (blamed, sent) = (doomed.clone(), file.clone());
        let done = cluster.run(async move {
            let mut set = everyone;
            while !set.is_empty() {
                match sender.send(&set, &sent).await {
                    Ok(_) => break,
                    Err(error) => {
                        let dead = dead_of(&error).expect("only deaths are in the way");
                        assert!(!dead.is_empty() && dead.is_subset(&blamed), "{error:?}");
                        set = set.difference(dead);
                    }
                }
            }
            set
        });
        assert!(cluster.compute().difference(&doomed).is_subset(&done));
        for node in cluster.compute().difference(&doomed).iter() {
            assert!(disks.has(node, &file), "{node}");
        }
    });
}

#[test]
fn a_transfer_given_up_half_way_does_not_spoil_the_next() {
    for_seeds(300, |seed| {
        let plan = small_plan(4);
        let cluster = Cluster::new(seed, 4, &plan.layout);
        let (disks, last) = (Disks::default(), content(u64::MAX - seed, 333));
        start_receivers(&cluster, &plan, &disks);
        let (mut sender, everyone, world) =
            (Sender::new(&cluster, &plan), cluster.compute(), cluster.clone());
        let sent = last.clone();
        cluster.run(async move {
            let runtime = sender.mm.runtime().clone();
            for attempt in 0..3 {
                let limit = Duration::from_micros(300 + world.below(2500));
                let other = content(seed * 3 + attempt, 900);
                // The announcement is delivered or not: it is not given up.
                let _ = runtime.timeout(limit, sender.send(&everyone, &other)).await;
            }
            sender.send(&everyone, &sent).await.expect("nothing fails");
        });
        assert!(cluster.compute().iter().all(|node| disks.has(node, &last)));
    });
}
