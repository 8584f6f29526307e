//! One rank of the checks of collectives over bytes: `collective_check CASE ...` under any PMI-1
//! launcher.
//!
//! - `compare SEED`: in communicators of 1 to all ranks, collectives in one round of messages have
//!   the same bits as collectives along trees, chains and rings. The check runs waiting and in the
//!   background. It also covers reductions by blocks.
//! - `one KIND BYTES WAY`: one collective of all ranks, `at-once` or `along` trees. The launcher
//!   counts its rounds.
//! - `time KIND BYTES TIMES`: the duration of one collective in microseconds, each way in turn.
//!   Rank 0 prints the medians.

use std::ops::Range;
use std::time::Instant;
use storm_mpi::collective::{Blocks, BlocksMut, Combine, Party, Span, Turn, now};
use storm_mpi::testing::SplitMix64;
use storm_mpi::{CommError, Context, Process, Rank};

/// A context in which nodes are not asked to carry out collectives.
const CONTEXT: Context = Context(65);
const KINDS: [&str; 11] = [
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "scan",
    "exscan",
    "allgather",
    "gather",
    "scatter",
    "alltoall",
];
/// Lengths in elements of 8 bytes: none, few, more than nodes carry out, more than is sent without
/// a request in one message, and in all.
const LENGTHS: [usize; 8] = [0, 1, 3, 125, 2_100, 9_000, 14_000, 26_000];
/// Number of cases in each size of communicator.
const CASES: usize = 14;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let process: &'static Process = Box::leak(Box::new(Process::join()?));
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["compare", seed] => compare(process, seed.parse()?)?,
        ["one", kind, bytes, way] => {
            let planned = Planned::new(kind, bytes.parse::<usize>()? / 8, 0, process.size(), 1);
            let members = members(process.size());
            let party = Party::new(process, &members, process.rank().index(), CONTEXT);
            now(planned.run(party.at_once(way == "at-once")))?;
        }
        ["time", kind, bytes, times] => time(process, kind, bytes.parse()?, times.parse()?)?,
        _ => return Err("what?".into()),
    }
    Ok(process.finish()?)
}

fn members(size: usize) -> Vec<Rank> {
    (0..size).map(Rank::from_index).collect()
}

/// Both ways take turns, so that other load of the machine affects both.
fn time(process: &Process, kind: &str, bytes: usize, times: usize) -> Result<(), CommError> {
    let members = members(process.size());
    let party = Party::new(process, &members, process.rank().index(), CONTEXT);
    let planned = Planned::new(kind, bytes / 8, 0, process.size(), 1);
    let mut took = [Vec::new(), Vec::new()];
    for at in 0..2 * times {
        let way = at % 2;
        now(party.barrier())?;
        let began = Instant::now();
        now(planned.run(party.at_once(way == 0)))?;
        // The slowest member's time counts.
        let mine = Span::of(&(began.elapsed().as_micros() as u64).to_ne_bytes());
        let longest = now(party.allreduce(mine, &mut Longest))?;
        let longest = longest.as_ref().first_chunk().copied().map_or(0, u64::from_ne_bytes);
        took[way].push(longest);
    }
    if party.me() == 0 {
        let [at_once, along] = took.map(|mut us| {
            us.sort_unstable();
            us.get(us.len() / 2).copied().unwrap_or(0)
        });
        println!("{kind} of {bytes} bytes: at once {at_once} us, along trees {along} us");
    }
    Ok(())
}

