//! Collectives: no member leaves before all have called, every byte arrives, and reductions have
//! the same bits in any order of arrival and on any placement.

use crate::lockstep::{Lockstep, collective, member};
use storm_bcs::{BcsConfig, Collective, Number, Outcome, Reduction, RequestId};
use storm_mpi::ReduceOp;
use storm_mpi::testing::SplitMix64;

fn small() -> BcsConfig {
    BcsConfig { collective_bytes: 1024, collective_slots: 2, ..BcsConfig::default() }
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

fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Posts a collective of all ranks, spread over slices, and waits until all have their outcomes.
fn run(
    machine: &mut Lockstep,
    dice: &mut SplitMix64,
    placement: &[u32],
    call: impl Fn(usize) -> Collective,
) -> Vec<Outcome> {
    let mut order: Vec<usize> = (0..placement.len()).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, dice.below(last + 1));
    }
    let mut requests: Vec<Option<RequestId>> = vec![None; placement.len()];
    for rank in order {
        assert!(machine.heard.is_empty(), "somebody left before all had come");
        let who = member(0, rank as u32);
        requests[rank] =
            Some(machine.post(placement[rank], who, collective(placement.len(), call(rank))));
        if dice.chance(20) {
            machine.step();
        }
    }
    for _ in 0..200 {
        machine.step();
    }
    let outcome = |(rank, request): (usize, &Option<RequestId>)| {
        machine.outcome(member(0, rank as u32), request.expect("posted")).expect("over")
    };
    let outcomes = requests.iter().enumerate().map(outcome).collect();
    machine.heard.clear();
    outcomes
}

#[test]
fn every_collective_on_any_placement_is_right_to_the_bit() {
    for seed in 0..60 {
        let mut dice = SplitMix64(seed ^ 0xc011);
        let nodes = 1 + dice.below(6) as u32;
        let ranks = 1 + dice.below(13);
        let placement: Vec<u32> =
            (0..ranks).map(|_| 1 + dice.below(nodes as usize) as u32).collect();
        let mut machine = Lockstep::new(seed, nodes, small());
        machine.open(0, &placement);
        for _ in 0..4 {
            let barrier = |_| Collective::Barrier;
            let all = run(&mut machine, &mut dice, &placement, barrier);
            assert_eq!(all, vec![Outcome::Done; ranks], "seed {seed}");

            let root = dice.below(ranks);
            let data: Vec<u8> = (0..dice.below(5000)).map(|at| at as u8).collect();
            let broadcast = |rank| Collective::Broadcast {
                root,
                data: if rank == root { data.clone().into() } else { Default::default() },
            };
            let all = run(&mut machine, &mut dice, &placement, broadcast);
            assert_eq!(all, vec![Outcome::Data(data.clone()); ranks], "seed {seed}");

            let count = dice.below(200);
            let mut value = || (dice.below(1 << 30) as f64 - 5e8) * 1.000_000_1e-3;
            let values: Vec<Vec<f64>> =
                (0..ranks).map(|_| (0..count).map(|_| value()).collect()).collect();
            let reduction = Reduction { op: ReduceOp::Sum, number: Number::F64 };
            let to = [None, Some(root)][dice.below(2)];
            let reduce = |rank: usize| Collective::Reduce {
                data: bytes(&values[rank]).into(),
                reduction,
                root: to,
            };
            let all = run(&mut machine, &mut dice, &placement, reduce);
            let sum = Outcome::Data(bytes(&binomial(&values, 0)));
            for (rank, outcome) in all.into_iter().enumerate() {
                let gets = to.is_none_or(|root| root == rank);
                let expected = if gets { sum.clone() } else { Outcome::Done };
                assert_eq!(outcome, expected, "seed {seed}, rank {rank} of {ranks}");
            }
        }
    }
}

/// Possible next calls of members, each different from all others.
fn calls() -> Vec<Collective> {
    let reduce = |op, number, bytes: usize, root| Collective::Reduce {
        data: vec![0; bytes].into(),
        reduction: Reduction { op, number },
        root,
    };
    vec![
        Collective::Barrier,
        Collective::Broadcast { root: 0, data: vec![1; 3000].into() },
        Collective::Broadcast { root: 1, data: vec![1; 3000].into() },
        reduce(ReduceOp::Sum, Number::I32, 8, None),
        reduce(ReduceOp::Max, Number::I32, 8, None),
        reduce(ReduceOp::Sum, Number::I64, 8, None),
        reduce(ReduceOp::Sum, Number::I32, 3000, None),
        reduce(ReduceOp::Sum, Number::I32, 3000, Some(1)),
    ]
}

#[test]
fn members_that_disagree_end_their_job_and_no_other() {
    // On one node, on two, and on more for other depths of the tree; the odd member is first or
    // last.
    for placement in [vec![1, 1], vec![1, 2], vec![2, 1, 3], vec![1, 2, 3, 4, 4]] {
        for (one, other) in (0..8 * 8).map(|pair| (pair / 8, pair % 8)) {
            let mut machine = Lockstep::new(7, 4, small());
            machine.open(0, &placement);
            machine.open(1, &placement);
            let last = placement.len() - 1;
            let mut requests = Vec::new();
            for (rank, node) in placement.iter().enumerate() {
                let call = calls().swap_remove(if rank == last { other } else { one });
                let (who, other) = (member(0, rank as u32), member(1, rank as u32));
                let all = placement.len();
                let request = machine.post(*node, who, collective(all, call));
                let barrier = collective(all, Collective::Barrier);
                requests.push((who, request, other, machine.post(*node, other, barrier)));
            }
            (0..20).for_each(|_| machine.step());
            for (who, request, spared, theirs) in requests {
                let heard = &machine.heard[&(who, request)];
                assert_eq!(heard.is_ok(), one == other, "{who:?} on {placement:?}: {heard:?}");
                assert_eq!(machine.outcome(spared, theirs), Some(Outcome::Done));
            }
        }
    }
}

#[test]
fn a_root_that_is_no_member_is_refused() {
    let mut machine = Lockstep::new(1, 1, small());
    machine.open(0, &[1, 1]);
    let call = Collective::Broadcast { root: 2, data: Default::default() };
    let request = machine.post(1, member(0, 0), collective(2, call));
    (0..2).for_each(|_| machine.step());
    assert!(machine.heard[&(member(0, 0), request)].is_err());
}
