//! Supersteps of a bulk-synchronous program: compute for a while, exchange, again.
//!
//! The literature on coscheduling measures with such programs (Arpaci-Dusseau, ACM TOCS 19(3),
//! 2001; Frachtenberg et al., IEEE TPDS 16(11), 2005). The parameters are the computing time
//! between two exchanges, how unevenly the work is spread, and how much the processors differ in
//! speed. Computing is measured in processor time, not in time passed: a stopped rank has as much
//! left to compute as before. Times therefore differ from run to run, and answers do not. The same
//! program in C: `c/bsp.c`.

use crate::answer::Answer;
use crate::checksum::{mix, of_all, term, unit};
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::{Duration, Instant};
use storm_mpi::{CommError, Communicator, Rank, ReduceOp, Tag};

/// Rounds of [`mix`] between two readings of the clock: under a microsecond.
const ROUNDS: u32 = 256;

/// The settings.
#[derive(Clone, Copy, Debug, Args)]
pub struct Bsp {
    /// Supersteps
    #[arg(long, default_value_t = 100)]
    pub steps: u32,
    /// Computing between two exchanges of the rank that computes least, in microseconds of
    /// processor time
    #[arg(long, value_name = "US", default_value_t = 1000)]
    pub granularity: u32,
    /// Computing of the ranks with more work, as a multiple of the others'
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub imbalance: f64,
    /// Ranks with more work
    #[arg(long, value_enum, default_value_t = Heavy::Upper)]
    pub heavy: Heavy,
    /// Slowness of the last rank, as a multiple of the first's; the others lie in proportion
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub heterogeneity: f64,
    /// Kind of exchange
    #[arg(long, value_enum, default_value_t = Exchange::Neighbours)]
    pub exchange: Exchange,
    /// Words of 8 bytes in each message
    #[arg(long, default_value_t = 16)]
    pub words: usize,
}

/// The ranks with more work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Heavy {
    /// The first half of the ranks
    Lower,
    /// The second half
    Upper,
    /// In each step every rank draws a factor between 1 and the imbalance
    Random,
}

/// The kind of exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Exchange {
    /// A barrier
    Barrier,
    /// Non-blocking messages to and from both neighbours on a ring
    Neighbours,
    /// Every rank to every rank
    All,
}

impl Bsp {
    /// Runs the supersteps.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn run(&self, comm: &Communicator) -> Result<Answer, Failure> {
        let (me, size) = (comm.rank().index() as u64, comm.size());
        for (option, factor) in
            [("imbalance", self.imbalance), ("heterogeneity", self.heterogeneity)]
        {
            if !(1.0..=1e6).contains(&factor) {
                return Err(Failure::Arguments(format!("--{option} is a factor of at least 1")));
            }
        }
        let mut state: Vec<u64> = (0..self.words as u64).map(|i| term(me, i)).collect();
        comm.barrier()?;
        let (begin, mut computed) = (Instant::now(), Duration::ZERO);
        for step in 0..self.steps {
            computed += compute(self.budget(comm, step))?;
            match self.exchange {
                Exchange::Barrier => comm.barrier()?,
                Exchange::Neighbours => neighbours(comm, &mut state)?,
                Exchange::All => everybody(comm, &mut state)?,
            }
            state.iter_mut().for_each(|word| *word = mix(word.wrapping_add(u64::from(step))));
        }
        let elapsed = begin.elapsed();
        let place = |i: usize| me * self.words as u64 + i as u64;
        let words = state.iter().enumerate();
        let sum = words.fold(0_u64, |sum, (i, &word)| sum.wrapping_add(term(place(i), word)));
        let sum = of_all(comm, sum)?;
        let mut mean = [0.0];
        comm.allreduce(&[computed.as_secs_f64() / size as f64], &mut mean, ReduceOp::Sum)?;
        let text = format!("bsp: {size} ranks, {} steps, check sum {sum:016x}", self.steps);
        let times =
            format!("{:.6} s, of which a rank computed {:.6} s", elapsed.as_secs_f64(), mean[0]);
        Ok(Answer { text, right: None, times: Some(times) })
    }

    /// The computing time of this rank in a step.
    fn budget(&self, comm: &Communicator, step: u32) -> Duration {
        let (me, size) = (comm.rank().index(), comm.size());
        let draw = || unit((me as u64) << 32 | u64::from(step));
        let more = match self.heavy {
            Heavy::Lower => f64::from(u8::from(me < size / 2)),
            Heavy::Upper => f64::from(u8::from(me >= size - size / 2)),
            Heavy::Random => draw(),
        };
        let slower = if size > 1 { me as f64 / (size - 1) as f64 } else { 0.0 };
        let factor =
            (1.0 + (self.imbalance - 1.0) * more) * (1.0 + (self.heterogeneity - 1.0) * slower);
        Duration::from_micros(self.granularity.into()).mul_f64(factor)
    }
}

/// Computes until this thread has used `budget` of its processor. Returns the time used.
fn compute(budget: Duration) -> Result<Duration, Failure> {
    if budget.is_zero() {
        return Ok(budget);
    }
    let used = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let (begin, mut word) = (used()?, 0);
    loop {
        (0..ROUNDS).for_each(|_| word = mix(black_box(word)));
        let so_far = used()?.saturating_sub(begin);
        if so_far >= budget {
            return Ok(so_far);
        }
    }
}

/// Every rank's words go both ways round a ring, to the next rank.
fn neighbours(comm: &Communicator, state: &mut [u64]) -> Result<(), CommError> {
    const RIGHTWARD: Tag = Tag(0);
    const LEFTWARD: Tag = Tag(1);
    let (me, size) = (comm.rank().index(), comm.size());
    let left = Rank::from_index((me + size - 1) % size);
    let right = Rank::from_index((me + 1) % size);
    let (mine, mut from_left, mut from_right) = (state.to_vec(), state.to_vec(), state.to_vec());
    comm.scope(|scope| {
        let receives = [
            scope.irecv(&mut from_left, left, RIGHTWARD)?,
            scope.irecv(&mut from_right, right, LEFTWARD)?,
        ];
        let sends = [scope.isend(&mine, right, RIGHTWARD)?, scope.isend(&mine, left, LEFTWARD)?];
        scope.wait_all(receives)?;
        scope.wait_all_sends(sends)
    })?;
    for ((word, left), right) in state.iter_mut().zip(from_left).zip(from_right) {
        *word = mix(*word ^ left).wrapping_add(mix(right));
    }
    Ok(())
}

/// Every rank's words go to every rank, with the receiver's number mixed in.
fn everybody(comm: &Communicator, state: &mut [u64]) -> Result<(), CommError> {
    let out: Vec<u64> =
        (0..comm.size() as u64).flat_map(|to| state.iter().map(move |word| word ^ to)).collect();
    let mut into = vec![0; out.len()];
    comm.alltoall(&out, &mut into)?;
    for block in into.chunks_exact(state.len().max(1)) {
        for (word, &other) in state.iter_mut().zip(block) {
            *word = mix(word.wrapping_add(other));
        }
    }
    Ok(())
}