fn compare(process: &'static Process, seed: u64) -> Result<(), CommError> {
    let me = process.rank().index();
    for size in 1..=process.size() {
        // The members are in another order than their ranks.
        let shift = seed as usize % size;
        let members: &'static [Rank] =
            (0..size).map(|at| Rank::from_index((at + shift) % size)).collect::<Vec<_>>().leak();
        let Some(me) = members.iter().position(|rank| rank.index() == me) else { continue };
        let party = Party::new(process, members, me, CONTEXT);
        let mut dice = SplitMix64(seed << 8 | size as u64);
        let mut turn = Turn::default();
        let mut under_way = Vec::new();
        for case in 0..CASES {
            let planned = Planned::drawn(&mut dice, size, case as u64);
            let expected = now(planned.run(party.at_once(false)))?;
            let found = now(planned.run(party.at_once(true)))?;
            assert!(found == expected, "{planned:?}, member {me} of {size}");
            let found = now(planned.run_in_place(party.at_once(false)))?;
            assert!(found == expected, "in place: {planned:?}, member {me} of {size}");
            turn = turn.next();
            // SAFETY: the process runs the collective to its end, which is waited for below.
            let party = unsafe { party.in_background(turn) }.at_once(case % 4 != 3);
            let what = planned.clone();
            let outstanding = process.in_background(async move {
                match case % 8 {
                    3 => what.run_in_place(party).await,
                    _ => what.run(party).await,
                }
            });
            under_way.push((planned, outstanding, expected));
        }
        for (planned, outstanding, expected) in under_way {
            let found = process.wait_for(&outstanding)??;
            assert!(found == expected, "in the background: {planned:?}, member {me} of {size}");
        }
    }
    Ok(())
}

/// A collective whose parameters all members know.
#[derive(Clone, Debug)]
struct Planned {
    kind: &'static str,
    /// Bytes of each member; in collectives of blocks, the blocks are parts of them.
    bytes: usize,
    root: usize,
    parts: Vec<Range<usize>>,
    seed: u64,
}

impl Planned {
    fn drawn(dice: &mut SplitMix64, size: usize, seed: u64) -> Planned {
        let kind = KINDS[dice.below(KINDS.len())];
        let length = LENGTHS[dice.below(LENGTHS.len())];
        let mut planned = Planned::new(kind, length, dice.below(size), size, seed);
        // The blocks have different lengths, and some are empty.
        let mut cuts: Vec<usize> = (1..size).map(|_| 8 * dice.below(length + 1)).collect();
        cuts.sort_unstable();
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain(std::iter::once(8 * length));
        planned.parts = starts.zip(ends).map(|(start, end)| start..end).collect();
        planned
    }

    fn new(kind: &str, length: usize, root: usize, size: usize, seed: u64) -> Planned {
        let kind = KINDS.into_iter().find(|known| *known == kind).expect("a collective");
        let part = |at: usize| 8 * (at * length / size)..8 * ((at + 1) * length / size);
        Planned { kind, bytes: 8 * length, root, parts: (0..size).map(part).collect(), seed }
    }

    /// A member's elements.
    fn data(&self, member: usize) -> Vec<u8> {
        let mut dice = SplitMix64(self.seed << 16 | member as u64);
        let value = |_| (dice.below(1 << 20) as f64 - 5e5) * 1e-3;
        (0..self.bytes / 8).map(value).flat_map(f64::to_ne_bytes).collect()
    }

    /// Like [`Planned::run`], but reductions read and write the program's own memory, and go by
    /// blocks if they are long.
    async fn run_in_place(&self, party: Party<'_>) -> Result<Vec<u8>, CommError> {
        let (me, mut mine) = (party.me(), self.data(party.me()));
        let (places, op) = (&self.parts[..], &mut Uneven);
        match self.kind {
            "allreduce" => party.allreduce_into(&mut mine, op).await?,
            "reduce" if me != self.root => {
                party.reduce_into(Some(&mine), None, op, self.root).await?;
                mine.clear();
            }
            "reduce" if self.seed.is_multiple_of(2) => {
                party.reduce_into(None, Some(&mut mine), op, me).await?
            }
            "reduce" => {
                let mut into = vec![0; mine.len()];
                party.reduce_into(Some(&mine), Some(&mut into), op, me).await?;
                mine = into;
            }
            "reduce_scatter" => {
                let mut all = vec![0; self.bytes];
                let part = &mut all[places[me].clone()];
                party.reduce_scatter_into(&mine, op, places, part).await?;
                mine = all;
            }
            _ => return self.run(party).await,
        }
        Ok(mine)
    }

