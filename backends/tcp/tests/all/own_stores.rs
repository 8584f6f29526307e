//! A node's operations are ordered before everything that follows from its later stores. The order
//! holds in any tree, for any order of messages, and while the tree changes.

use crate::engine_world::World;
use bytes::Bytes;
use proptest::prelude::*;
use rand::RngExt;
use storm_backend_tcp::wire::{Primitive, RequestId};
use storm_primitives::{CompareAndWrite, Layout, NodeId, NodeSet, Relation};

const ROUNDS: u64 = 8;

fn put(
    world: &mut World,
    by: NodeId,
    dest: &NodeSet,
    addr: storm_primitives::GlobalAddr,
    value: u64,
) -> RequestId {
    let data = Bytes::copy_from_slice(&value.to_ne_bytes());
    let primitive = Primitive::Xfer { dest: dest.clone(), addr, len: 8, event: None };
    world.issue(by, primitive, data)
}

fn some_steps(world: &mut World) {
    let steps = world.rng().random_range(0..30);
    for _ in 0..steps {
        world.step();
    }
}

/// One node issues an operation, then stores. Another node compares the stored variable, and issues
/// an operation when it gets TRUE. The second operation must be the last on every node. Other nodes
/// may die.
fn scenario(seed: u64, nodes: u32, deaths: u32, mutant: bool) -> Result<(), TestCaseError> {
    let mut builder = Layout::builder();
    let words = builder.vars::<u64>("words", ROUNDS as u32);
    let flag = builder.var::<u64>("flag");
    let mut world = World::new(seed, builder.build(), nodes, 0);
    world.forgets_issued = mutant;
    let (mut left, mut seconds) = (deaths, Vec::new());
    for round in 0..ROUNDS {
        let alive: Vec<NodeId> = world.alive().iter().collect();
        let draw = |world: &mut World| alive[world.rng().random_range(0..alive.len())];
        let (by, asker) = (draw(&mut world), draw(&mut world));
        let (dest, addr) = (world.alive(), words.get(round as u32).addr());
        put(&mut world, by, &dest, addr, 1);
        world.memory(by).store(flag, round + 1);
        if left > 0 && world.rng().random_bool(0.5) {
            let victim = alive.iter().find(|node| ![NodeId::MM, by, asker].contains(node));
            left -= 1;
            victim.into_iter().for_each(|victim| world.kill(*victim));
        }
        let set = NodeSet::single(by);
        let ask = CompareAndWrite::new(set, flag, Relation::GreaterOrEqual, round + 1);
        let asked = world.issue(asker, Primitive::Compare(ask), Bytes::new());
        while !world.outcomes.contains_key(&(asker, asked)) {
            prop_assert!(world.step(), "no answer in round {}", round);
        }
        // Before any more messages arrive.
        prop_assert_eq!(&world.outcomes[&(asker, asked)], &Ok(true));
        let dest = world.alive();
        seconds.push((asker, put(&mut world, asker, &dest, addr, 2)));
        some_steps(&mut world);
    }
    world.run_to_rest();
    for (round, second) in (0..).zip(seconds) {
        // If the initiator did not know that a destination was dead, the operation fails and writes
        // nowhere.
        let is_everywhere = world.outcomes.get(&second) == Some(&Ok(true));
        prop_assert!(is_everywhere || deaths > 0, "no outcome in round {}", round);
        for node in world.alive().iter().filter(|_| is_everywhere) {
            let seen = world.memory(node).load(words.get(round));
            prop_assert_eq!(seen, 2, "on {} in round {}", node, round);
        }
    }
    Ok(())
}

#[test]
fn a_root_that_does_not_wait_is_caught() {
    let wrong = (0..50).filter(|seed| scenario(*seed, 6, 0, true).is_err()).count();
    assert!(wrong > 10, "only {wrong} of 50 seeds");
}

proptest! {
    #[test]
    fn are_found_behind_what_was_issued_before(seed in any::<u64>(), nodes in 1u32..12) {
        scenario(seed, nodes, 0, false)?;
    }

    #[test]
    fn are_answered_for_though_nodes_die(seed in any::<u64>(), nodes in 3u32..12) {
        scenario(seed, nodes, 2, false)?;
    }
}
