//! Communicators.

use super::intercomms;
use super::new_comm::{add, agreed, make};
use crate::abi::{MAX_NAME, Out, Text, TextOut, UNDEFINED};
use crate::call::{call, on};
use crate::comm::Comm;
use crate::fault::{Class, Fault, Outcome};
use crate::session::Session;
use crate::table::{COMM, Handle};
use std::ffi::c_int;
use storm_mpi::collective::{BlocksMut, Party, now};
use storm_mpi::comm::{Choice, Comparison, Group, chosen_together};

const IDENT: c_int = 0;
const CONGRUENT: c_int = 1;
const SIMILAR: c_int = 2;
const UNEQUAL: c_int = 3;
const COMM_TYPE_SHARED: c_int = 1;

/// A group whose members must belong to a communicator.
fn within(session: &Session, comm: &Comm, group: Handle) -> Outcome<Group> {
    let group = session.group(group)?;
    match group.members().iter().any(|&member| comm.group.position(member).is_none()) {
        true => Err(Fault::new(Class::Group, "a member that the communicator has not")),
        false => Ok(group),
    }
}

/// Splits a communicator or an inter-communicator into parts of members that chose the same.
fn split_up(session: &Session, comm: &Comm, choice: Choice) -> Outcome<Handle> {
    match comm.between(&session.process) {
        Some(groups) => intercomms::split(session, comm, groups, choice),
        None => make(session, comm, split(session, comm, choice)?, None),
    }
}

/// Splits a communicator by the members' choices.
pub(super) fn split(
    session: &Session,
    comm: &Comm,
    choice: Choice,
) -> Outcome<Option<(Group, usize)>> {
    let places: Vec<_> =
        (0..comm.size()).map(|i| i * Choice::BYTES..(i + 1) * Choice::BYTES).collect();
    let mut told = vec![0; comm.size() * Choice::BYTES];
    let mine = choice.encode();
    let mut blocks = BlocksMut::new(&mut told, &places)?;
    now(comm.party(&session.process).allgather(Some(&mine), &mut blocks))?;
    let choices: Vec<Choice> = told
        .as_chunks::<{ Choice::BYTES }>()
        .0
        .iter()
        .map(|&chunk| Choice::decode(chunk))
        .collect();
    let together = chosen_together(&choices, comm.me);
    let me = together.iter().position(|&place| place == comm.me);
    let group = Group::new(together.iter().map(|&place| comm.group.members()[place]));
    Ok(me.map(|me| (group, me)))
}

/// The parent is always null, because no process was spawned.
#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_get_parent(parent: Out<Handle>) -> c_int {
    call("MPI_Comm_get_parent", |_| parent.set(COMM.null()))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_rank(comm: Handle, rank: Out<c_int>) -> c_int {
    on(comm, "MPI_Comm_rank", |_, comm| rank.set(comm.me as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_size(comm: Handle, size: Out<c_int>) -> c_int {
    on(comm, "MPI_Comm_size", |_, comm| size.set(comm.size() as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_split(
    comm: Handle,
    color: c_int,
    key: c_int,
    newcomm: Out<Handle>,
) -> c_int {
    on(comm, "MPI_Comm_split", |session, comm| {
        if color < 0 && color != UNDEFINED {
            return Err(Fault::new(Class::Arg, format!("color {color}")));
        }
        let choice = Choice { color: (color != UNDEFINED).then_some(color), key };
        newcomm.set(split_up(session, comm, choice)?)
    })
}

/// With `MPI_COMM_TYPE_SHARED`: the members on this node.
#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_split_type(
    comm: Handle,
    split_type: c_int,
    key: c_int,
    _info: Handle,
    newcomm: Out<Handle>,
) -> c_int {
    on(comm, "MPI_Comm_split_type", |session, comm| {
        let color = match split_type {
            // The node's first rank names the node.
            COMM_TYPE_SHARED => {
                session.process.node_ranks().first().map(|rank| rank.index() as i32)
            }
            UNDEFINED => None,
            other => return Err(Fault::new(Class::Arg, format!("split type {other}"))),
        };
        newcomm.set(split_up(session, comm, Choice { color, key })?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_create(comm: Handle, group: Handle, newcomm: Out<Handle>) -> c_int {
    on(comm, "MPI_Comm_create", |session, comm| {
        let group = within(session, comm, group)?;
        if let Some(groups) = comm.between(&session.process) {
            return newcomm.set(intercomms::create(session, comm, groups, &group)?);
        }
        let me = group.position(session.process.rank());
        newcomm.set(make(session, comm, me.map(|me| (group, me)), None)?)
    })
}

/// Only the members of the group call the function, and agree on the context. Their messages use
/// the context of the communicator's collectives. Two members call both in the same order, and no
/// message of a collective is for a process outside of it, so the messages do not mix. The tag
/// separates communicators that several threads make at the same time, so it counts only if there
/// are several threads.
#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_create_group(
    comm: Handle,
    group: Handle,
    tag: c_int,
    newcomm: Out<Handle>,
) -> c_int {
    on(comm, "MPI_Comm_create_group", |session, comm| {
        comm.must_be_intra()?;
        if tag < 0 {
            return Err(Fault::new(Class::Tag, format!("tag {tag}")));
        }
        let group = within(session, comm, group)?;
        let Some(me) = group.position(session.process.rank()) else {
            return newcomm.set(COMM.null());
        };
        let collective = comm.context().collective();
        let party = Party::new(&session.process, group.members(), me, collective);
        let party = if party.has_threads()? { party.apart(tag.unsigned_abs()) } else { party };
        let context = agreed(session, party)?;
        newcomm.set(add(session, comm, context, (group, me), None)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_free(comm: Out<Handle>) -> c_int {
    gone(comm, "MPI_Comm_free")
}

/// Members belong to one job and stay connected, so the function does not wait. Pending
/// communication continues, as after `MPI_Comm_free`.
#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_disconnect(comm: Out<Handle>) -> c_int {
    gone(comm, "MPI_Comm_disconnect")
}

fn gone(comm: Out<Handle>, name: &str) -> c_int {
    call(name, |session| {
        let handle = comm.get()?;
        let object = session.comm(handle)?;
        session.delete_attributes(&object)?;
        session.comms.borrow_mut().free(handle)?;
        comm.set(COMM.null())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_compare(comm1: Handle, comm2: Handle, result: Out<c_int>) -> c_int {
    call("MPI_Comm_compare", |session| {
        let (one, two) = (session.comm(comm1)?, session.comm(comm2)?);
        let groups = (one.group.compare(&two.group), one.peers.compare(&two.peers));
        result.set(match groups {
            _ if one.remote().is_some() != two.remote().is_some() => UNEQUAL,
            (Comparison::Unequal, _) | (_, Comparison::Unequal) => UNEQUAL,
            (Comparison::Similar, _) | (_, Comparison::Similar) => SIMILAR,
            (Comparison::Identical, Comparison::Identical) if comm1 == comm2 => IDENT,
            (Comparison::Identical, Comparison::Identical) => CONGRUENT,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_group(comm: Handle, group: Out<Handle>) -> c_int {
    on(comm, "MPI_Comm_group", |session, comm| {
        group.set(session.groups.borrow_mut().add(comm.group.clone())?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_set_name(comm: Handle, name: Text) -> c_int {
    on(comm, "MPI_Comm_set_name", |_, comm| {
        comm.name.replace(name.get()?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_get_name(comm: Handle, name: TextOut, resultlen: Out<c_int>) -> c_int {
    on(comm, "MPI_Comm_get_name", |_, comm| name.set(&comm.name.borrow(), MAX_NAME, resultlen))
}
