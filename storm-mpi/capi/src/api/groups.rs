//! Groups of processes.

use crate::abi::{Array, ArrayMut, Out, PROC_NULL, UNDEFINED, counted};
use crate::call::call;
use crate::fault::{Class, Fault, Outcome};
use crate::session::Session;
use crate::table::{GROUP, Handle};
use std::ffi::c_int;
use storm_mpi::comm::{Comparison, Group};

/// `MPI_GROUP_EMPTY`.
const EMPTY: Handle = GROUP.handle(1);

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_size(group: Handle, size: Out<c_int>) -> c_int {
    call("MPI_Group_size", |session| size.set(session.group(group)?.size() as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_rank(group: Handle, rank: Out<c_int>) -> c_int {
    call("MPI_Group_rank", |session| {
        let place = session.group(group)?.position(session.process.rank());
        rank.set(place.map_or(UNDEFINED, |place| place as c_int))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_translate_ranks(
    group1: Handle,
    n: c_int,
    ranks1: Array<c_int>,
    group2: Handle,
    mut ranks2: ArrayMut<c_int>,
) -> c_int {
    call("MPI_Group_translate_ranks", |session| {
        let (one, two, n) = (session.group(group1)?, session.group(group2)?, counted(n)?);
        for (&rank, there) in ranks1.get(n)?.iter().zip(ranks2.get(n)?) {
            *there = match rank {
                PROC_NULL => PROC_NULL,
                rank => {
                    let member = one.members()[place(&one, rank)?];
                    two.position(member).map_or(UNDEFINED, |place| place as c_int)
                }
            };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_compare(group1: Handle, group2: Handle, result: Out<c_int>) -> c_int {
    call("MPI_Group_compare", |session| {
        result.set(match session.group(group1)?.compare(&session.group(group2)?) {
            Comparison::Identical => 0,
            Comparison::Similar => 2,
            Comparison::Unequal => 3,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_union(group1: Handle, group2: Handle, newgroup: Out<Handle>) -> c_int {
    call("MPI_Group_union", |session| {
        made(session, Some(session.group(group1)?.union(&session.group(group2)?)), newgroup)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_intersection(
    group1: Handle,
    group2: Handle,
    newgroup: Out<Handle>,
) -> c_int {
    call("MPI_Group_intersection", |session| {
        made(session, Some(session.group(group1)?.intersection(&session.group(group2)?)), newgroup)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_difference(group1: Handle, group2: Handle, newgroup: Out<Handle>) -> c_int {
    call("MPI_Group_difference", |session| {
        made(session, Some(session.group(group1)?.difference(&session.group(group2)?)), newgroup)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_incl(
    group: Handle,
    n: c_int,
    ranks: Array<c_int>,
    newgroup: Out<Handle>,
) -> c_int {
    call("MPI_Group_incl", |session| {
        let group = session.group(group)?;
        made(session, group.including(&places(&group, ranks.get(counted(n)?)?)?), newgroup)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_excl(
    group: Handle,
    n: c_int,
    ranks: Array<c_int>,
    newgroup: Out<Handle>,
) -> c_int {
    call("MPI_Group_excl", |session| {
        let group = session.group(group)?;
        made(session, group.excluding(&places(&group, ranks.get(counted(n)?)?)?), newgroup)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_range_incl(
    group: Handle,
    n: c_int,
    ranges: Array<[c_int; 3]>,
    newgroup: Out<Handle>,
) -> c_int {
    call("MPI_Group_range_incl", |session| {
        let group = session.group(group)?;
        let ranks = in_ranges(ranges.get(counted(n)?)?)?;
        made(session, group.including(&places(&group, &ranks)?), newgroup)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_range_excl(
    group: Handle,
    n: c_int,
    ranges: Array<[c_int; 3]>,
    newgroup: Out<Handle>,
) -> c_int {
    call("MPI_Group_range_excl", |session| {
        let group = session.group(group)?;
        let ranks = in_ranges(ranges.get(counted(n)?)?)?;
        made(session, group.excluding(&places(&group, &ranks)?), newgroup)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Group_free(group: Out<Handle>) -> c_int {
    call("MPI_Group_free", |session| {
        // The maker of a group frees it, even if it turned out to be empty.
        if group.get()? != EMPTY {
            session.groups.borrow_mut().free(group.get()?)?;
        }
        group.set(GROUP.null())
    })
}

fn made(session: &Session, group: Option<Group>, newgroup: Out<Handle>) -> Outcome {
    let group = group.ok_or_else(|| Fault::new(Class::Rank, "a rank twice, or none"))?;
    // A group without members is MPI_GROUP_EMPTY, which programs compare with (MPI-4.1, 7.3.2).
    newgroup.set(match group.size() {
        0 => EMPTY,
        _ => session.groups.borrow_mut().add(group)?,
    })
}

fn places(group: &Group, ranks: &[c_int]) -> Outcome<Vec<usize>> {
    ranks.iter().map(|&rank| place(group, rank)).collect()
}

fn place(group: &Group, rank: c_int) -> Outcome<usize> {
    let place = usize::try_from(rank).ok().filter(|&place| place < group.size());
    let wrong = || Fault::new(Class::Rank, format!("rank {rank} in a group of {}", group.size()));
    place.ok_or_else(wrong)
}

/// The ranks of ranges of first, last and stride, ends included.
fn in_ranges(ranges: &[[c_int; 3]]) -> Outcome<Vec<c_int>> {
    let mut ranks = Vec::new();
    for &[first, last, stride] in ranges {
        if stride == 0 || first < 0 || last < 0 {
            let text = format!("range from {first} to {last} by {stride}");
            return Err(Fault::new(Class::Arg, text));
        }
        let mut rank = i64::from(first);
        while if stride > 0 { rank <= i64::from(last) } else { rank >= i64::from(last) } {
            // The value lies between two numbers of this width.
            ranks.push(rank as c_int);
            rank += i64::from(stride);
        }
    }
    Ok(ranks)
}
