//! libpmix's requests to its host. libpmix's thread passes most requests to the server's thread and
//! continues. The server's thread answers later.
//!
//! When a rank's program connects or leaves, libpmix's own thread handles it at once. Otherwise
//! libpmix could see the end of the program's connection before it notes the leave, because
//! `op_cbfunc2` of libpmix 4.2 sends the answer first. Then libpmix would expect one rank less in
//! every later fence of the node, also in the fences of later programs.

use super::ServeError;
use super::ranks::Ranks;
use crate::abi::{
    AbortFn, ClientFn, DirectModexFn, ERR_NOT_FOUND, ERR_NOT_SUPPORTED, ERROR, FenceFn, Info,
    ModexDone, OPERATION_SUCCEEDED, OpDone, Proc, RANK_WILDCARD, SUCCESS, ServerModule, SpawnFn,
    Status,
};
use nix::sys::eventfd::EventFd;
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A request.
#[derive(Debug)]
pub(super) enum Upcall {
    /// A rank has joined or left, or the Node Manager no longer serves it.
    Moved(Result<(), ServeError>),
    Abort {
        rank: u32,
        exit_code: i32,
        done: Answer,
    },
    /// A request for processes. It was already refused.
    Spawn {
        rank: u32,
    },
    /// All participants of this node are in the fence. `ranks` is `None` for all ranks of the job.
    Fence {
        ranks: Option<Vec<u32>>,
        blob: Vec<u8>,
        done: ModexAnswer,
    },
}

/// An answer that is due to libpmix, once.
#[derive(Debug)]
pub(super) struct Answer {
    done: Option<OpDone>,
    cbdata: *mut c_void,
}

// SAFETY: the pointer is libpmix's, and is only passed back to it. libpmix lets hosts answer from
// any thread.
unsafe impl Send for Answer {}

impl Answer {
    pub(super) fn give(self, status: Status) {
        if let Some(done) = self.done {
            // SAFETY: the function came with this pointer, and `self` is consumed, so it is called
            // once.
            unsafe { done(status, self.cbdata) };
        }
    }
}

/// An answer with data that is due to libpmix, once.
#[derive(Debug)]
pub(super) struct ModexAnswer {
    done: Option<ModexDone>,
    cbdata: *mut c_void,
}

// SAFETY: as for `Answer`.
unsafe impl Send for ModexAnswer {}

impl ModexAnswer {
    pub(super) fn give(self, outcome: Result<Vec<u8>, Status>) {
        let Some(done) = self.done else { return };
        let (status, blob) = match outcome {
            Ok(blob) => (SUCCESS, blob),
            Err(status) => (status, Vec::new()),
        };
        let blob = Box::into_raw(Box::new(blob));
        // SAFETY: the blob was just made. Only `free_blob` frees it, and libpmix calls `free_blob`
        // after it has read the data.
        let bytes = unsafe { &*blob };
        // SAFETY: the function came with this pointer and is called once. The data is valid until
        // `free_blob` is called with the pointer to it.
        unsafe {
            done(
                status,
                bytes.as_ptr().cast(),
                bytes.len(),
                self.cbdata,
                Some(free_blob),
                blob.cast(),
            );
        }
    }
}

/// # Safety
/// `blob` must be the pointer of a `Box<Vec<u8>>`, passed once.
unsafe extern "C" fn free_blob(blob: *mut c_void) {
    if !blob.is_null() {
        // SAFETY: the caller's guarantee.
        drop(unsafe { Box::from_raw(blob.cast::<Vec<u8>>()) });
    }
}

/// The server's end of the requests.
pub(super) struct Upcalls {
    questions: Receiver<Upcall>,
}

/// The server's state that libpmix's thread uses.
struct Reached {
    questions: Sender<Upcall>,
    bell: EventFd,
    ranks: Arc<Mutex<Ranks>>,
}

/// Locks the ranks. A thread holds the lock no longer than a request to the Node Manager takes,
/// because libpmix's thread waits for it. If a thread panics while it holds the lock, the server
/// ends, so the unfinished state does not matter.
pub(super) fn lock(ranks: &Mutex<Ranks>) -> MutexGuard<'_, Ranks> {
    ranks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// libpmix gives its host no pointer to its state, so the state is global.
static REACHED: OnceLock<Reached> = OnceLock::new();

impl Upcalls {
    /// Begins to listen. Works once per process: returns `None` the second time.
    pub(super) fn listen(ranks: Arc<Mutex<Ranks>>) -> nix::Result<Option<Upcalls>> {
        use nix::sys::eventfd::EfdFlags;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let bell = EventFd::from_value_and_flags(0, flags)?;
        let (sender, questions) = channel();
        let set = REACHED.set(Reached { questions: sender, bell, ranks });
        Ok(set.is_ok().then_some(Upcalls { questions }))
    }

    /// Readable when there are requests.
    pub(super) fn bell(&self) -> Option<BorrowedFd<'static>> {
        REACHED.get().map(|server| server.bell.as_fd())
    }

    /// The next request, if any. Resets the bell first, so that a later ring is noticed.
    pub(super) fn next(&self) -> Option<Upcall> {
        if let Some(server) = REACHED.get() {
            // The bell was not rung, so there is nothing to reset.
            let _ = server.bell.read();
        }
        self.questions.try_recv().ok()
    }
}

