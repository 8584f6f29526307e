//! The program's elements in collectives, at once or in the background.
//!
//! Each body is written once, as a future that owns all its data. Arguments are checked before it
//! first gives way, so the call itself reports a mistake in them in both cases.

use crate::abi::{Buffer, BufferMut, Out, Status};
use crate::api::known;
use crate::comm::Comm;
use crate::fault::Outcome;
use crate::intercomm;
use crate::member_blocks::MemberBlocks;
use crate::memory::Elements;
use crate::request::Active;
use crate::session::{Session, on};
use crate::table::Handle;
use std::ffi::c_int;
use std::pin::Pin;
use std::rc::Rc;
use storm_mpi::collective::{Between, Blocks, BlocksMut, Party, Turn, now};

/// The members of a communicator, for one collective of theirs.
pub(crate) struct Members {
    pub(crate) session: &'static Session,
    pub(crate) comm: Rc<Comm>,
    /// The turn of the communicator's collective, if it is in the background.
    turn: Option<Turn>,
}

impl Members {
    pub(crate) fn party(&self) -> Party<'_> {
        let party = self.comm.party(&self.session.process);
        match self.turn {
            None => party,
            // SAFETY: only `started` and `Again` make a turn, and they have the process run the
            // future to its end.
            Some(turn) => unsafe { party.in_background(turn) },
        }
    }

    /// The two groups of an inter-communicator.
    pub(crate) fn between(&self) -> Option<Between<'_>> {
        let groups = self.comm.between(&self.session.process)?;
        Some(match self.turn {
            None => groups,
            // SAFETY: as in `party`.
            Some(turn) => unsafe { groups.in_background(turn) },
        })
    }

    /// Number of members that have a block for each member, or get one: the members, or the members
    /// of the other group.
    pub(crate) fn size(&self) -> usize {
        self.comm.peers.size()
    }
}

/// A collective that the call waits for.
pub(crate) fn waiting<F: Future<Output = Outcome>>(
    comm: Handle,
    name: &str,
    body: impl FnOnce(Members) -> F,
) -> c_int {
    on(comm, name, |session, comm| {
        now(body(Members { session, comm: Rc::clone(comm), turn: None }))
    })
}

/// A collective that goes on in the background, with a request for it.
pub(crate) fn started<F: Future<Output = Outcome> + 'static>(
    comm: Handle,
    name: &str,
    request: Out<Handle>,
    body: impl FnOnce(Members) -> F,
) -> c_int {
    on(comm, name, |session, comm| {
        let (before, begun) = (comm.last_turn(), session.process.messages_begun());
        let turn = comm.next_turn();
        let members = Members { session, comm: Rc::clone(comm), turn: Some(turn) };
        let running = body(members);
        let done = async move { running.await.map(|()| Status::EMPTY) };
        let outstanding = session.process.in_background(done);
        match outstanding.take() {
            Some(Err(fault)) => {
                // The collective was refused here, so this turn is for this member's next
                // collective, as at the others.
                if session.process.messages_begun() == begun {
                    comm.give_turn_back(before);
                }
                Err(fault)
            }
            Some(Ok(_)) => request.set(session.add_active(comm, Active::nothing())?),
            None => request.set(session.add_active(comm, Active::Background(outstanding))?),
        }
    })
}

/// A collective that its request starts in the background again and again. Members may start
/// several of them in any order, because each got its turn when it was made.
pub(crate) struct Again {
    turn: Turn,
    body: Body,
}

type Body = Box<dyn Fn(Members) -> Pin<Box<dyn Future<Output = Outcome>>>>;

impl Again {
    /// Starts the collective.
    pub(crate) fn begin(&self, session: &'static Session, comm: &Rc<Comm>) -> Outcome<Active> {
        let running =
            (self.body)(Members { session, comm: Rc::clone(comm), turn: Some(self.turn) });
        let done = async move { running.await.map(|()| Status::EMPTY) };
        let outstanding = session.process.in_background(done);
        match outstanding.take() {
            Some(over) => Ok(Active::Over(Ok(over?))),
            None => Ok(Active::Background(outstanding)),
        }
    }
}

