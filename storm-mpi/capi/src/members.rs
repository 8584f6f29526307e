//! The members of a communicator in a collective: at once, in the background, or repeatedly.

use crate::abi::{Buffer, Out, Status};
use crate::call::on;
use crate::comm::Comm;
use crate::fault::Outcome;
use crate::memory::Elements;
use crate::request::Active;
use crate::session::Session;
use crate::table::Handle;
use std::ffi::c_int;
use std::rc::Rc;
use storm_mpi::collective::{Between, Party, Turn, now};

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
            // SAFETY: only `started` and `persistent` make a turn, and they have the process run
            // the future to its end.
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

/// A collective for whose end the call waits.
pub(crate) fn waiting<F: Future<Output = Outcome>>(
    comm: Handle,
    name: &str,
    body: impl FnOnce(Members) -> F,
) -> c_int {
    on(comm, name, |session, comm| {
        now(body(Members { session, comm: Rc::clone(comm), turn: None }))
    })
}

/// A collective that continues in the background, with a request for it.
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
                // The collective was refused here, so this member's next collective gets this turn,
                // as at the others.
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

/// Makes a request that starts a collective repeatedly. `make` keeps the objects that the arguments
/// name, and makes the body. Members may start several such requests in any order, because each
/// request gets its turn when it is made.
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
        session.check_info(info)?;
        let body = make(session, comm)?;
        let (turn, its) = (comm.next_turn(), Rc::clone(comm));
        let begin = move || {
            let running = body(Members { session, comm: Rc::clone(&its), turn: Some(turn) });
            let done = async move { running.await.map(|()| Status::EMPTY) };
            let outstanding = session.process.in_background(done);
            match outstanding.take() {
                Some(over) => Ok(Active::Over(Ok(over?))),
                None => Ok(Active::Background(outstanding)),
            }
        };
        request.set(session.persistent_collective(comm, begin)?)
    })
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
