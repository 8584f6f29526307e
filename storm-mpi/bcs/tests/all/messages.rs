//! Point to point: the order of MPI, budgets and carried-over bytes, and nothing on the way at
//! edges.

use crate::lockstep::{Lockstep, member, recv, send};
use std::collections::{BTreeMap, VecDeque};
use storm_bcs::{BcsConfig, Member, Outcome, Post, RequestId};
use storm_mpi::testing::SplitMix64;

fn small() -> BcsConfig {
    BcsConfig {
        link_bytes: 512,
        descriptor_bytes: 128,
        collective_slots: 4,
        collective_bytes: 1024,
        ..BcsConfig::default()
    }
}

/// The contents of a message: its sender and number, then as many bytes as it should have.
fn message(from: Member, number: u32, bytes: usize) -> Vec<u8> {
    let head = [from.rank.0.to_ne_bytes(), number.to_ne_bytes()].concat();
    head.into_iter().chain((0..bytes).map(|at| (at as u32 ^ number) as u8)).collect()
}

fn read(data: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_ne_bytes(data[at..at + 4].try_into().expect("a head"));
    (word(0), word(4))
}

/// Ranks that send each other random messages and receive them in all ways of MPI.
struct Chatter {
    job: u64,
    placement: Vec<u32>,
    /// By pair and tag: number and length of messages that were sent and not received.
    sent: BTreeMap<(u32, u32, i32), VecDeque<(u32, usize)>>,
    receives: Vec<(Member, RequestId)>,
    sends: Vec<(Member, RequestId)>,
    number: u32,
    /// Receives that are posted in a later slice than their messages.
    held: VecDeque<(Member, u32, Post)>,
}

impl Chatter {
    fn new(machine: &mut Lockstep, job: u64, placement: Vec<u32>) -> Chatter {
        machine.open(job, &placement);
        let (sent, receives, sends) = (BTreeMap::new(), Vec::new(), Vec::new());
        Chatter { job, placement, sent, receives, sends, number: 0, held: VecDeque::new() }
    }

    /// Posts a message and a receive that would take it, in the same slice or a later one. If one
    /// receive is for any rank or tag, all of the receiver's are, so that each message finds one.
    fn speak(&mut self, machine: &mut Lockstep, dice: &mut SplitMix64, longest: usize, wild: bool) {
        let ranks = self.placement.len();
        let (from, to) = (dice.below(ranks) as u32, dice.below(ranks) as u32);
        let (tag, bytes) = (dice.below(2) as i32, dice.below(longest + 1));
        self.number += 1;
        let (sender, receiver) = (member(self.job, from), member(self.job, to));
        let data = message(sender, self.number, bytes);
        let pattern = match wild {
            true => recv(None, None, longest + 8),
            false => recv(Some(from), Some(tag), longest + 8),
        };
        self.sent.entry((from, to, tag)).or_default().push_back((self.number, data.len()));
        let sent = machine.post(self.placement[from as usize], sender, send(to, tag, data));
        self.sends.push((sender, sent));
        self.held.push_back((receiver, to, pattern));
        if dice.chance(50) {
            self.post_held(machine);
        }
    }

    /// Posts the receives that were held back, in their order.
    fn post_held(&mut self, machine: &mut Lockstep) {
        for (who, rank, post) in std::mem::take(&mut self.held) {
            let request = machine.post(self.placement[rank as usize], who, post);
            self.receives.push((who, request));
        }
    }

