//! Epochs of one-sided communication.

use crate::abi::Out;
use crate::call::on_window;
use crate::fault::{Class, Fault, Outcome};
use crate::session::Session;
use crate::table::Handle;
use crate::window::{LockKind, Window};
use std::ffi::c_int;
use std::sync::atomic::{Ordering, fence};

const MODE_NOCHECK: c_int = 1;
const MODE_NOSUCCEED: c_int = 16;
const MODES: c_int = 31;
const LOCK_EXCLUSIVE: c_int = 1;
const LOCK_SHARED: c_int = 2;

fn asserted(assert: c_int) -> Outcome<c_int> {
    if assert & !MODES == 0 {
        return Ok(assert);
    }
    Err(Fault::new(Class::Assert, format!("assertion {assert:#x}")))
}

/// Places of a group's members in the window.
fn members(session: &Session, window: &Window, group: Handle) -> Outcome<Vec<usize>> {
    let group = session.group(group)?;
    let stranger = || Fault::new(Class::Group, "a member that the window has not");
    let place = |&rank: &storm_mpi::Rank| window.comm.group.position(rank).ok_or_else(stranger);
    group.members().iter().map(place).collect()
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_fence(assert: c_int, win: Handle) -> c_int {
    on_window(win, "MPI_Win_fence", |_, window| {
        window.fence(asserted(assert)? & MODE_NOSUCCEED == 0)
    })
}

/// The group is notified even with `MPI_MODE_NOCHECK`.
#[unsafe(no_mangle)]
extern "C" fn MPI_Win_post(group: Handle, assert: c_int, win: Handle) -> c_int {
    on_window(win, "MPI_Win_post", |session, window| {
        asserted(assert)?;
        window.post(members(session, window, group)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_start(group: Handle, assert: c_int, win: Handle) -> c_int {
    on_window(win, "MPI_Win_start", |session, window| {
        asserted(assert)?;
        window.start(members(session, window, group)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_complete(win: Handle) -> c_int {
    on_window(win, "MPI_Win_complete", |_, window| window.complete())
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_wait(win: Handle) -> c_int {
    on_window(win, "MPI_Win_wait", |_, window| window.closed(true).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_test(win: Handle, flag: Out<c_int>) -> c_int {
    on_window(win, "MPI_Win_test", |_, window| flag.set(c_int::from(window.closed(false)?)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: Handle) -> c_int {
    on_window(win, "MPI_Win_lock", |_, window| {
        let kind = match lock_type {
            LOCK_EXCLUSIVE => LockKind::Exclusive,
            LOCK_SHARED => LockKind::Shared,
            other => return Err(Fault::new(Class::LockType, format!("lock type {other}"))),
        };
        let asked = asserted(assert)? & MODE_NOCHECK == 0;
        window.member(rank)?.map_or(Ok(()), |member| window.lock(member, kind, asked))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_unlock(rank: c_int, win: Handle) -> c_int {
    on_window(win, "MPI_Win_unlock", |_, window| {
        window.member(rank)?.map_or(Ok(()), |member| window.unlock(member))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_lock_all(assert: c_int, win: Handle) -> c_int {
    on_window(win, "MPI_Win_lock_all", |_, window| {
        window.lock_all(asserted(assert)? & MODE_NOCHECK == 0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_unlock_all(win: Handle) -> c_int {
    on_window(win, "MPI_Win_unlock_all", |_, window| window.unlock_all())
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_flush(rank: c_int, win: Handle) -> c_int {
    on_window(win, "MPI_Win_flush", |_, window| {
        let Some(member) = window.member(rank)? else { return Ok(()) };
        window.is_locked(Some(member))?;
        window.flush(&[member])
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_flush_all(win: Handle) -> c_int {
    on_window(win, "MPI_Win_flush_all", |_, window| {
        window.is_locked(None)?;
        window.flush_all()
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_flush_local(rank: c_int, win: Handle) -> c_int {
    on_window(win, "MPI_Win_flush_local", |_, window| {
        let Some(member) = window.member(rank)? else { return Ok(()) };
        window.is_locked(Some(member))?;
        window.flush_local(|at| at == member)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_flush_local_all(win: Handle) -> c_int {
    on_window(win, "MPI_Win_flush_local_all", |_, window| {
        window.is_locked(None)?;
        window.flush_local(|_| true)
    })
}

/// The function also serves requests of other members, because programs call it in loops that wait
/// for a value.
#[unsafe(no_mangle)]
extern "C" fn MPI_Win_sync(win: Handle) -> c_int {
    on_window(win, "MPI_Win_sync", |session, _| {
        fence(Ordering::SeqCst);
        session.process.progress(false)?;
        fence(Ordering::SeqCst);
        Ok(())
    })
}
