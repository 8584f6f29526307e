//! Making communicators of members of other ones.

use crate::comm::{Comm, Topology};
use crate::fault::Outcome;
use crate::session::Session;
use crate::table::{COMM, Handle};
use storm_mpi::collective::Party;
use storm_mpi::comm::{ContextId, ContextPool, Group};

/// Makes a communicator of some members of another. All members of the other call it. A member that
/// will not be in the new one gets a null handle.
pub(super) fn make(
    session: &Session,
    parent: &Comm,
    part: Option<(Group, usize)>,
    topology: Option<Topology>,
) -> Outcome<Handle> {
    let context = agreed(session, parent.party(&session.process))?;
    let Some((group, me)) = part else {
        session.contexts.borrow_mut().give_back(context);
        return Ok(COMM.null());
    };
    add(session, parent, context, (group, me), topology)
}

/// The context of a communicator that these members make.
pub(super) fn agreed(session: &Session, members: Party<'_>) -> Outcome<ContextId> {
    let agreed = ContextPool::agree(&session.contexts, members)?;
    Ok(agreed.ok_or(storm_mpi::CommError::NoContext)?)
}

/// Adds a communicator that this process is in, and returns its handle.
pub(super) fn add(
    session: &Session,
    parent: &Comm,
    context: ContextId,
    members: (Group, usize),
    topology: Option<Topology>,
) -> Outcome<Handle> {
    session.add_comm(of(session, parent, context, members, topology))
}

/// Makes a communicator that has no handle yet.
pub(super) fn of(
    session: &Session,
    parent: &Comm,
    context: ContextId,
    (group, me): (Group, usize),
    topology: Option<Topology>,
) -> Comm {
    session.contexts.borrow_mut().take(context);
    let errhandler = parent.errhandler.get();
    Comm::new(context, group, me, topology, errhandler, &session.contexts)
}