    /// Takes received messages in the order of the receives, and checks that, for each pair and
    /// tag, the earlier message went to the earlier receive.
    fn check(&mut self, machine: &Lockstep, seed: u64) {
        for (who, request) in std::mem::take(&mut self.receives) {
            let Some(Outcome::Received { status, data }) = machine.outcome(who, request) else {
                panic!("seed {seed}: {who:?} has not received");
            };
            let (from, number) = read(&data);
            assert_eq!((from, data.len()), (status.source.0, status.bytes), "seed {seed}");
            let queue = self.sent.get_mut(&(from, who.rank.0, status.tag.0));
            let expected = queue.and_then(VecDeque::pop_front);
            assert_eq!(expected, Some((number, data.len())), "seed {seed}: {who:?} from {from}");
            let text = message(member(self.job, from), number, data.len() - 8);
            assert_eq!(data, text, "seed {seed}");
        }
        for (who, request) in std::mem::take(&mut self.sends) {
            assert_eq!(machine.outcome(who, request), Some(Outcome::Done), "seed {seed}");
        }
        assert!(self.sent.values().all(VecDeque::is_empty), "seed {seed}: a message is left");
    }
}

fn chat(seed: u64, rounds: usize, settle: usize) -> u64 {
    let mut dice = SplitMix64(seed ^ 0xb0c5);
    let nodes = 1 + dice.below(5) as u32;
    let mut machine = Lockstep::new(seed, nodes, small());
    let mut jobs: Vec<Chatter> = Vec::new();
    for job in 0..1 + dice.below(2) as u64 {
        let ranks = 1 + dice.below(7);
        let placement = (0..ranks).map(|_| 1 + dice.below(nodes as usize) as u32).collect();
        jobs.push(Chatter::new(&mut machine, job, placement));
    }
    for _ in 0..rounds {
        let (longest, wild) = ([16, 200, 3000][dice.below(3)], dice.chance(40));
        for _ in 0..dice.below(8) {
            for job in &mut jobs {
                for _ in 0..dice.below(4) {
                    job.speak(&mut machine, &mut dice, longest, wild);
                }
            }
            machine.step();
        }
        jobs.iter_mut().for_each(|job| job.post_held(&mut machine));
        // The rest moves by at least one message's share per slice.
        let mut idle = 0;
        while idle < settle {
            machine.step();
            let all_heard = |job: &Chatter| {
                job.receives.iter().chain(&job.sends).all(|key| machine.heard.contains_key(key))
            };
            idle += usize::from(jobs.iter().all(all_heard));
            assert!(machine.slice < 1_000_000, "seed {seed}: messages starve");
        }
        jobs.iter_mut().for_each(|job| job.check(&machine, seed));
        machine.heard.clear();
    }
    machine.slice
}

#[test]
fn random_messages_arrive_whole_and_in_the_order_of_mpi() {
    for seed in 0..300 {
        chat(seed, 3, 1);
    }
}

/// Everything that ranks receive, slice by slice.
fn transcript(posts: u64, interleaving: u64) -> Vec<String> {
    let mut dice = SplitMix64(posts);
    let mut machine = Lockstep::new(interleaving, 4, small());
    let placement = vec![1, 2, 2, 3, 4, 4];
    let mut job = Chatter::new(&mut machine, 0, placement);
    let mut transcript = Vec::new();
    for slice in 0..60 {
        for _ in 0..if slice < 15 { dice.below(6) } else { 0 } {
            job.speak(&mut machine, &mut dice, 900, true);
        }
        if slice == 15 {
            job.post_held(&mut machine);
        }
        machine.step();
        transcript.push(format!("{:?}", std::mem::take(&mut machine.heard)));
    }
    transcript
}

#[test]
fn the_same_posts_are_done_in_the_same_slices_whatever_the_network_does() {
    for posts in 0..20 {
        let one = transcript(posts, 1);
        assert!(one.iter().any(|slice| slice.contains("Received")), "posts {posts}");
        for interleaving in 2..6 {
            assert_eq!(one, transcript(posts, interleaving), "posts {posts}, {interleaving}");
        }
    }
}

/// A million slices, each of which asserts that nothing is on the way at its end. A debug build
/// would take minutes, so it does a hundredth of it.
#[test]
fn a_million_slices_end_with_an_empty_network() {
    let most = if cfg!(debug_assertions) { 10_000 } else { 1_000_000 };
    let (mut slices, mut seed) = (0, 1_000);
    while slices < most {
        slices += chat(seed, 20, 1);
        seed += 1;
    }
}

