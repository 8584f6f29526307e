//! Collectives that ranks leave to their nodes, through their segments. The results must be those
//! of direct mode in overlapping communicators, with as few slots as possible. Some ranks break the
//! rules.

use crate::ranks::{JOB, Job, PLACEMENT};
use storm_bcs::{BcsConfig, BcsError, JobKey, Number, Reduction};
use storm_mpi::segment::{Call, CallDescriptor, RankEnd};
use storm_mpi::testing::SplitMix64;
use storm_mpi::{Context, Rank, ReduceOp};

const RANKS: usize = PLACEMENT.len();
const SUM: Reduction = Reduction { op: ReduceOp::Sum, number: Number::F64 };

/// Communicators with their contexts. Two share a context, and have no member in common.
const GROUPS: [(u16, &[u32]); 5] =
    [(1, &[0, 1, 2, 3, 4]), (5, &[4, 2, 0]), (5, &[3, 1]), (7, &[0, 1]), (9, &[4, 3, 2, 1])];

fn members(ranks: &[u32]) -> Vec<Rank> {
    ranks.iter().copied().map(Rank).collect()
}

fn config(collective_slots: u32) -> BcsConfig {
    BcsConfig { collective_slots, collective_bytes: 1024, ..BcsConfig::default() }
}

/// A collective of a program: its communicator, its kind, and each member's data.
struct Planned {
    context: u16,
    members: Vec<Rank>,
    /// 0: a barrier; 1: a broadcast; 2: a sum for all; 3: a sum for the root.
    kind: usize,
    root: u32,
    data: Vec<Vec<f64>>,
}

impl Planned {
    fn drawn(dice: &mut SplitMix64) -> Planned {
        let (context, ranks) = GROUPS[dice.below(GROUPS.len())];
        let (size, count) = (ranks.len(), dice.below(300));
        let mut value = || (dice.below(1 << 30) as f64 - 5e8) * 1.000_000_1e-3;
        let data = (0..size).map(|_| (0..count).map(|_| value()).collect()).collect();
        let (kind, root) = (dice.below(4), dice.below(size) as u32);
        Planned { context, members: members(ranks), kind, root, data }
    }

    fn place(&self, rank: usize) -> Option<usize> {
        self.members.iter().position(|member| member.index() == rank)
    }

    fn bytes(&self, place: usize) -> Vec<u8> {
        self.data[place].iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    fn call<'a>(&self, place: usize, data: &'a [u8]) -> Call<'a> {
        let root = self.root;
        match self.kind {
            0 => Call::Barrier,
            1 => Call::Broadcast { root, data: if place as u32 == root { data } else { &[] } },
            2 => Call::Reduce { reduction: SUM, root: None, data },
            _ => Call::Reduce { reduction: SUM, root: Some(root), data },
        }
    }

    /// The result for the member at this place.
    fn result(&self, place: usize) -> Vec<u8> {
        let sum = || binomial(&self.data, 0).iter().flat_map(|v| v.to_ne_bytes()).collect();
        match self.kind {
            1 => self.bytes(self.root as usize),
            2 => sum(),
            3 if place as u32 == self.root => sum(),
            _ => Vec::new(),
        }
    }
}

/// Combines as `storm_mpi::collective` does: each member combines its children's sums, in order.
fn binomial(values: &[Vec<f64>], member: usize) -> Vec<f64> {
    let mut all = values[member].clone();
    let mut step = 1;
    while step < values.len() && member & step == 0 {
        if member + step < values.len() {
            let child = binomial(values, member + step);
            all.iter_mut().zip(child).for_each(|(l, r)| *l += r);
        }
        step *= 2;
    }
    all
}

fn post(rank: &mut RankEnd, context: u16, members: &[Rank], call: Call<'_>) {
    let context = Context(context);
    let descriptor = rank.call_descriptor(context, members, call).expect("not refused");
    assert!(rank.post_call(context, &descriptor).expect("its own memory"), "there is room");
}

#[test]
fn overlapping_communicators_have_the_results_of_direct_mode() {
    overlapping(false);
}

#[test]
fn collectives_have_the_same_results_while_node_managers_are_replaced() {
    overlapping(true);
}