fn hand_over(question: Upcall) -> Status {
    let Some(server) = REACHED.get() else { return ERROR };
    if server.questions.send(question).is_err() || server.bell.write(1).is_err() {
        return ERROR;
    }
    SUCCESS
}

/// Lets a rank join or leave, and reports it to the server.
fn move_rank(move_it: impl FnOnce(&mut Ranks) -> Result<bool, ServeError>) -> Status {
    let Some(server) = REACHED.get() else { return ERROR };
    let moved = move_it(&mut lock(&server.ranks));
    let status = if matches!(moved, Ok(true)) { OPERATION_SUCCEEDED } else { ERROR };
    match hand_over(Upcall::Moved(moved.map(drop))) {
        SUCCESS => status,
        failed => failed,
    }
}

/// The functions for libpmix. libpmix refuses every request without a function.
pub(super) fn module() -> ServerModule {
    let (connected, finalized): (ClientFn, ClientFn) = (client_connected, client_finalized);
    let (abort, fence, direct): (AbortFn, FenceFn, DirectModexFn) = (abort, fence_nb, direct_modex);
    let refused: SpawnFn = spawn;
    ServerModule {
        client_connected: Some(connected),
        client_finalized: Some(finalized),
        abort: Some(abort),
        fence_nb: Some(fence),
        direct_modex: Some(direct),
        names: [None; 3],
        spawn: Some(refused),
        v1: [None; 5],
        v2: [None; 7],
        v3: [None; 4],
        v4: [None; 3],
        later: [None; 8],
    }
}

/// # Safety
/// The argument must come from libpmix: a valid process or NULL.
unsafe fn rank_of(proc: *const Proc) -> u32 {
    // SAFETY: the caller's guarantee.
    unsafe { proc.as_ref() }.map_or(RANK_WILDCARD, |proc| proc.rank)
}

/// # Safety
/// The arguments must come from libpmix.
unsafe extern "C" fn client_connected(
    proc: *const Proc,
    _: *mut c_void,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    // SAFETY: libpmix's guarantee.
    let rank = unsafe { rank_of(proc) };
    move_rank(|ranks| ranks.join(rank))
}

/// # Safety
/// The arguments must come from libpmix.
unsafe extern "C" fn client_finalized(
    proc: *const Proc,
    _: *mut c_void,
    _: Option<OpDone>,
    _: *mut c_void,
) -> Status {
    // SAFETY: libpmix's guarantee.
    let rank = unsafe { rank_of(proc) };
    move_rank(|ranks| ranks.finalize(rank).map(|()| true))
}

/// # Safety
/// The arguments must come from libpmix.
unsafe extern "C" fn abort(
    proc: *const Proc,
    _: *mut c_void,
    status: c_int,
    _: *const c_char,
    _: *mut Proc,
    _: usize,
    done: Option<OpDone>,
    cbdata: *mut c_void,
) -> Status {
    // SAFETY: libpmix's guarantee.
    let rank = unsafe { rank_of(proc) };
    hand_over(Upcall::Abort { rank, exit_code: status, done: Answer { done, cbdata } })
}

/// # Safety
/// The arguments must come from libpmix: `procs` has `nprocs` elements, and `data` has `ndata`
/// bytes.
unsafe extern "C" fn fence_nb(
    procs: *const Proc,
    nprocs: usize,
    _: *const Info,
    _: usize,
    data: *mut c_char,
    ndata: usize,
    done: Option<ModexDone>,
    cbdata: *mut c_void,
) -> Status {
    let ranks: Option<Vec<u32>> = if procs.is_null() {
        None
    } else {
        // SAFETY: libpmix's guarantee.
        let procs = unsafe { std::slice::from_raw_parts(procs, nprocs) };
        let ranks: Vec<u32> = procs.iter().map(|proc| proc.rank).collect();
        (!ranks.contains(&RANK_WILDCARD)).then_some(ranks)
    };
    let blob = if data.is_null() {
        Vec::new()
    } else {
        // SAFETY: libpmix guarantees the length. The data is copied and not freed: it belongs to
        // the library (`pmix_server.h`, before the first function), which keeps it to its end
        // (4.2).
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), ndata) }.to_vec()
    };
    hand_over(Upcall::Fence { ranks, blob, done: ModexAnswer { done, cbdata } })
}

/// Data of a rank that was not exchanged in a fence is not available.
unsafe extern "C" fn direct_modex(
    _: *const Proc,
    _: *const Info,
    _: usize,
    _: Option<ModexDone>,
    _: *mut c_void,
) -> Status {
    ERR_NOT_FOUND
}

/// # Safety
/// The arguments must come from libpmix.
unsafe extern "C" fn spawn(
    proc: *const Proc,
    _: *const Info,
    _: usize,
    _: *const c_void,
    _: usize,
    _: *mut c_void,
    _: *mut c_void,
) -> Status {
    // SAFETY: libpmix's guarantee.
    let rank = unsafe { rank_of(proc) };
    match hand_over(Upcall::Spawn { rank }) {
        SUCCESS => REFUSED,
        status => status,
    }
}

/// The status of fences that the server does not support.
pub(super) const REFUSED: Status = ERR_NOT_SUPPORTED;
