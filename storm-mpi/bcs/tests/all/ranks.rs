//! Streams between ranks through their segments and the engines of their nodes: every byte, in
//! order, under any interleaving, with links that carry little. Some ranks break the rules.

use crate::lockstep::{Lockstep, member};
use std::rc::Rc;
use storm_bcs::{BcsConfig, BcsError, Completion, JobKey, Ranks};
use storm_mpi::Rank;
use storm_mpi::segment::RankEnd;
use storm_mpi::testing::SplitMix64;
use storm_primitives::NodeId;

/// Nodes by rank.
pub(crate) const PLACEMENT: [u32; 5] = [1, 1, 2, 3, 3];
pub(crate) const JOB: u64 = 7;

pub(crate) struct Job {
    pub(crate) machine: Lockstep,
    pub(crate) nodes: Vec<Ranks>,
    pub(crate) ranks: Vec<RankEnd>,
}

impl Job {
    fn new(seed: u64, link_bytes: u64, size: usize) -> Job {
        Job::with(seed, BcsConfig { link_bytes, ..BcsConfig::default() }, size)
    }

    pub(crate) fn with(seed: u64, config: BcsConfig, size: usize) -> Job {
        let mut machine = Lockstep::new(seed, 3, config);
        let placement: Rc<[NodeId]> = PLACEMENT.iter().map(|node| NodeId(*node)).collect();
        let mut nodes: Vec<Ranks> = (0..3).map(|_| Ranks::default()).collect();
        for ((ranks, engine), node) in nodes.iter_mut().zip(&mut machine.engines).zip(1..) {
            ranks.open(engine, JobKey(JOB), placement.clone(), NodeId(node)).expect("memory");
        }
        let ranks = (0..).zip(PLACEMENT).map(|(rank, node)| {
            let segment = nodes[node as usize - 1].segment(member(JOB, rank)).expect("has one");
            let owned = segment.descriptors().map(|fd| fd.try_clone_to_owned().expect("open"));
            RankEnd::attach(owned, Rank(rank), size).expect("a segment")
        });
        let ranks = ranks.collect();
        Job { machine, nodes, ranks }
    }

    /// One slice, as the drivers carry it out.
    pub(crate) fn step(&mut self) {
        for (ranks, engine) in self.nodes.iter_mut().zip(&mut self.machine.engines) {
            ranks.gather(engine);
        }
        self.machine.step();
        let heard = std::mem::take(&mut self.machine.heard);
        for (ranks, node) in self.nodes.iter_mut().zip(1..) {
            let here = heard.iter().filter(|((who, _), _)| PLACEMENT[who.rank.index()] == node);
            ranks.tell(
                here.map(|((member, request), outcome)| Completion {
                    member: *member,
                    request: *request,
                    outcome: outcome.clone(),
                })
                .collect(),
            );
        }
    }

    pub(crate) fn failures(&mut self) -> Vec<(JobKey, BcsError)> {
        self.nodes.iter_mut().flat_map(Ranks::take_failures).collect()
    }
}

/// The byte at a place of the stream between two ranks.
fn byte(from: usize, to: usize, at: usize) -> u8 {
    (at * 31 + at / 251 + from * 7 + to * 13) as u8
}

