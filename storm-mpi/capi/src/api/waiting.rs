//! Waiting for requests, and testing them.

use crate::abi::{ArrayMut, Out, SUCCESS, Status, StatusOut, UNDEFINED, counted};
use crate::call::call;
use crate::fault::{Class, Fault, Outcome};
use crate::session::Session;
use crate::table::Handle;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn MPI_Wait(request: Out<Handle>, status: StatusOut) -> c_int {
    call("MPI_Wait", |session| collect_one(session, request, status))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Test(request: Out<Handle>, flag: Out<c_int>, status: StatusOut) -> c_int {
    call("MPI_Test", |session| {
        let handle = request.get()?;
        if session.is_active(handle)? && !done_now(session, &[handle])? {
            return flag.set(0);
        }
        flag.set(1)?;
        collect_one(session, request, status)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Waitall(
    count: c_int,
    mut requests: ArrayMut<Handle>,
    statuses: StatusOut,
) -> c_int {
    call("MPI_Waitall", |session| collect_all(session, requests.get(counted(count)?)?, statuses))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Testall(
    count: c_int,
    mut requests: ArrayMut<Handle>,
    flag: Out<c_int>,
    statuses: StatusOut,
) -> c_int {
    call("MPI_Testall", |session| {
        let requests = requests.get(counted(count)?)?;
        let active = only_active(session, requests)?;
        if !active.is_empty() && !done_now(session, &active)? {
            return flag.set(0);
        }
        flag.set(1)?;
        collect_all(session, requests, statuses)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Waitany(
    count: c_int,
    mut requests: ArrayMut<Handle>,
    index: Out<c_int>,
    status: StatusOut,
) -> c_int {
    call("MPI_Waitany", |session| {
        let requests = requests.get(counted(count)?)?;
        match first_done(session, requests, true)? {
            Some(at) => {
                index.set(at as c_int)?;
                told(status, session.collect(&mut requests[at]))
            }
            None => {
                status.set(&Status::EMPTY);
                index.set(UNDEFINED)
            }
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Testany(
    count: c_int,
    mut requests: ArrayMut<Handle>,
    index: Out<c_int>,
    flag: Out<c_int>,
    status: StatusOut,
) -> c_int {
    call("MPI_Testany", |session| {
        let requests = requests.get(counted(count)?)?;
        if let Some(at) = first_done(session, requests, false)? {
            index.set(at as c_int)?;
            flag.set(1)?;
            return told(status, session.collect(&mut requests[at]));
        }
        let nothing_to_wait_for = only_active(session, requests)?.is_empty();
        if nothing_to_wait_for {
            status.set(&Status::EMPTY);
        }
        index.set(UNDEFINED)?;
        flag.set(c_int::from(nothing_to_wait_for))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Waitsome(
    incount: c_int,
    mut requests: ArrayMut<Handle>,
    outcount: Out<c_int>,
    mut indices: ArrayMut<c_int>,
    statuses: StatusOut,
) -> c_int {
    call("MPI_Waitsome", |session| {
        let count = counted(incount)?;
        let (requests, indices) = (requests.get(count)?, indices.get(count)?);
        first_done(session, requests, true)?;
        collect_some(session, requests, outcount, indices, statuses)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Testsome(
    incount: c_int,
    mut requests: ArrayMut<Handle>,
    outcount: Out<c_int>,
    mut indices: ArrayMut<c_int>,
    statuses: StatusOut,
) -> c_int {
    call("MPI_Testsome", |session| {
        let count = counted(incount)?;
        let (requests, indices) = (requests.get(count)?, indices.get(count)?);
        first_done(session, requests, false)?;
        collect_some(session, requests, outcount, indices, statuses)
    })
}

fn collect_one(session: &Session, request: Out<Handle>, status: StatusOut) -> Outcome {
    let mut handle = request.get()?;
    let collected = session.collect(&mut handle);
    request.set(handle)?;
    told(status, collected)
}

/// Sets the status of a request that is done, even if it failed with a message that has arrived.
pub(super) fn told(status: StatusOut, collected: Outcome<Status>) -> Outcome {
    match collected {
        Ok(said) => {
            status.set(&said);
            Ok(())
        }
        Err(fault) => {
            if let Some(said) = &fault.told {
                status.set(said);
            }
            Err(fault)
        }
    }
}

/// Waits for all requests. If any fails, each status has its own error.
fn collect_all(session: &Session, requests: &mut [Handle], statuses: StatusOut) -> Outcome {
    let mut failed: Option<Fault> = None;
    for (i, request) in requests.iter_mut().enumerate() {
        put(statuses, i, session.collect(request), &mut failed);
    }
    failed.map_or(Ok(()), |fault| Err(in_status(fault)))
}

/// Collects the requests that are done. The count is `UNDEFINED` when there is none to wait for.
fn collect_some(
    session: &Session,
    requests: &mut [Handle],
    outcount: Out<c_int>,
    indices: &mut [c_int],
    statuses: StatusOut,
) -> Outcome {
    if only_active(session, requests)?.is_empty() {
        return outcount.set(UNDEFINED);
    }
    let mut failed: Option<Fault> = None;
    let mut collected = 0;
    for (i, request) in requests.iter_mut().enumerate() {
        if session.is_active(*request)? && session.is_done(*request)? {
            put(statuses, collected, session.collect(request), &mut failed);
            indices[collected] = i as c_int;
            collected += 1;
        }
    }
    outcount.set(collected as c_int)?;
    failed.map_or(Ok(()), |fault| Err(in_status(fault)))
}

fn put(statuses: StatusOut, i: usize, collected: Outcome<Status>, failed: &mut Option<Fault>) {
    match collected {
        Ok(status) => statuses.set_at(i, Status { error: SUCCESS, ..status }),
        Err(fault) => {
            let said = fault.told.unwrap_or(Status::EMPTY);
            statuses.set_at(i, Status { error: fault.class.code(), ..said });
            failed.get_or_insert(fault);
        }
    }
}

fn in_status(fault: Fault) -> Fault {
    Fault { class: Class::InStatus, own: None, ..fault }
}

fn only_active(session: &Session, requests: &[Handle]) -> Outcome<Vec<Handle>> {
    let mut active = Vec::with_capacity(requests.len());
    for &request in requests {
        if session.is_active(request)? {
            active.push(request);
        }
    }
    Ok(active)
}

/// Whether all requests are done. Processes the messages that have arrived first.
fn done_now(session: &Session, requests: &[Handle]) -> Outcome<bool> {
    let all = || {
        let mut all = true;
        for &request in requests {
            all = all && session.is_done(request)?;
        }
        Ok(all)
    };
    if all()? {
        return Ok(true);
    }
    session.process.progress(false)?;
    all()
}

/// The first request that is done. With `block` it waits for one. `None` when none is done, or
/// there is none to wait for.
fn first_done(session: &Session, requests: &[Handle], block: bool) -> Outcome<Option<usize>> {
    let mut looked = false;
    loop {
        let mut waits = false;
        for (i, &request) in requests.iter().enumerate() {
            if session.is_active(request)? {
                if session.is_done(request)? {
                    return Ok(Some(i));
                }
                waits = true;
            }
        }
        if !waits || (looked && !block) {
            return Ok(None);
        }
        session.process.progress(block)?;
        looked = true;
    }
}
