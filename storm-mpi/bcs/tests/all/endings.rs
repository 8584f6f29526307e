//! A rank that goes ends its job everywhere, and nothing of it stays on the way.

use crate::lockstep::{Dice, Lockstep, collective, member, recv, send};
use storm_bcs::{BcsConfig, BcsError, Collective, JobKey, Number, Outcome, Reduction};
use storm_mpi::ReduceOp;
use storm_primitives::{NodeId, NodeSet};

fn small() -> BcsConfig {
    BcsConfig { link_bytes: 256, collective_bytes: 1024, ..BcsConfig::default() }
}

#[test]
fn a_rank_that_dies_at_any_time_ends_its_job_and_no_other() {
    for seed in 0..200 {
        let mut dice = Dice(seed ^ 0xdead);
        let placement = [1, 2, 2, 3, 4];
        let mut machine = Lockstep::new(seed, 4, small());
        machine.open(0, &placement);
        machine.open(1, &placement);
        let mut waiting = Vec::new();
        let mut others = Vec::new();
        for rank in 0..5u32 {
            let node = placement[rank as usize];
            let (next, before) = ((rank + 1) % 5, (rank + 4) % 5);
            let reduction = Reduction { op: ReduceOp::Sum, number: Number::F64 };
            for (job, kept) in [(0, &mut waiting), (1, &mut others)] {
                let who = member(job, rank);
                let sum = Collective::Reduce { data: vec![0; 3200].into(), reduction, root: None };
                let posts = [
                    send(next, 0, vec![1; 2000]),
                    recv(Some(before), None, 2000),
                    collective(placement.len(), sum),
                ];
                for post in posts {
                    kept.push((who, machine.post(node, who, post)));
                }
                if job == 0 {
                    kept.push((who, machine.post(node, who, recv(Some(next), Some(9), 1))));
                }
            }
        }
        (0..dice.below(25)).for_each(|_| machine.step());
        let victim = dice.below(5) as u32;
        machine.engines[placement[victim as usize] as usize - 1].rank_gone(member(0, victim));
        (0..60).for_each(|_| machine.step());
        let outcomes: Vec<_> = waiting.iter().map(|key| machine.heard.get(key)).collect();
        assert!(outcomes.iter().all(Option::is_some), "seed {seed}: somebody waits for ever");
        let last = |(at, _): &(usize, &Option<_>)| at % 4 == 3;
        let unmatched = outcomes.iter().enumerate().filter(last);
        for (_, outcome) in unmatched {
            assert_eq!(*outcome, Some(&Err(BcsError::RankGone)), "seed {seed}");
        }
        for (who, request) in others {
            assert!(
                machine.outcome(who, request).is_some(),
                "seed {seed}: {who:?} of the other job"
            );
        }
        for node in 0..4 {
            let post = machine.engines[node].post(member(0, node as u32), recv(None, None, 0));
            assert!(post.is_err(), "seed {seed}: the job is over on node {}", node + 1);
        }
    }
}

#[test]
fn a_job_of_a_dead_node_is_over_and_one_without_ranks_there_is_not() {
    let mut machine = Lockstep::new(3, 3, small());
    machine.open(0, &[1, 2]);
    machine.open(1, &[1, 3]);
    let hit = machine.post(1, member(0, 0), recv(Some(1), None, 1));
    let spared = machine.post(1, member(1, 0), recv(Some(1), None, 1));
    machine.step();
    for engine in &mut machine.engines {
        engine.nodes_lost(&NodeSet::single(NodeId(2)));
    }
    machine.post(3, member(1, 1), send(0, 0, vec![5]));
    (0..3).for_each(|_| machine.step());
    assert_eq!(machine.heard[&(member(0, 0), hit)], Err(BcsError::NodeGone));
    let received = machine.outcome(member(1, 0), spared);
    assert!(matches!(received, Some(Outcome::Received { data, .. }) if data == [5]));
}

#[test]
fn a_job_that_is_closed_leaves_its_slots_to_the_next() {
    let mut machine = Lockstep::new(5, 2, small());
    for job in 11..14 {
        let placement: std::rc::Rc<[NodeId]> = [NodeId(1), NodeId(2)].into();
        let job = JobKey(job);
        for engine in &mut machine.engines {
            engine.open_job(job, placement.clone());
        }
        let mut requests = Vec::new();
        for rank in 0..2 {
            let who = member(job.0, rank);
            for _ in 0..3 {
                let barrier = collective(2, Collective::Barrier);
                requests.push((who, machine.post(rank + 1, who, barrier)));
            }
        }
        (0..8).for_each(|_| machine.step());
        for (who, request) in requests {
            assert_eq!(machine.outcome(who, request), Some(Outcome::Done));
        }
        machine.engines.iter_mut().for_each(|engine| engine.close_job(job));
        machine.step();
    }
}

/// A sum of several slices on each of three nodes.
fn summing(machine: &mut Lockstep, job: u64) -> Vec<(storm_bcs::Member, storm_bcs::RequestId)> {
    let reduction = Reduction { op: ReduceOp::Sum, number: Number::F64 };
    let posted = (0..3u32).map(|rank| {
        let sum = Collective::Reduce { data: vec![0; 8000].into(), reduction, root: None };
        let who = member(job, rank);
        (who, machine.post(rank + 1, who, collective(3, sum)))
    });
    posted.collect()
}

#[test]
fn a_node_that_leaves_in_the_middle_of_a_reduction_holds_nobody_up_once_its_job_ends() {
    let mut waits = 0;
    for seed in 0..60 {
        let mut machine = Lockstep::new(seed, 3, small());
        machine.open(0, &[1, 2, 3]);
        machine.open(1, &[1, 2, 3]);
        summing(&mut machine, 0);
        (0..3 + seed % 3).for_each(|_| machine.step());
        let left = 1 + (seed % 3) as u32;
        waits += usize::from(machine.step_without(left, 0));
        // The node is back for the other job, whose collectives are as ever.
        machine.engines[left as usize - 1].close_job(JobKey(0));
        let others = summing(&mut machine, 1);
        (0..40).for_each(|_| machine.step());
        for (who, request) in others {
            assert!(machine.outcome(who, request).is_some(), "seed {seed}: {who:?}");
        }
    }
    assert!(waits > 10, "{waits} of 60 waited for the node that had left");
}

#[test]
fn a_job_that_ends_on_one_node_in_the_middle_of_a_collective_ends_on_all() {
    for seed in 0..60 {
        let mut machine = Lockstep::new(seed, 3, small());
        machine.open(0, &[1, 2, 3]);
        let waiting = summing(&mut machine, 0);
        (0..seed % 5).for_each(|_| machine.step());
        let left = (seed % 3) as usize;
        machine.engines[left].close_job(JobKey(0));
        (0..10).for_each(|_| machine.step());
        for (who, request) in waiting {
            let heard = machine.heard.get(&(who, request));
            assert_eq!(heard, Some(&Err(BcsError::RankGone)), "seed {seed}: {who:?}");
        }
    }
}