#[test]
fn every_byte_of_every_stream_comes_in_order() {
    const BYTES: usize = 90_000;
    let size = PLACEMENT.len();
    for seed in 0..12 {
        let mut dice = SplitMix64(seed ^ 0x5eed);
        let mut job = Job::new(seed, 2_000 + 20_000 * (seed % 3), size);
        let (mut sent, mut got) = (vec![vec![0; size]; size], vec![vec![0; size]; size]);
        let mut slices = 0;
        while got.iter().flatten().sum::<usize>() < BYTES * size * size {
            for (from, end) in job.ranks.iter_mut().enumerate() {
                end.news().expect("goes on");
                for (to, sent) in sent[from].iter_mut().enumerate() {
                    let next = (*sent + dice.below(20_000)).min(BYTES);
                    let data: Vec<u8> = (*sent..next).map(|at| byte(from, to, at)).collect();
                    let (head, rest) = data.split_at(dice.below(data.len() + 1));
                    *sent += end.send(Rank::from_index(to), [head, rest]).expect("a rank");
                }
                let mut into = vec![0; 30_000];
                for (peer, got) in got.iter_mut().enumerate() {
                    // Some ranks do not read for a while.
                    let read = if dice.chance(30) { 0 } else { into.len() };
                    let read = end.read(Rank::from_index(peer), &mut into[..read]);
                    for (at, came) in into[..read].iter().enumerate() {
                        let expected = byte(peer, from, got[from] + at);
                        assert_eq!(*came, expected, "seed {seed}, {peer} to {from}");
                    }
                    got[from] += read;
                }
            }
            job.step();
            slices += 1;
            assert!(slices < 20_000, "seed {seed}: {got:?} of {sent:?}");
        }
        assert_eq!(job.failures(), []);
    }
}

#[test]
fn a_rank_that_names_another_that_does_not_exist_ends_its_job_and_no_other() {
    let mut job = Job::new(1, 10_000, 100);
    job.ranks[3].send(Rank(50), [b"?", b""]).expect("its own memory takes it");
    job.step();
    assert_eq!(job.failures(), [(JobKey(JOB), BcsError::BadRank { rank: Rank(3) })]);
    for rank in [3, 4] {
        let error = job.ranks[rank].news().expect_err("it is over");
        assert!(
            error.to_string().contains("rank 3 wrote something that is not a message"),
            "{error}"
        );
    }
    // The others learn of it from their nodes. The engines are informed when the rank is killed.
    job.machine.engines[2].rank_gone(member(JOB, 3));
    (0..3).for_each(|_| job.step());
    assert_eq!(job.failures().len(), 2, "nodes 1 and 2");
    assert!(job.ranks[0].news().is_err());
}

#[test]
fn a_rank_that_ignores_its_window_is_found_out() {
    let mut job = Job::new(2, 64, PLACEMENT.len());
    let window = vec![0; 1 << 20];
    let sent = job.ranks[0].send(Rank(2), [&window, b""]).expect("as much as it may");
    job.step();
    // A second end of the same memory, which counts from the beginning again.
    let segment = job.nodes[0].segment(member(JOB, 0)).expect("has one");
    let owned = segment.descriptors().map(|fd| fd.try_clone_to_owned().expect("open"));
    let mut liar = RankEnd::attach(owned, Rank(0), PLACEMENT.len()).expect("a segment");
    assert_eq!(liar.send(Rank(2), [&window[..sent], b""]).expect("it has room"), sent);
    job.step();
    assert_eq!(job.failures(), [(JobKey(JOB), BcsError::BadRank { rank: Rank(0) })]);
}

#[test]
fn waiting_ranks_are_known_and_a_closed_job_leaves_nothing() {
    let mut job = Job::new(3, 10_000, PLACEMENT.len());
    assert!(!job.nodes[0].all_wait(JobKey(JOB)));
    for rank in [0, 1] {
        assert!(job.ranks[rank].fall_asleep().expect("no news"));
    }
    assert!(job.nodes[0].all_wait(JobKey(JOB)));
    job.ranks[4].send(Rank(1), [b"wake up", b""]).expect("sent");
    (0..2).for_each(|_| job.step());
    assert!(!job.nodes[0].all_wait(JobKey(JOB)), "rank 1 has a message");
    for (ranks, engine) in job.nodes.iter_mut().zip(&mut job.machine.engines) {
        ranks.close(engine, JobKey(JOB));
        assert!(ranks.jobs().is_empty());
    }
    (0..2).for_each(|_| job.step());
    assert_eq!(job.failures(), []);
}
