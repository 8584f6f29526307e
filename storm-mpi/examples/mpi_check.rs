//! One rank of the message-passing checks: `mpi_check CASE [SEED]` under any PMI-1 launcher.
//!
//! Every case asserts. A rank that fails prints the reason and ends the job.

use nix::sys::signal::{self, Signal};
use storm_mpi::testing::SplitMix64;
use storm_mpi::{
    ANY_SOURCE, ANY_TAG, CommError, OnError, Rank, ReduceOp, Source, Tag, Tested, World,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let case = args.next().unwrap_or_else(|| String::from("hello"));
    let seed = args.next().map_or(Ok(1), |seed| seed.parse())?;
    let world = World::init()?;
    match case.as_str() {
        "hello" => hello(&world),
        "ring" => ring(&world)?,
        "pairs" => pairs(&world, seed)?,
        "any_source" => any_source(&world)?,
        "short" => short(&world)?,
        "order" => order(&world, seed)?,
        "head_to_head" => head_to_head(&world)?,
        "flood" => flood(&world)?,
        "stream" => stream(&world)?,
        "self" => to_self(&world)?,
        "test" => testing_requests(&world)?,
        "collectives" => collectives(&world, seed)?,
        "errors" => errors(&world)?,
        "die" => die(&world)?,
        "lost" => lost(&world)?,
        "pingpong" => pingpong(&world)?,
        "crossing" => crossing(&world, seed)?,
        other => return Err(format!("no case named {other}").into()),
    }
    world.finalize()?;
    Ok(())
}

fn hello(world: &World) {
    let (rank, size) = (world.rank(), world.size());
    println!("rank {rank} of {size} on {}", world.processor_name());
}

/// A token visits all ranks, several times.
fn ring(world: &World) -> Result<(), CommError> {
    let (me, size) = (world.rank().index(), world.size());
    let next = Rank::from_index((me + 1) % size);
    let previous = Rank::from_index((me + size - 1) % size);
    let mut token = [0u64];
    for lap in 0..10u64 {
        if me == 0 {
            token[0] += 1;
            world.send(&token, next, Tag(0))?;
            world.recv(&mut token, previous, Tag(0))?;
            assert_eq!(token[0], (lap + 1) * size as u64);
        } else {
            world.recv(&mut token, previous, Tag(0))?;
            token[0] += 1;
            world.send(&token, next, Tag(0))?;
        }
    }
    Ok(())
}

/// Short messages of every length around a ring, each received at once. Then come messages that
/// other receives have a right to, with another tag, or longer than their buffer.
fn short(world: &World) -> Result<(), CommError> {
    let (me, size) = (world.rank().index(), world.size());
    let next = Rank::from_index((me + 1) % size);
    let previous = Rank::from_index((me + size - 1) % size);
    let data = |from: usize, bytes: usize| -> Vec<u8> {
        (0..bytes).map(|i| (from + bytes + 7 * i) as u8).collect()
    };
    for bytes in (0..200).chain(4060..4105) {
        let expected = data(previous.index(), bytes);
        world.send(&data(me, bytes), next, Tag(3))?;
        let mut got = vec![0xee; bytes + bytes % 3];
        let status =
            world.recv(&mut got, previous, if bytes % 2 == 0 { ANY_TAG } else { Tag(3).into() })?;
        assert_eq!((status.source, status.tag, status.bytes), (previous, Tag(3), bytes));
        assert_eq!(got[..bytes], expected);
        assert!(got[bytes..].iter().all(|&byte| byte == 0xee), "no more than was sent");
    }
    for round in 0..100u32 {
        let (mut first, mut last, mut other) = ([0u32], [0u32], [0u32]);
        world.scope(|scope| {
            let posted = scope.irecv(&mut first, ANY_SOURCE, Tag(1))?;
            for (value, tag) in [(1, 1), (2, 2), (3, 1)] {
                world.send(&[10 * round + value], next, Tag(tag))?;
            }
            world.recv(&mut last, previous, Tag(1))?;
            posted.wait().map(drop)
        })?;
        world.recv(&mut other, previous, Tag(2))?;
        let base = 10 * round;
        assert_eq!((first, other, last), ([base + 1], [base + 2], [base + 3]), "not overtaken");
    }
    world.set_on_error(OnError::Return);
    for bytes in [21, 60, 3000] {
        world.send(&data(me, bytes), next, Tag(4))?;
        let mut got = [0; 20];
        let cut = world.recv(&mut got, previous, Tag(4));
        assert!(
            matches!(cut, Err(CommError::Truncated { sent_bytes, buffer_bytes: 20, .. }) if sent_bytes == bytes),
            "{cut:?}"
        );
        assert_eq!(got[..], data(previous.index(), bytes)[..20]);
    }
    Ok(())
}

