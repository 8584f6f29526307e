//! Streams between ranks through their segments and the engines of their nodes: every byte, in
//! order, under any interleaving, with links that carry little. Some ranks break the rules.

use crate::lockstep::{Lockstep, member};
use std::rc::Rc;
use storm_bcs::{BcsConfig, BcsError, Completion, JobKey, Ranks, Unsaved};
use storm_mpi::Rank;
use storm_mpi::segment::{NodeEnd, RankEnd};
use storm_mpi::testing::SplitMix64;
use storm_primitives::NodeId;

/// Nodes by rank.
pub(crate) const PLACEMENT: [u32; 5] = [1, 1, 2, 3, 3];
pub(crate) const JOB: u64 = 7;

pub(crate) struct Job {
    pub(crate) machine: Lockstep,
    pub(crate) nodes: Vec<Ranks>,
    pub(crate) ranks: Vec<RankEnd>,
    /// Draws the nodes whose Node Managers are replaced after a slice.
    pub(crate) restarts: Option<SplitMix64>,
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
        Job { machine, nodes, ranks, restarts: None }
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
        for at in 0..self.nodes.len() {
            if self.restarts.as_mut().is_some_and(|dice| dice.chance(40)) {
                self.restart(at);
            }
        }
    }

    /// Replaces the Node Manager of a node: only the saved state and the segments remain.
    fn restart(&mut self, at: usize) {
        let former = self.machine.replace(at);
        let ranks = std::mem::take(&mut self.nodes[at]);
        let saved = ranks.save(&former, JobKey(JOB)).expect("between two slices");
        let segments = ranks.segments(JobKey(JOB)).map(|(rank, end)| {
            let parts = end.parts().map(|fd| fd.try_clone_to_owned().expect("open"));
            (rank, NodeEnd::adopt(parts).expect("a segment"))
        });
        let segments = segments.collect();
        let restored =
            self.nodes[at].restore(self.machine.engine(at), JobKey(JOB), &saved, segments);
        assert_eq!(restored, Ok(()));
    }

    pub(crate) fn failures(&mut self) -> Vec<(JobKey, BcsError)> {
        self.nodes.iter_mut().flat_map(Ranks::take_failures).collect()
    }
}

/// The byte at a place of the stream between two ranks.
pub(crate) fn byte(from: usize, to: usize, at: usize) -> u8 {
    (at * 31 + at / 251 + from * 7 + to * 13) as u8
}

#[test]
fn every_byte_of_every_stream_comes_in_order() {
    all_streams(false);
}

/// After each slice, Node Managers are replaced at random.
#[test]
fn every_byte_comes_once_and_in_order_while_node_managers_are_replaced() {
    all_streams(true);
}

fn all_streams(restarts: bool) {
    const BYTES: usize = 90_000;
    let size = PLACEMENT.len();
    for seed in 0..12 {
        let mut dice = SplitMix64(seed ^ 0x5eed);
        let mut job = Job::new(seed, 2_000 + 20_000 * (seed % 3), size);
        job.restarts = restarts.then_some(SplitMix64(seed ^ 0x9e57));
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
fn a_state_that_was_cut_or_is_of_another_version_is_not_taken() {
    let mut job = Job::new(5, 10_000, PLACEMENT.len());
    job.ranks[0].send(Rank(4), [b"on its way", b""]).expect("sent");
    job.step();
    let saved = job.nodes[0].save(&job.machine.engines[0], JobKey(JOB)).expect("whole");
    let adopted = |job: &Job| {
        let segments = job.nodes[0].segments(JobKey(JOB)).map(|(rank, end)| {
            let parts = end.parts().map(|fd| fd.try_clone_to_owned().expect("open"));
            (rank, NodeEnd::adopt(parts).expect("a segment"))
        });
        segments.collect::<std::collections::BTreeMap<_, _>>()
    };
    let mut other = saved.clone();
    other[0] += 1;
    for bytes in (0..saved.len()).map(|cut| &saved[..cut]).chain([&other[..]]) {
        let segments = adopted(&job);
        job.machine.replace(0);
        let mut ranks = Ranks::default();
        let taken = ranks.restore(job.machine.engine(0), JobKey(JOB), bytes, segments);
        assert_eq!(taken, Err(Unsaved), "{} of {} bytes", bytes.len(), saved.len());
        assert!(ranks.jobs().is_empty());
    }
    job.machine.replace(0);
    let none = std::collections::BTreeMap::new();
    let taken = Ranks::default().restore(job.machine.engine(0), JobKey(JOB), &saved, none);
    assert_eq!(taken, Err(Unsaved), "without the segments");
}

#[test]
fn a_job_that_ends_is_not_saved() {
    let mut job = Job::new(6, 10_000, PLACEMENT.len());
    job.step();
    job.machine.engines[0].rank_gone(member(JOB, 0));
    assert_eq!(job.nodes[0].save(&job.machine.engines[0], JobKey(JOB)), None);
    (0..3).for_each(|_| job.step());
    for (ranks, engine) in job.nodes.iter().zip(&job.machine.engines) {
        assert_eq!(ranks.save(engine, JobKey(JOB)), None);
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