    /// The whole result for this member.
    async fn run(&self, party: Party<'_>) -> Result<Vec<u8>, CommError> {
        let (me, mine) = (party.me(), self.data(party.me()));
        let (span, op) = (Span::of(&mine), &mut Uneven);
        let places = &self.parts[..];
        let mut all = vec![0; self.bytes];
        let own = places[me].clone();
        let is_root = me == self.root;
        let bytes = |span: Option<Span>| span.map_or(Vec::new(), |span| span.as_ref().to_vec());
        match self.kind {
            "barrier" => party.barrier().await?,
            "bcast" => {
                all.copy_from_slice(&mine);
                party.bcast(&mut all, self.root).await?;
            }
            "reduce" => return Ok(bytes(party.reduce(span, op, self.root).await?)),
            "allreduce" => return Ok(bytes(Some(party.allreduce(span, op).await?))),
            "scan" => {
                all.copy_from_slice(&mine);
                party.scan(&mut all, op).await?;
            }
            "exscan" if self.seed.is_multiple_of(2) => {
                all.copy_from_slice(&mine);
                party.exscan(None, &mut all, op).await?;
            }
            "exscan" => party.exscan(Some(&mine), &mut all, op).await?,
            "reduce_scatter" => {
                party.reduce_scatter(span, op, places, &mut all[own]).await?;
            }
            "allgather" => {
                let mut into = BlocksMut::new(&mut all, places)?;
                party.allgather(Some(&mine[own]), &mut into).await?;
            }
            "gather" => {
                let mut into = BlocksMut::new(&mut all, places)?;
                let into = is_root.then_some(&mut into);
                party.gather(Some(&mine[own]), into, self.root).await?;
            }
            "scatter" => {
                let from = is_root.then(|| Blocks::new(&mine, places)).transpose()?;
                party.scatter(from, Some(&mut all[own]), self.root).await?;
            }
            _ => {
                // Data for a member is as long as its own block.
                let length = |from: usize, to: usize| (from + to) % 3 * 8 * (self.bytes % 5);
                let places = |length: &dyn Fn(usize) -> usize| {
                    let mut end = 0;
                    let place = |member| {
                        end += length(member);
                        end - length(member)..end
                    };
                    (0..party.size()).map(place).collect::<Vec<_>>()
                };
                let (from, to) = (places(&|m| length(me, m)), places(&|m| length(m, me)));
                let ends = |places: &[Range<usize>]| places.last().map_or(0, |place| place.end);
                let data: Vec<u8> = (0..ends(&from)).map(|at| (at * 7 + me) as u8).collect();
                all = vec![0; ends(&to)];
                let mut into = BlocksMut::new(&mut all, &to)?;
                party.alltoall(Blocks::new(&data, &from)?, &mut into).await?;
            }
        }
        Ok(all)
    }
}

/// The larger of two numbers.
struct Longest;

impl Combine for Longest {
    fn combine(&mut self, left: &mut [u8], right: &mut [u8]) -> Result<(), CommError> {
        let number = |bytes: &[u8]| bytes.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        if number(left) > number(right) {
            right.copy_from_slice(left);
        }
        Ok(())
    }

    fn element_bytes(&self) -> usize {
        size_of::<u64>()
    }
}

/// An operation on numbers that is neither associative nor commutative: its bits tell which
/// operands were combined in which order.
struct Uneven;

impl Combine for Uneven {
    fn combine(&mut self, left: &mut [u8], right: &mut [u8]) -> Result<(), CommError> {
        let (right, _) = right.as_chunks_mut::<8>();
        for (l, r) in left.as_chunks::<8>().0.iter().zip(right) {
            *r = (f64::from_ne_bytes(*l) * 0.75 - f64::from_ne_bytes(*r) * 1.25).to_ne_bytes();
        }
        Ok(())
    }

    fn element_bytes(&self) -> usize {
        size_of::<f64>()
    }
}