const MAX_BYTES: usize = 4 << 20;
const MESSAGES_PER_PAIR: usize = 4;

/// Every size class repeatedly: empty, around the eager limit, around the ring, large.
fn message(seed: u64, from: usize, to: usize, index: usize) -> Vec<u8> {
    let mut random = SplitMix64(seed ^ (from << 40 | to << 20 | index) as u64);
    let bytes = match random.below(6) {
        0 => random.below(3),
        1 => random.below(200),
        2 => (16 << 10) - 1 + random.below(3),
        3 => (64 << 10) - 40 + random.below(80),
        4 => random.below(256 << 10),
        _ => random.below(MAX_BYTES + 1),
    };
    let mut data = vec![0; bytes];
    for chunk in data.chunks_mut(8) {
        let word = random.next_u64().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    data
}

/// All pairs at once with random sizes; every byte is checked.
fn pairs(world: &World, seed: u64) -> Result<(), CommError> {
    let (me, size) = (world.rank().index(), world.size());
    let each: Vec<(usize, usize)> =
        (0..size).flat_map(|r| (0..MESSAGES_PER_PAIR).map(move |i| (r, i))).collect();
    let out: Vec<Vec<u8>> = each.iter().map(|&(to, i)| message(seed, me, to, i)).collect();
    let mut buffers: Vec<Vec<u8>> = each.iter().map(|_| vec![0; MAX_BYTES]).collect();
    world.scope(|scope| {
        let mut sends = Vec::new();
        for (&(to, i), data) in each.iter().zip(&out) {
            sends.push(scope.isend(data, Rank::from_index(to), Tag(i as i32))?);
        }
        let mut receives = Vec::new();
        for (&(from, i), buffer) in each.iter().zip(&mut buffers) {
            receives.push(scope.irecv(buffer, Rank::from_index(from), Tag(i as i32))?);
        }
        for (&(from, i), receive) in each.iter().zip(receives) {
            let (status, buffer) = receive.wait()?;
            let expected = message(seed, from, me, i);
            assert_eq!(status.bytes, expected.len(), "seed {seed}: {from} -> {me} #{i}");
            assert!(buffer[..status.bytes] == expected, "seed {seed}: {from} -> {me} #{i}");
        }
        scope.wait_all_sends(sends)
    })
}

/// Rank 0 receives from any source, and sees all messages of each rank in order.
fn any_source(world: &World) -> Result<(), CommError> {
    const EACH: u64 = 50;
    let size = world.size();
    if world.rank() != Rank(0) {
        for i in 0..EACH {
            world.send(&[u64::from(world.rank().0), i], Rank(0), Tag(i as i32))?;
        }
        return Ok(());
    }
    let mut next = vec![0; size];
    for _ in 0..EACH as usize * (size - 1) {
        let mut got = [0u64; 2];
        let status = world.recv(&mut got, ANY_SOURCE, ANY_TAG)?;
        let from = status.source.index();
        assert_eq!(got, [from as u64, next[from]]);
        assert_eq!(status.tag, Tag(got[1] as i32));
        assert_eq!(status.bytes, 16);
        next[from] += 1;
    }
    assert!(next[1..].iter().all(|&n| n == EACH));
    Ok(())
}

/// Messages of one pair and tag arrive in order, whatever their sizes and protocols.
fn order(world: &World, seed: u64) -> Result<(), CommError> {
    const COUNT: usize = 200;
    const ELEMENTS: usize = 20_000;
    let (me, size) = (world.rank().index(), world.size());
    let length =
        |from: usize, i: usize| 1 + SplitMix64(seed ^ (from * COUNT + i) as u64).below(ELEMENTS);
    let to = Rank::from_index((me + 1) % size);
    let from = (me + size - 1) % size;
    let out: Vec<Vec<u32>> = (0..COUNT).map(|i| vec![i as u32; length(me, i)]).collect();
    world.scope(|scope| {
        let sends: Result<Vec<_>, _> = out.iter().map(|m| scope.isend(m, to, Tag(7))).collect();
        let mut buffer = vec![0u32; ELEMENTS + 1];
        for i in 0..COUNT {
            let tag = if i % 2 == 0 { ANY_TAG } else { Tag(7).into() };
            let source = if i % 3 == 0 { ANY_SOURCE } else { Source::Rank(Rank::from_index(from)) };
            let status = world.recv(&mut buffer, source, tag)?;
            let expected = length(from, i);
            assert_eq!(status.bytes, 4 * expected, "seed {seed}: message {i}");
            assert!(buffer[..expected].iter().all(|&x| x == i as u32), "seed {seed}: message {i}");
        }
        scope.wait_all_sends(sends?)
    })
}

/// Both sides send first: blocking for small messages, non-blocking at any size.
fn head_to_head(world: &World) -> Result<(), CommError> {
    let me = world.rank().index();
    let other = Rank::from_index(world.size() - 1 - me);
    let small = vec![me as u8; 16 << 10];
    world.send(&small, other, Tag(1))?;
    let mut got = vec![0u8; 16 << 10];
    world.recv(&mut got, other, Tag(1))?;
    assert!(got.iter().all(|&b| b == other.0 as u8));
    let large = vec![me as u64; 3 << 20];
    let mut got = vec![0u64; 3 << 20];
    let status = world.sendrecv(&large, other, Tag(2), &mut got, other, Tag(2))?;
    assert_eq!(status.bytes, 24 << 20);
    assert!(got.iter().all(|&x| x == u64::from(other.0)));
    Ok(())
}

/// Far more than the eager credit, towards a rank that takes the last message first.
fn flood(world: &World) -> Result<(), CommError> {
    const COUNT: usize = 3000;
    if world.rank() == Rank(0) {
        let mut got = [0u64; 100];
        world.recv(&mut got, Rank(1), Tag(COUNT as i32 - 1))?;
        for i in 0..COUNT - 1 {
            world.recv(&mut got, Rank(1), Tag(i as i32))?;
            assert_eq!(got, [i as u64; 100]);
        }
    } else if world.rank() == Rank(1) {
        let out: Vec<[u64; 100]> = (0..COUNT).map(|i| [i as u64; 100]).collect();
        world.scope(|scope| {
            for (i, data) in out.iter().enumerate() {
                // The scope waits for the send.
                let _send = scope.isend(data, Rank(0), Tag(i as i32))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Rank 1 sends to rank 0 until rank 2 tells it to stop, when rank 0 tells rank 2. A rank that
/// reads a stream must not forget what it has to write.
fn stream(world: &World) -> Result<(), CommError> {
    let (reader, writer, stopper) = (Rank(0), Rank(1), Rank(2));
    let mut got = [1u64];
    match world.rank() {
        me if me == reader => world.scope(|scope| {
            let _send = scope.isend(&[7u8], stopper, Tag(1))?;
            while got != [0] {
                world.recv(&mut got, writer, Tag(2))?;
            }
            Ok(())
        }),
        me if me == writer => {
            while world.iprobe(stopper, Tag(3))?.is_none() {
                world.send(&[1u64], reader, Tag(2))?;
            }
            world.recv(&mut got, stopper, Tag(3))?;
            world.send(&[0u64], reader, Tag(2))
        }
        _ => {
            let mut told = [0u8];
            world.recv(&mut told, reader, Tag(1))?;
            world.send(&got, writer, Tag(3))
        }
    }
}

fn to_self(world: &World) -> Result<(), CommError> {
    let me = world.rank();
    world.send(&[1u8, 2, 3], me, Tag(1))?;
    let mut small = [0u8; 3];
    world.recv(&mut small, me, Tag(1))?;
    assert_eq!(small, [1, 2, 3]);
    let large = vec![7u32; 1 << 20];
    let mut got = vec![0u32; 1 << 20];
    world.sendrecv(&large, me, Tag(2), &mut got, ANY_SOURCE, ANY_TAG)?;
    assert_eq!(got, large);
    Ok(())
}

/// `test` makes progress by itself.
fn testing_requests(world: &World) -> Result<(), CommError> {
    let me = world.rank().index();
    let other = Rank::from_index(world.size() - 1 - me);
    let out = vec![me as u32; 100_000];
    let mut buffer = vec![0u32; 100_000];
    world.scope(|scope| {
        let mut recv = scope.irecv(&mut buffer, other, Tag(3))?;
        let mut send = Some(scope.isend(&out, other, Tag(3))?);
        loop {
            if let Some(pending) = send.take() {
                match pending.test()? {
                    Tested::Done(()) => {}
                    Tested::Pending(again) => send = Some(again),
                }
            }
            match recv.test()? {
                Tested::Done((status, got)) => {
                    assert_eq!(status.bytes, 400_000);
                    assert!(got.iter().all(|&x| x == other.0));
                    return Ok(());
                }
                Tested::Pending(again) => recv = again,
            }
            std::thread::yield_now();
        }
    })
}

/// All collectives against what one process computes.
fn collectives(world: &World, seed: u64) -> Result<(), CommError> {
    let (me, size) = (world.rank().index(), world.size());
    for (round, elements) in [0, 1, 3, 1000, 70_000].into_iter().enumerate() {
        let value = |r: usize, i: usize| SplitMix64(seed ^ (r << 32 | i) as u64).next_u64();
        let integers: Vec<u64> = (0..elements).map(|i| value(me, i)).collect();
        let floats: Vec<f64> = integers.iter().map(|&x| (x % 1000) as f64 - 500.0).collect();
        let signed: Vec<i32> = integers.iter().map(|&x| x as i32).collect();
        let mut sum = vec![0; elements];
        world.allreduce(&integers, &mut sum, ReduceOp::Sum)?;
        let mut smallest = vec![0.0; elements];
        world.allreduce(&floats, &mut smallest, ReduceOp::Min)?;
        let root = Rank::from_index(round % size);
        let mut largest = vec![0; elements];
        world.reduce(&signed, &mut largest, ReduceOp::Max, root)?;
        let mut copy = if me == root.index() { integers.clone() } else { vec![0; elements] };
        world.bcast(&mut copy, root)?;
        for i in 0..elements {
            let all = (0..size).map(|r| value(r, i));
            assert_eq!(sum[i], all.clone().fold(0, u64::wrapping_add), "seed {seed}");
            let least = all.clone().map(|x| (x % 1000) as f64 - 500.0).fold(f64::MAX, f64::min);
            assert_eq!(smallest[i], least, "seed {seed}");
            if me == root.index() {
                assert_eq!(Some(largest[i]), all.map(|x| x as i32).max(), "seed {seed}");
            }
            assert_eq!(copy[i], value(root.index(), i), "seed {seed}");
        }
        world.barrier()?;
    }
    // The order of a sum is fixed, so its bits are: they are printed for comparison between runs.
    let mut total = [0.0];
    world.allreduce(&[1.0 / (me as f64 + 3.0)], &mut total, ReduceOp::Sum)?;
    println!("{:016x}", f64::to_bits(total[0]));
    Ok(())
}

fn errors(world: &World) -> Result<(), CommError> {
    world.set_on_error(OnError::Return);
    let size = world.size() as u32;
    let unknown = world.send(&[0u8], Rank(size), Tag(0));
    assert!(matches!(unknown, Err(CommError::NoSuchRank { .. })));
    for bytes in [100, 100_000] {
        let me = world.rank().index();
        let other = Rank::from_index(world.size() - 1 - me);
        let out = vec![1u8; bytes];
        let mut short = [0u8; 10];
        let cut = world.sendrecv(&out, other, Tag(1), &mut short, other, Tag(1));
        assert!(matches!(cut, Err(CommError::Truncated { buffer_bytes: 10, .. })), "{cut:?}");
        assert_eq!(short, [1; 10]);
    }
    let mut numbers = [0u32; 4];
    world.send(&[1u8; 7], world.rank(), Tag(2))?;
    let odd = world.recv(&mut numbers, world.rank(), Tag(2));
    assert!(matches!(odd, Err(CommError::PartialElement { sent_bytes: 7, .. })));
    world.barrier()
}

/// The last rank aborts the job while the others wait for it.
fn die(world: &World) -> Result<(), CommError> {
    let last = Rank::from_index(world.size() - 1);
    if world.rank() == last {
        world.abort(7);
    }
    world.recv(&mut [0u8], last, Tag(0)).map(|_| ())
}

/// The last rank vanishes without notice, once all are connected with it.
fn lost(world: &World) -> Result<(), CommError> {
    world.set_on_error(OnError::Return);
    let last = Rank::from_index(world.size() - 1);
    if world.rank() == last {
        for r in 0..last.0 {
            world.send(&[1u8], Rank(r), Tag(0))?;
            world.recv(&mut [0u8], Rank(r), Tag(0))?;
        }
        signal::raise(Signal::SIGKILL).expect("a process may kill itself");
    }
    world.recv(&mut [0u8], last, Tag(0))?;
    world.send(&[1u8], last, Tag(0))?;
    let error = world.recv(&mut [0u8], last, Tag(0)).expect_err("the peer is gone");
    assert!(matches!(error, CommError::PeerLost { rank, .. } if rank == last), "{error}");
    eprintln!("told: {error}");
    std::process::exit(3);
}

/// Measures round trips and bandwidth between ranks 0 and 1, and prints them.
fn pingpong(world: &World) -> Result<(), CommError> {
    const ROUNDS: u32 = 2000;
    let other = Rank(1 - world.rank().0.min(1));
    for bytes in [8, 4096, 65_536, 1 << 20] {
        let rounds = if bytes > 4096 { ROUNDS / 10 } else { ROUNDS };
        let mut buffer = vec![0u8; bytes];
        let begin = world.wtime_s();
        for _ in 0..rounds {
            if world.rank() == Rank(0) {
                world.send(&buffer, other, Tag(0))?;
                world.recv(&mut buffer, other, Tag(0))?;
            } else if world.rank() == Rank(1) {
                world.recv(&mut buffer, other, Tag(0))?;
                world.send(&buffer, other, Tag(0))?;
            }
        }
        let round_us = (world.wtime_s() - begin) * 1e6 / f64::from(rounds);
        if world.rank() == Rank(0) {
            let mib_s = 2.0 * bytes as f64 / round_us * 1e6 / f64::from(1 << 20);
            println!("{bytes:8} bytes: round trip {round_us:8.2} us, {mib_s:8.0} MiB/s");
        }
    }
    Ok(())
}

/// All ranks send to all at once, so that each dials. In the end each has one socket for each of
/// `elsewhere` ranks.
fn crossing(world: &World, elsewhere: u64) -> Result<(), Box<dyn std::error::Error>> {
    let before = sockets()?;
    let others: Vec<Rank> =
        (0..world.size()).map(Rank::from_index).filter(|&rank| rank != world.rank()).collect();
    for round in 0u64.. {
        let mut got = vec![[0u64; 20]; others.len()];
        let words = [round; 20];
        world.scope(|scope| {
            let mut receives = Vec::new();
            for (&other, buffer) in others.iter().zip(&mut got) {
                receives.push(scope.irecv(buffer, other, Tag(1))?);
                let _send = scope.isend(&words, other, Tag(1))?;
            }
            receives.into_iter().try_for_each(|receive| receive.wait().map(drop))
        })?;
        assert!(got.iter().all(|got| *got == words), "in order");
        let settled = sockets()? == before + elsewhere;
        let mut all = [0u64];
        world.allreduce(&[u64::from(settled)], &mut all, ReduceOp::Min)?;
        if all == [1] {
            break;
        }
    }
    Ok(())
}

/// Open sockets of this process.
fn sockets() -> Result<u64, std::io::Error> {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        // The directory's own descriptor is among them, and gone by then.
        let link = std::fs::read_link(entry?.path()).unwrap_or_default();
        count += u64::from(link.to_string_lossy().starts_with("socket:"));
    }
    Ok(count)
}