/// Makes a request that starts a collective again and again. `make` keeps the objects that the
/// arguments name, and makes the body.
pub(crate) fn persistent<F, B>(
    comm: Handle,
    name: &str,
    (info, request): (Handle, Out<Handle>),
    make: impl FnOnce(&'static Session, &Comm) -> Outcome<B>,
) -> c_int
where
    F: Future<Output = Outcome> + 'static,
    B: Fn(Members) -> F + 'static,
{
    on(comm, name, |session, comm| {
        known(session, info)?;
        let body = make(session, comm)?;
        let body: Body = Box::new(move |all| Box::pin(body(all)));
        let again = Again { turn: comm.next_turn(), body };
        request.set(session.persistent_collective(comm, again)?)
    })
}

/// The data of all members, one after the other; all have the same length.
pub(crate) fn gathered(party: Party<'_>, mine: &[u8]) -> Outcome<Vec<u8>> {
    let places: Vec<_> =
        (0..party.size()).map(|at| at * mine.len()..(at + 1) * mine.len()).collect();
    let mut all = vec![0; party.size() * mine.len()];
    now(party.allgather(Some(mine), &mut BlocksMut::new(&mut all, &places)?))?;
    Ok(all)
}

/// A member's own elements, as the arguments describe them. `MPI_IN_PLACE` may stand for them.
#[derive(Clone, Copy)]
pub(crate) struct Whole {
    pub(crate) buffer: Buffer,
    pub(crate) count: c_int,
    pub(crate) datatype: Handle,
}

impl Whole {
    /// The elements; `None` if they are in their place in the other buffer.
    pub(crate) fn elements(&self, session: &Session) -> Outcome<Option<Elements>> {
        if self.buffer.is_in_place() {
            return Ok(None);
        }
        Elements::read(self.buffer, self.count, &*session.datatype(self.datatype)?).map(Some)
    }
}

/// Gives all members the root's elements.
pub(crate) async fn from_one(
    all: Members,
    (buffer, count, datatype): (BufferMut, c_int, Handle),
    root: c_int,
) -> Outcome {
    if let Some(groups) = all.between() {
        let root = intercomm::root(&all.comm, root)?;
        return intercomm::from_one(&all, groups, (buffer, count, datatype), root).await;
    }
    let root = all.comm.root(root)?;
    let elements = Elements::written(buffer, count, &*all.session.datatype(datatype)?)?;
    let party = all.party();
    if all.comm.me == root {
        // The root only sends: its memory is not written, and may be read-only.
        return Ok(party.bcast_from(&elements.packed()).await?);
    }
    let mut landing = elements.landing();
    party.bcast(landing.bytes_mut(), root).await?;
    landing.finish(elements.bytes);
    Ok(())
}

/// Brings the members' elements to the root. Only the root uses the receive arguments.
pub(crate) async fn all_to_root(
    all: Members,
    mine: Whole,
    into: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
    root: c_int,
) -> Outcome {
    if let Some(groups) = all.between() {
        let root = intercomm::root(&all.comm, root)?;
        return intercomm::all_to_root(&all, groups, &mine, into, root).await;
    }
    let root = all.comm.root(root)?;
    let party = all.party();
    let mine = mine.elements(all.session)?;
    let packed = mine.as_ref().map(Elements::packed);
    if all.comm.me != root {
        return Ok(party.gather(packed.as_deref(), None, root).await?);
    }
    let into = into(&all)?;
    let places = into.places();
    let mut landing = into.landing(packed.is_none());
    let mut blocks = BlocksMut::new(landing.bytes_mut(), &places)?;
    party.gather(packed.as_deref(), Some(&mut blocks), root).await?;
    landing.finish();
    Ok(())
}

/// Brings each member its elements from the root. Only the root uses the send arguments.
pub(crate) async fn from_root(
    all: Members,
    from: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
    mine: Whole,
    root: c_int,
) -> Outcome {
    if let Some(groups) = all.between() {
        let root = intercomm::root(&all.comm, root)?;
        return intercomm::from_root(&all, groups, from, &mine, root).await;
    }
    let root = all.comm.root(root)?;
    let party = all.party();
    let mine = mine.elements(all.session)?;
    let mut landing = mine.as_ref().map(Elements::landing);
    let place = landing.as_mut().map(|landing| landing.bytes_mut());
    if all.comm.me == root {
        let from = from(&all)?;
        let (packed, places) = (from.packed(), from.places());
        party.scatter(Some(Blocks::new(&packed, &places)?), place, root).await?;
    } else {
        party.scatter(None, place, root).await?;
    }
    if let (Some(mine), Some(landing)) = (mine, landing) {
        landing.finish(mine.bytes);
    }
    Ok(())
}

/// Brings the members' elements to all.
pub(crate) async fn gather_all(
    all: Members,
    mine: Whole,
    into: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
) -> Outcome {
    if let Some(groups) = all.between() {
        return intercomm::gather_all(&all, groups, &mine, into).await;
    }
    let into = into(&all)?;
    let mine = mine.elements(all.session)?;
    let packed = mine.as_ref().map(Elements::packed);
    let places = into.places();
    let mut landing = into.landing(packed.is_none());
    let mut blocks = BlocksMut::new(landing.bytes_mut(), &places)?;
    all.party().allgather(packed.as_deref(), &mut blocks).await?;
    landing.finish();
    Ok(())
}

/// Brings each member its elements from each member. `None` means that the elements are in the
/// place of the received ones.
pub(crate) async fn all_from_all(
    all: Members,
    from: impl FnOnce(&Members) -> Outcome<Option<MemberBlocks>>,
    into: impl FnOnce(&Members) -> Outcome<MemberBlocks>,
) -> Outcome {
    if let Some(groups) = all.between() {
        return intercomm::all_from_all(&all, groups, from, into).await;
    }
    let (from, into) = (from(&all)?, into(&all)?);
    let (places, own);
    let packed = match &from {
        Some(from) => {
            places = from.places();
            from.packed()
        }
        None => {
            places = into.places();
            own = into.copied();
            own.into()
        }
    };
    let into_places = into.places();
    let mut landing = into.landing(false);
    let mut blocks = BlocksMut::new(landing.bytes_mut(), &into_places)?;
    all.party().alltoall(Blocks::new(&packed, &places)?, &mut blocks).await?;
    landing.finish();
    Ok(())
}