#[test]
fn a_link_carries_its_budget_in_each_slice_and_the_rest_later() {
    let mut machine = Lockstep::new(1, 3, small());
    machine.open(0, &[1, 2, 3]);
    // Each sender has more than a slice's bytes for one receiver.
    let payload = 700;
    let sends = [1, 2].map(|rank| {
        (rank, machine.post(rank + 1, member(0, rank), send(0, 0, vec![rank as u8; payload])))
    });
    let receives =
        [1, 2].map(|rank| machine.post(1, member(0, 0), recv(Some(rank), None, payload)));
    let mut carried = Vec::new();
    for _ in 0..4 {
        machine.step();
        carried.push(machine.payload_bytes);
    }
    // The older message fills the link, with 16 bytes of head for each piece. The other begins
    // where it ends.
    assert_eq!(carried, [496, 204 + 272, 428, 0]);
    for (request, (rank, sent)) in receives.into_iter().zip(sends) {
        assert_eq!(machine.outcome(member(0, rank), sent), Some(Outcome::Done));
        let Some(Outcome::Received { data, .. }) = machine.outcome(member(0, 0), request) else {
            panic!("nothing received");
        };
        assert_eq!(data, vec![rank as u8; payload]);
    }
}

#[test]
fn an_old_message_does_not_wait_for_ever_behind_younger_ones() {
    let mut machine = Lockstep::new(1, 3, small());
    machine.open(0, &[1, 2, 3]);
    let old = machine.post(1, member(0, 0), send(1, 0, vec![1; 4 * 496]));
    machine.post(2, member(0, 1), recv(None, None, 4 * 496));
    for _ in 0..6 {
        machine.step();
        // Another receiver wants the sender's whole link, and others want that receiver's.
        for (rank, node, to, at) in [(0, 1, 2, 3), (2, 3, 1, 2)] {
            machine.post(node, member(0, rank), send(to, 0, vec![2; 496]));
            machine.post(at, member(0, to), recv(Some(rank), None, 496));
        }
    }
    assert_eq!(machine.outcome(member(0, 0), old), Some(Outcome::Done));
}

#[test]
fn a_message_that_is_longer_than_its_buffer_is_cut_and_says_so() {
    let mut machine = Lockstep::new(1, 2, small());
    machine.open(0, &[1, 2]);
    machine.post(1, member(0, 0), send(1, 7, vec![9; 2000]));
    let request = machine.post(2, member(0, 1), recv(None, None, 10));
    (0..8).for_each(|_| machine.step());
    let Some(Outcome::Received { status, data }) = machine.outcome(member(0, 1), request) else {
        panic!("nothing received");
    };
    assert_eq!((status.bytes, status.tag.0, data), (2000, 7, vec![9; 10]));
}

#[test]
fn an_operation_is_done_two_slices_after_it_was_posted() {
    let mut machine = Lockstep::new(1, 2, small());
    machine.open(0, &[1, 2]);
    machine.step();
    let sent = machine.post(1, member(0, 0), send(1, 0, vec![1]));
    let received = machine.post(2, member(0, 1), recv(Some(0), None, 1));
    machine.step();
    assert!(machine.heard.is_empty(), "a rank hears at an edge");
    machine.step();
    assert!(machine.outcome(member(0, 0), sent).is_some());
    assert!(machine.outcome(member(0, 1), received).is_some());
}

#[test]
fn an_absent_rank_can_neither_send_nor_receive() {
    let mut machine = Lockstep::new(1, 2, small());
    machine.open(0, &[1, 2]);
    let mut post = |node: usize, who, what: Post| machine.engines[node].post(who, what).is_err();
    assert!(post(0, member(0, 1), send(0, 0, vec![])), "on another node");
    assert!(post(0, member(0, 0), send(2, 0, vec![])), "no such rank");
    assert!(post(0, member(1, 0), send(0, 0, vec![])), "no such job");
}
