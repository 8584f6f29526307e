//! A rank that leaves ends its job everywhere, and nothing of the job stays on the way.

use crate::lockstep::{Lockstep, collective, member, recv, send};
use storm_bcs::{
    BcsConfig, BcsError, Collective, Group, GroupId, JobKey, Member, Number, Outcome, Post,
    Reduction, RequestId,
};
use storm_mpi::testing::SplitMix64;
use storm_mpi::{Context, Rank, ReduceOp};
use storm_primitives::{NodeId, NodeSet};

fn small() -> BcsConfig {
    BcsConfig { link_bytes: 256, collective_bytes: 1024, ..BcsConfig::default() }
}

#[test]
fn a_rank_that_dies_at_any_time_ends_its_job_and_no_other() {
    for seed in 0..200 {
        let mut dice = SplitMix64(seed ^ 0xdead);
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

/// Posts a sum of several slices on each of three nodes.
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
        // The node serves the other job again, and its collectives work as before.
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

const SUM: Reduction = Reduction { op: ReduceOp::Sum, number: Number::F64 };

/// A barrier, a broadcast and a sum, in turn. Broadcasts and sums take several slices.
fn call(round: usize, rank: usize) -> Collective {
    let mine = (rank + round) as f64;
    match round % 3 {
        0 => Collective::Barrier,
        1 => Collective::Broadcast { root: 0, data: vec![round as u8; 3000].into() },
        _ => {
            let data = mine.to_ne_bytes().repeat(400);
            Collective::Reduce { data: data.into(), reduction: SUM, root: None }
        }
    }
}

/// A job whose ranks are always in collectives of all of them.
struct Busy {
    job: u64,
    placement: Vec<u32>,
    round: usize,
    waiting: Vec<RequestId>,
}

impl Busy {
    fn open(machine: &mut Lockstep, job: u64, placement: &[u32]) -> Busy {
        machine.open(job, placement);
        Busy { job, placement: placement.to_vec(), round: 0, waiting: Vec::new() }
    }

    /// Checks the results of a finished round, and begins the next.
    fn go_on(&mut self, machine: &mut Lockstep) {
        let size = self.placement.len();
        let heard = (0..).zip(&self.waiting);
        let heard: Vec<Outcome> = heard
            .filter_map(|(rank, request)| machine.outcome(member(self.job, rank), *request))
            .collect();
        if !self.waiting.is_empty() {
            if heard.len() < size {
                return;
            }
            let expected = match self.round % 3 {
                0 => Outcome::Done,
                1 => Outcome::Data(vec![self.round as u8; 3000]),
                _ => {
                    let sum: usize = (0..size).map(|rank| rank + self.round).sum();
                    Outcome::Data((sum as f64).to_ne_bytes().repeat(400))
                }
            };
            assert_eq!(heard, vec![expected; size], "job {}, round {}", self.job, self.round);
            self.round += 1;
        }
        let posts = (0..).zip(&self.placement).map(|(rank, node)| {
            let post = collective(size, call(self.round, rank as usize));
            machine.post(*node, member(self.job, rank), post)
        });
        self.waiting = posts.collect();
    }
}

/// Two lists of members with the same name.
fn two_lists(dice: &mut SplitMix64, ranks: u32) -> [Vec<u32>; 2] {
    let mut draw = || {
        let mut list: Vec<u32> = (1..ranks).filter(|_| dice.chance(60)).collect();
        for last in (1..list.len()).rev() {
            list.swap(last, dice.below(last + 1));
        }
        list.insert(0, 0);
        list
    };
    loop {
        let lists = [draw(), draw()];
        // The second list needs a rank that can name it, because rank 0 names the first.
        if lists[0] != lists[1] && lists[1].len() > 1 {
            return lists;
        }
    }
}

/// The list that a rank names: rank 0 the first, and at least one rank the second.
fn choose<'a>(
    dice: &mut SplitMix64,
    rank: u32,
    [first, second]: &'a [Vec<u32>; 2],
) -> Option<&'a Vec<u32>> {
    match (first.contains(&rank), second.contains(&rank)) {
        (false, false) => None,
        (true, false) => Some(first),
        (false, true) => Some(second),
        (true, true) => {
            let takes_second = second.last() == Some(&rank) || rank > 0 && dice.chance(50);
            Some(if takes_second { second } else { first })
        }
    }
}

#[test]
fn ranks_that_name_different_members_end_their_job_and_no_other() {
    for seed in 0..150 {
        let mut dice = SplitMix64(seed ^ 0x11575);
        let mut machine = Lockstep::new(seed, 4, BcsConfig { collective_slots: 2, ..small() });
        let mut busy = [(0, &[1, 2, 3, 4][..]), (1, &[4, 3])]
            .map(|(job, at)| Busy::open(&mut machine, job, at));
        let step = |machine: &mut Lockstep, busy: &mut [Busy; 2]| {
            busy.iter_mut().for_each(|job| job.go_on(machine));
            machine.step();
        };
        // Jobs follow each other: leftovers of a job in a slot would break the next.
        for (bad, kind) in (10..).zip([0, 1, 2, 2, 1, 0]) {
            let placement = [[1, 2, 3, 4], [1, 1, 2, 3], [2, 1, 1, 4]][dice.below(3)];
            machine.open(bad, &placement);
            let lists = two_lists(&mut dice, 4);
            let mut named: Vec<(Member, RequestId, &Vec<u32>)> = Vec::new();
            // Rank 0 calls last, so its node gets both lists, even if other ranks have not called
            // yet.
            for rank in (0..4).rev() {
                let Some(list) = choose(&mut dice, rank, &lists) else { continue };
                let id = GroupId::new(Context(1), Rank(0)).expect("fits");
                let group = Group { id, members: list.iter().copied().map(Rank).collect() };
                let post = Post::Collective { group, call: call(kind, rank as usize) };
                let who = member(bad, rank);
                named.push((who, machine.post(placement[rank as usize], who, post), list));
                if rank > 0 && dice.chance(30) {
                    step(&mut machine, &mut busy);
                }
            }
            (0..6).for_each(|_| step(&mut machine, &mut busy));
            let what = format!("seed {seed}: kind {kind} on {placement:?}: {named:?}");
            let mut mismatches = 0;
            for (who, request, list) in &named {
                let same =
                    |rank: &u32| named.iter().any(|(o, _, l)| o.rank.0 == *rank && l == list);
                match machine.heard.get(&(*who, *request)) {
                    None => panic!("{what}: {who:?} waits for ever"),
                    // Two other ranks of a node disagree; the job is over only then.
                    Some(Ok(_)) => assert!(list.iter().all(same), "{what}: {who:?}"),
                    Some(Err(BcsError::CollectiveMismatch)) => mismatches += 1,
                    Some(Err(_)) => {}
                }
            }
            assert!(mismatches > 0, "{what}");
            for (rank, node) in (0..).zip(placement) {
                let post =
                    machine.engines[node as usize - 1].post(member(bad, rank), recv(None, None, 0));
                assert!(post.is_err(), "{what}: the job is over on node {node}");
            }
        }
        let rounds = busy.each_ref().map(|job| job.round);
        (0..60).for_each(|_| step(&mut machine, &mut busy));
        for (job, before) in busy.iter().zip(rounds) {
            assert!(job.round >= before + 6, "seed {seed}: job {} stands", job.job);
        }
    }
}