fn overlapping(restarts: bool) {
    for seed in 0..60 {
        let mut dice = SplitMix64(seed ^ 0x9e37);
        let program: Vec<Planned> = (0..40).map(|_| Planned::drawn(&mut dice)).collect();
        let mut job = Job::with(seed, config(1 + seed as u32 % 3), RANKS);
        job.restarts = restarts.then_some(SplitMix64(seed ^ 0x9e57));
        // By rank: its progress, and whether it waits.
        let mut state = [(0, false); RANKS];
        let mut slices = 0;
        while state.iter().any(|(at, _)| *at < program.len()) {
            for (rank, (at, waits)) in state.iter_mut().enumerate() {
                let end = &mut job.ranks[rank];
                end.news().expect("goes on");
                while let Some(planned) = program.get(*at) {
                    let Some(place) = planned.place(rank) else {
                        *at += 1;
                        continue;
                    };
                    if *waits {
                        let Some(result) = end.take_result() else { break };
                        assert_eq!(result, Some(planned.result(place)), "seed {seed}, rank {rank}");
                        (*at, *waits) = (*at + 1, false);
                    } else if dice.chance(30) {
                        break;
                    } else {
                        let data = planned.bytes(place);
                        let call = planned.call(place, &data);
                        post(end, planned.context, &planned.members, call);
                        *waits = true;
                    }
                }
            }
            job.step();
            slices += 1;
            assert!(slices < 5_000, "seed {seed}: {state:?}");
        }
        assert_eq!(job.failures(), [], "seed {seed}");
    }
}

#[test]
fn a_barrier_of_ranks_that_have_all_come_takes_one_slice() {
    let mut job = Job::with(1, config(1), RANKS);
    let all = members(GROUPS[0].1);
    for _ in 0..3 {
        job.ranks.iter_mut().for_each(|rank| post(rank, 1, &all, Call::Barrier));
        job.step();
        // The collective is over. Ranks learn it when the next slice begins.
        job.step();
        for rank in &mut job.ranks {
            rank.news().expect("goes on");
            assert_eq!(rank.take_result(), Some(Some(Vec::new())));
        }
    }
}

#[test]
fn a_communicator_whose_context_was_anothers_takes_its_place() {
    let mut job = Job::with(3, config(1), RANKS);
    for ranks in [&[0, 2][..], &[0, 3], &[2, 0], &[0, 2]] {
        let members = members(ranks);
        for rank in ranks {
            post(&mut job.ranks[*rank as usize], 3, &members, Call::Barrier);
        }
        (0..2).for_each(|_| job.step());
        for rank in ranks {
            let end = &mut job.ranks[*rank as usize];
            end.news().expect("goes on");
            assert_eq!(end.take_result(), Some(Some(Vec::new())), "{ranks:?}");
        }
    }
    assert_eq!(job.failures(), []);
}

#[test]
fn where_there_is_no_place_for_them_ranks_hear_so_at_once_and_do_not_ask_again() {
    let mut job = Job::with(1, config(0), RANKS);
    let (all, here) = (members(GROUPS[0].1), members(&[0, 1]));
    post(&mut job.ranks[0], 1, &all, Call::Barrier);
    (0..2).for_each(|_| job.step());
    let rank = &mut job.ranks[0];
    rank.news().expect("goes on");
    assert_eq!(rank.take_result(), Some(None));
    assert_eq!(rank.call_descriptor(Context(1), &all, Call::Barrier), None);
    // Collectives within one node need no slot.
    job.ranks[..2].iter_mut().for_each(|rank| post(rank, 3, &here, Call::Barrier));
    (0..2).for_each(|_| job.step());
    for rank in &mut job.ranks[..2] {
        rank.news().expect("goes on");
        assert_eq!(rank.take_result(), Some(Some(Vec::new())));
    }
    assert_eq!(job.failures(), []);
}

#[test]
fn members_that_disagree_hear_so() {
    for one in [0, 3] {
        let mut job = Job::with(2, config(1), RANKS);
        let all = members(GROUPS[0].1);
        for (at, rank) in job.ranks.iter_mut().enumerate() {
            let other = Call::Reduce { reduction: SUM, root: None, data: &[0; 8] };
            post(rank, 1, &all, if at == one { other } else { Call::Barrier });
        }
        (0..4).for_each(|_| job.step());
        let failures = job.failures();
        assert_eq!(failures.len(), 3, "all nodes end it: {failures:?}");
        for rank in &mut job.ranks {
            assert!(rank.news().is_err());
        }
    }
}

