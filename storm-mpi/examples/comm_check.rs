//! One rank of the checks of communicators: `comm_check` under any PMI-1 launcher.
//!
//! Every case asserts. A rank that fails prints the reason and ends the job.

use storm_mpi::{
    ANY_SOURCE, ANY_TAG, CommError, Communicator, OnError, Rank, ReduceOp, Tag, World,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::init()?;
    typed_collectives(&world)?;
    contexts_keep_apart(&world)?;
    rows_and_columns(&world)?;
    chosen_members(&world)?;
    made_and_dropped(&world)?;
    probes(&world)?;
    world.finalize()?;
    Ok(())
}

/// All collectives on any communicator, against their definition.
fn typed_collectives(comm: &Communicator) -> Result<(), CommError> {
    let (me, size) = (comm.rank().index(), comm.size());
    for elements in [0, 1, 5, 3000] {
        let block = |r: usize| (0..elements).map(move |i| (1000 * r + i) as i64);
        let mine: Vec<i64> = block(me).collect();
        let expected: Vec<i64> = (0..size).flat_map(block).collect();
        let mut all = vec![-1; size * elements];
        comm.allgather(&mine, &mut all)?;
        assert_eq!(all, expected);
        let root = Rank::from_index(size / 2);
        let mut gathered = vec![-1; if comm.rank() == root { size * elements } else { 0 }];
        comm.gather(&mine, &mut gathered, root)?;
        assert!(comm.rank() != root || gathered == expected);
        let mut part = vec![-1; elements];
        comm.scatter(&gathered, &mut part, root)?;
        assert_eq!(part, mine);
        // Block r of rank s comes to be block s of rank r.
        let out: Vec<i64> = (0..size).flat_map(|r| block(size * me + r)).collect();
        comm.alltoall(&out, &mut all)?;
        assert_eq!(all, (0..size).flat_map(|s| block(size * s + me)).collect::<Vec<_>>());
        comm.scan(&mine, &mut part, ReduceOp::Sum)?;
        let before = |i: usize| (0..=me).map(|r| (1000 * r + i) as i64).sum::<i64>();
        assert_eq!(part, (0..elements).map(before).collect::<Vec<_>>());
    }
    comm.barrier()
}

/// The same tag and pair in two communicators: each gets its own.
fn contexts_keep_apart(world: &World) -> Result<(), CommError> {
    let copy = world.duplicate()?;
    let me = world.rank().index();
    let next = Rank::from_index((me + 1) % world.size());
    world.send(&[1u32], next, Tag(5))?;
    copy.send(&[2u32], next, Tag(5))?;
    let mut got = [0u32; 2];
    copy.recv(&mut got[1..], ANY_SOURCE, ANY_TAG)?;
    world.recv(&mut got[..1], ANY_SOURCE, ANY_TAG)?;
    assert_eq!(got, [1, 2]);
    Ok(())
}

/// Splits a grid into rows and columns. Their members speak in turn and at once.
fn rows_and_columns(world: &World) -> Result<(), CommError> {
    let (me, width) = (world.rank().index(), world.size().isqrt());
    let (row, column) = (me / width, me % width);
    // Keys against the order of ranks reverse a row.
    let rows = world.split(Some(row as i32), -(me as i32))?.ok_or(CommError::Ended)?;
    let columns = world.split(Some(column as i32), 0)?.ok_or(CommError::Ended)?;
    assert_eq!(columns.rank().index(), row);
    assert_eq!(rows.rank().index(), rows.size() - 1 - column);
    for part in [&rows, &columns] {
        typed_collectives(part)?;
        // Sources are ranks of the communicator.
        let next = Rank::from_index((part.rank().index() + 1) % part.size());
        let previous = Rank::from_index((part.rank().index() + part.size() - 1) % part.size());
        let mut from = [0u64];
        let status = part.sendrecv(&[me as u64], next, Tag(0), &mut from, ANY_SOURCE, Tag(0))?;
        assert_eq!(status.source, previous);
        assert_eq!(Rank(from[0] as u32), part.group().members()[previous.index()]);
    }
    let mut total = [0u64];
    rows.allreduce(&[column as u64], &mut total, ReduceOp::Sum)?;
    assert_eq!(total[0], (0..rows.size() as u64).sum());
    Ok(())
}

/// Some ranks belong to no part, and a group names some.
fn chosen_members(world: &World) -> Result<(), CommError> {
    let me = world.rank().index();
    let even = world.split(me.is_multiple_of(2).then_some(7), 0)?;
    assert_eq!(even.is_some(), me.is_multiple_of(2));
    if let Some(even) = &even {
        assert_eq!(even.size(), world.size().div_ceil(2));
        even.set_on_error(OnError::Return);
        let outside = even.send(&[0u8], Rank::from_index(even.size()), Tag(0));
        assert!(matches!(outside, Err(CommError::NoSuchRank { .. })));
        typed_collectives(even)?;
    }
    let backwards: Vec<usize> = (0..world.size().min(3)).rev().collect();
    let group = world.group().including(&backwards).ok_or(CommError::Ended)?;
    let few = world.create(&group)?;
    assert_eq!(few.is_some(), me < 3);
    if let Some(few) = few {
        assert_eq!(few.rank().index(), few.size() - 1 - me);
        typed_collectives(&few)?;
    }
    Ok(())
}

/// Far more communicators than there are contexts, one after the other.
fn made_and_dropped(world: &World) -> Result<(), CommError> {
    let kept = world.duplicate()?;
    for _ in 0..if world.size() > 4 { 100 } else { 5000 } {
        let copy = kept.duplicate()?;
        assert_eq!((copy.rank(), copy.size()), (world.rank(), world.size()));
    }
    kept.barrier()
}

/// A probe tells what the next receive gets. A synchronous send waits for the receive.
fn probes(world: &World) -> Result<(), CommError> {
    let (me, size) = (world.rank().index(), world.size());
    if size == 1 {
        return Ok(());
    }
    let copy = world.duplicate()?;
    if me == 0 {
        assert_eq!(world.iprobe(ANY_SOURCE, Tag(99))?, None);
        for _ in 1..size {
            let found = copy.probe(ANY_SOURCE, Tag(3))?;
            assert_eq!(copy.iprobe(found.source, ANY_TAG)?, Some(found));
            let mut message = vec![0u32; found.bytes / size_of::<u32>()];
            assert_eq!(copy.recv(&mut message, found.source, found.tag)?, found);
            assert!(message.iter().all(|&word| word == found.source.0));
        }
    } else {
        // Some messages are eager, some announced.
        copy.ssend(&vec![me as u32; 3000 * me], Rank(0), Tag(3))?;
    }
    world.barrier()
}
