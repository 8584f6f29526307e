//! The ranks of `bcs-live`. They measure blocking messages and collectives. Run them as two ranks
//! or more on one host, because their clocks are compared. Rank 0 prints JSON.

use anyhow::{Result, ensure};
use clap::Parser;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::time::Duration;
use storm_mpi::{Communicator, Rank, ReduceOp, Tag, World};

/// Times blocking messages between ranks 0 and 1, and collectives of all.
#[derive(Debug, Parser)]
struct Options {
    /// Messages each way, and collectives of each kind
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Longest time of other work before a message is sent, in microseconds; each is drawn
    #[arg(long, default_value_t = 1000)]
    pause_us: u64,
}

/// The measured times, in microseconds.
#[derive(Debug, Serialize)]
struct Measured {
    /// The time from a blocking send, at any time, until the receiver continues.
    message: Times,
    /// The times of a message sent as soon as the previous one has arrived.
    at_once: Times,
    /// A barrier, called as soon as the previous one is over.
    barrier: Times,
    /// A sum of one number for all, called as soon as the previous one is over.
    allreduce: Times,
}

/// Times of one operation.
#[derive(Debug, Serialize)]
struct Times {
    mean: f64,
    /// The twentieth part is less.
    p5: f64,
    /// The twentieth part is more.
    p95: f64,
}

impl Times {
    fn of(mut us: Vec<f64>) -> Times {
        us.sort_by(f64::total_cmp);
        let at = |percent: usize| us.get(us.len() * percent / 100).copied().unwrap_or(f64::NAN);
        Times { mean: us.iter().sum::<f64>() / us.len() as f64, p5: at(5), p95: at(95) }
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    let world = World::init()?;
    ensure!(world.size() > 1, "needs two ranks");
    let message = messages(&world, &options, options.pause_us)?;
    let at_once = messages(&world, &options, 0)?;
    let barrier = repeated(&options, || Ok(world.barrier()?))?;
    let allreduce = repeated(&options, || {
        let mut sum = [0.0];
        world.allreduce(&[1.0], &mut sum, ReduceOp::Sum)?;
        ensure!(sum == [world.size() as f64], "a wrong sum: {sum:?}");
        Ok(())
    })?;
    if world.rank() == Rank(0) {
        let measured = Measured { message, at_once, barrier, allreduce };
        println!("{}", serde_json::to_string(&measured)?);
    }
    Ok(world.finalize()?)
}

/// Messages to the other rank and back, each with the time at which it was sent. Rank 0 returns the
/// times of both ways.
fn messages(world: &Communicator, options: &Options, pause_us: u64) -> Result<Times> {
    let (me, mut took) = (world.rank(), Vec::new());
    let mut dice = u64::from(me.0) + 1;
    for turn in 0..2 * options.rounds {
        let from = Rank(turn % 2);
        let to = Rank(1 - turn % 2);
        if me == from {
            let until = now_us()? + (drawn(&mut dice) % (pause_us + 1)) as f64;
            while now_us()? < until {
                std::hint::spin_loop();
            }
            world.send(&[now_us()?], to, Tag(0))?;
        } else if me == to {
            let mut sent = [0.0];
            world.recv(&mut sent, from, Tag(0))?;
            took.push(now_us()? - sent[0]);
        }
    }
    let mut all = vec![0.0; options.rounds as usize * 2];
    let (mine, theirs) = all.split_at_mut(options.rounds as usize);
    if me == Rank(1) {
        world.send(&took, Rank(0), Tag(1))?;
    } else if me == Rank(0) {
        mine.copy_from_slice(&took);
        world.recv(theirs, Rank(1), Tag(1))?;
    }
    Ok(Times::of(all))
}

fn repeated(options: &Options, call: impl Fn() -> Result<()>) -> Result<Times> {
    call()?;
    let times = (0..options.rounds).map(|_| {
        let began = now_us()?;
        call()?;
        Ok(now_us()? - began)
    });
    Ok(Times::of(times.collect::<Result<_>>()?))
}

/// The host's clock, the same for all its processes.
fn now_us() -> Result<f64> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?).as_secs_f64() * 1e6)
}

/// The upper bits of the next number of a linear congruential generator (Knuth's MMIX).
fn drawn(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}