#[test]
fn members_that_name_different_members_hear_so() {
    // By rank: the members that it names. The others wait in vain for members that do not call, or
    // do not wait at all.
    let named: [&[(u32, &[u32])]; 5] = [
        // Between nodes: one more member, other members, another order.
        &[(0, &[0, 2]), (2, &[0, 2, 3])],
        &[(2, &[0, 2]), (0, &[0, 2, 3])],
        &[(0, &[0, 2, 3]), (2, &[0, 2, 3]), (3, &[0, 3, 2])],
        // Within one node, which asks no other.
        &[(0, &[0, 1]), (1, &[0, 1, 2])],
        &[(3, &[3, 4]), (4, &[3, 4, 0])],
    ];
    let data = [0; 8];
    let calls = [
        Call::Barrier,
        Call::Broadcast { root: 0, data: &data },
        Call::Reduce { reduction: SUM, root: None, data: &data },
    ];
    let cases = named.iter().flat_map(|named| calls.map(|call| (named, call)));
    for (seed, (named, call)) in (0..10).flat_map(|seed| cases.clone().map(move |c| (seed, c))) {
        let mut dice = SplitMix64(seed);
        let mut job = Job::with(seed, config(1), RANKS);
        for (rank, ranks) in *named {
            // The last rank may find all others idle.
            (0..3 * dice.below(2)).for_each(|_| job.step());
            post(&mut job.ranks[*rank as usize], 1, &members(ranks), call);
        }
        (0..4).for_each(|_| job.step());
        let failures = job.failures();
        let mismatch = (JobKey(JOB), BcsError::CollectiveMismatch);
        assert!(failures.contains(&mismatch), "{named:?}, {call:?}: {failures:?}");
        assert_eq!(failures.len(), 3, "all nodes end it: {named:?}, {call:?}: {failures:?}");
        for rank in &mut job.ranks {
            assert!(rank.news().is_err(), "{named:?}, {call:?}");
        }
    }
}

#[test]
fn a_rank_that_calls_what_cannot_be_ends_its_job() {
    let descriptor =
        |members: &[u32], call| CallDescriptor { members: self::members(members), call }.encode();
    let barrier = descriptor(&[0, 2], Call::Barrier);
    let bad: [(&str, u16, Vec<Vec<u8>>); 9] = [
        ("no bytes", 1, vec![vec![]]),
        ("a communicator that it has not named", 1, vec![descriptor(&[], Call::Barrier)]),
        ("one that it is not in", 1, vec![descriptor(&[1, 2], Call::Barrier)]),
        ("one with a rank that is not", 1, vec![descriptor(&[0, 99], Call::Barrier)]),
        ("a context beyond all", 65, vec![barrier.clone()]),
        ("a context of messages", 2, vec![barrier.clone()]),
        ("a second before the first is over", 1, vec![barrier.clone(), barrier]),
        (
            "a root that is no member",
            1,
            vec![descriptor(&[0, 2], Call::Broadcast { root: 2, data: &[] })],
        ),
        (
            "another, too",
            1,
            vec![descriptor(
                &[0, 2],
                Call::Reduce { reduction: SUM, root: Some(u32::MAX - 1), data: &[] },
            )],
        ),
    ];
    for (what, context, calls) in bad {
        let mut job = Job::with(5, config(2), RANKS);
        for call in calls {
            assert!(job.ranks[0].post_call(Context(context), &call).expect("its own memory"));
        }
        job.step();
        let bad = BcsError::BadRank { rank: Rank(0) };
        assert_eq!(job.failures(), [(JobKey(JOB), bad)], "{what}");
    }
}

#[test]
fn a_rank_that_names_one_communicator_after_the_other_leaves_nothing_behind() {
    let mut job = Job::with(6, config(1), RANKS);
    // The first member changes each time, in one context; all are of rank 0's node.
    for turn in 0..200 {
        let both = members(if turn % 2 == 0 { &[0, 1] } else { &[1, 0] });
        job.ranks[..2].iter_mut().for_each(|rank| post(rank, 3, &both, Call::Barrier));
        (0..2).for_each(|_| job.step());
        for rank in &mut job.ranks[..2] {
            rank.news().expect("goes on");
            assert_eq!(rank.take_result(), Some(Some(Vec::new())));
        }
    }
    assert!(job.machine.engines[0].open_groups() <= 2);
    assert_eq!(job.failures(), []);
}
