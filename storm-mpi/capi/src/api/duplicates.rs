//! Duplicates of communicators, at once or in the background.

use super::intercomms;
use super::new_comm::make;
use crate::abi::Out;
use crate::call::on;
use crate::comm::Comm;
use crate::fault::Outcome;
use crate::members::{Members, started};
use crate::session::Session;
use crate::table::{COMM, Handle};
use std::ffi::c_int;
use std::rc::Rc;
use storm_mpi::CommError;
use storm_mpi::comm::{ContextId, claim};

/// Makes a communicator of the same members in a context of its own. If a function of an attribute
/// refuses, none is made.
fn duplicate(session: &Session, comm: &Comm, newcomm: Out<Handle>) -> Outcome {
    newcomm.set(COMM.null())?;
    let members = (comm.group.clone(), comm.me);
    let made = match comm.between(&session.process) {
        Some(groups) => {
            intercomms::make(session, comm, groups, Some((members, comm.peers.clone())))?
        }
        None => make(session, comm, Some(members), comm.topology.clone())?,
    };
    let object = session.comm(made)?;
    if let Err(fault) = session.copy_attributes(comm, &object) {
        // Copied attributes are deleted, as from a communicator that ends. The first fault counts.
        let _ = session.delete_attributes(&object);
        session.comms.borrow_mut().free(made)?;
        return Err(fault);
    }
    newcomm.set(made)
}

/// Makes a duplicate in the background. Attributes are copied when it begins, and the program gets
/// the handle then. The context is agreed on later. If a function of an attribute refuses at a
/// member, the member still takes part, and gets no duplicate.
async fn duplicated(all: Members, info: Option<Handle>, newcomm: Out<Handle>) -> Outcome {
    let (session, comm) = (all.session, &all.comm);
    newcomm.set(COMM.null())?;
    info.map_or(Ok(()), |info| session.check_info(info))?;
    let (handle, made) = unmade(session, comm)?;
    let copied = session.copy_attributes(comm, &made);
    if copied.is_ok() {
        newcomm.set(handle)?;
    }
    let claimed = match all.between() {
        None => claim(&session.contexts, all.party()).await,
        Some(groups) => {
            let (both, me) = groups.both();
            claim(&session.contexts, groups.party(&both, me)).await
        }
    };
    let agreed = claimed.and_then(|context| context.ok_or(CommError::NoContext));
    if let Ok(context) = agreed {
        made.set_context(context);
    }
    let outcome = copied.and(agreed.map(drop).map_err(Into::into));
    if outcome.is_err() {
        // As in `duplicate`.
        let _ = session.delete_attributes(&made);
        session.comms.borrow_mut().free(handle)?;
    }
    outcome
}

/// A duplicate without a context, and its handle.
fn unmade(session: &Session, comm: &Comm) -> Outcome<(Handle, Rc<Comm>)> {
    let (group, topology) = (comm.group.clone(), comm.topology.clone());
    let errhandler = comm.errhandler.get();
    let made = Comm::new(ContextId::NONE, group, comm.me, topology, errhandler, &session.contexts);
    let made = match comm.remote() {
        Some(others) => made.with(others.clone()),
        None => made,
    };
    let handle = session.add_comm(made)?;
    Ok((handle, session.comm(handle)?))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_dup(comm: Handle, newcomm: Out<Handle>) -> c_int {
    on(comm, "MPI_Comm_dup", |session, comm| duplicate(session, comm, newcomm))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_dup_with_info(comm: Handle, info: Handle, newcomm: Out<Handle>) -> c_int {
    on(comm, "MPI_Comm_dup_with_info", |session, comm| {
        session.check_info(info)?;
        duplicate(session, comm, newcomm)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_idup(comm: Handle, newcomm: Out<Handle>, request: Out<Handle>) -> c_int {
    started(comm, "MPI_Comm_idup", request, |all| duplicated(all, None, newcomm))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_idup_with_info(
    comm: Handle,
    info: Handle,
    newcomm: Out<Handle>,
    request: Out<Handle>,
) -> c_int {
    started(comm, "MPI_Comm_idup_with_info", request, |all| duplicated(all, Some(info), newcomm))
}
