//! One-sided communication (MPI-4.1, chapter 12): windows, epochs, and operations.
//!
//! A process accesses members' parts in two ways:
//! - It accesses its own part in memory, at once. It does the same with parts that the library has
//!   allocated for members on its node.
//! - For all other parts, and for all locks, it sends requests in a context of the window's own.
//!   Owners process requests when they are inside the library (`owner`).
//!
//! A request is complete at its owner when a later request of the same member is answered. Messages
//! between two ranks do not overtake each other.

mod epochs;
mod exposed;
mod locks;
mod neighbourhood;
mod origin;
mod owner;
mod wire;

pub(crate) use epochs::{Epochs, LockKind};
pub(crate) use origin::{Changing, Place};

use crate::comm::Comm;
use crate::fault::{Class, Fault, Outcome};
use crate::gathered::gathered;
use crate::request::Active;
use crate::session::{ERRORS_ARE_FATAL, Session};
use crate::table::Handle;
use exposed::{Attached, Exposed};
use neighbourhood::Neighbourhood;
use owner::Owner;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use storm_mpi::RequestId;
use storm_mpi::collective::now;

unsafe extern "C" {
    fn calloc(count: usize, bytes: usize) -> *mut c_void;
    fn free(start: *mut c_void);
}

/// The origin of a window's memory: values of `mpi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Flavor {
    Create = 1,
    Allocate,
    Dynamic,
    Shared,
}

/// `MPI_WIN_UNIFIED`: bytes that any process writes to a window's memory are in the window.
const UNIFIED: c_int = 2;

/// A member's part, as the other members know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: usize,
    /// Bytes per unit of displacement.
    pub(crate) unit: c_int,
}

/// Values of the window's attributes for this process's part. C programs get their addresses.
pub(crate) struct AttributeValues {
    pub(crate) start: *mut u8,
    pub(crate) bytes: isize,
    pub(crate) unit: c_int,
    pub(crate) flavor: c_int,
    pub(crate) model: c_int,
}

/// Memory that the library has to free.
enum Held {
    /// No memory: the window's memory is the program's.
    Nothing,
    Allocated(*mut u8),
    /// Memory shared with members on this node.
    Shared(Neighbourhood),
}

pub(crate) struct Window {
    session: &'static Session,
    /// The number of the window among all windows of this process.
    pub(crate) number: u64,
    /// The members, in a context of the window's own, with its name, error handler and attributes.
    pub(crate) comm: Rc<Comm>,
    pub(crate) flavor: Flavor,
    pub(crate) attributes: AttributeValues,
    /// Parts by member.
    pub(crate) parts: Vec<Part>,
    held: Held,
    attached: Attached,
    owner: Rc<Owner>,
    epochs: RefCell<Epochs>,
    /// Pending messages to members, and pending answers of theirs.
    under_way: RefCell<Vec<(usize, Active)>>,
    /// Number of pending messages at which the done ones are collected.
    collect_at: Cell<usize>,
    /// Bytes that were sent since all messages were known to have gone.
    copies: Cell<usize>,
    /// Answers for which the program has requests.
    requested: RefCell<Vec<(usize, RequestId, Handle)>>,
    /// Number of answers at which those that the program has collected are forgotten.
    forget_at: Cell<usize>,
    /// Members with a request that is not known to be done, each with the number of its last
    /// request.
    unsettled: RefCell<BTreeMap<usize, u64>>,
    /// Number of requests to members so far.
    asked: Cell<u64>,
    answers: Cell<i32>,
}

impl Part {
    const BYTES: usize = 16;

    fn encode(self) -> [u8; Part::BYTES] {
        let words = [self.bytes as u64, self.unit as u64].map(u64::to_ne_bytes);
        std::array::from_fn(|i| words[i / 8][i % 8])
    }

    fn decode(bytes: [u8; Part::BYTES]) -> Self {
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        Part { bytes: word(0) as usize, unit: word(8) as c_int }
    }
}

impl Window {
    /// Makes a window of the program's memory at each member.
    pub(crate) fn create(
        session: &'static Session,
        comm: &Comm,
        start: *mut u8,
        mine: Part,
    ) -> Outcome<Window> {
        let (comm, parts) = Self::agreed(session, comm, mine)?;
        Self::new(session, comm, Flavor::Create, parts, (start, Held::Nothing))
    }

    /// Makes a window without memory.
    pub(crate) fn dynamic(session: &'static Session, comm: &Comm) -> Outcome<Window> {
        let (comm, parts) = Self::agreed(session, comm, Part { bytes: 0, unit: 1 })?;
        let bottom = std::ptr::null_mut();
        Self::new(session, comm, Flavor::Dynamic, parts, (bottom, Held::Nothing))
    }

    /// Makes a window of zeroed memory, shared with members on the same node. With `one_piece`, all
    /// members must be on this node, and a member's part begins at the end of the one before.
    pub(crate) fn allocate(
        session: &'static Session,
        comm: &Comm,
        mine: Part,
        flavor: Flavor,
        one_piece: bool,
    ) -> Outcome<Window> {
        let (comm, parts) = Self::agreed(session, comm, mine)?;
        let shared = Neighbourhood::open(session, &comm, &parts, one_piece)?;
        if shared.is_none() && flavor == Flavor::Shared && comm.size() > 1 {
            return Err(Fault::new(Class::RmaShared, "the node gives no memory to share"));
        }
        let (start, held) = match shared {
            Some(shared) => (shared.start(comm.me), Held::Shared(shared)),
            None => {
                // SAFETY: C's own function, of any number of bytes.
                let start: *mut u8 = unsafe { calloc(mine.bytes.max(1), 1) }.cast();
                (start, Held::Allocated(start))
            }
        };
        // All members take part, because a member may be alone on its node.
        let there = !matches!(held, Held::Allocated(start) if start.is_null());
        let all = gathered(comm.party(&session.process), &[u8::from(there)])?;
        if all.contains(&0) {
            if let Held::Allocated(start) = held {
                // SAFETY: memory of `calloc`, or null; no other member knows of it.
                unsafe { free(start.cast()) };
            }
            let text = format!("no memory of {} bytes at some member", mine.bytes);
            return Err(Fault::new(Class::NoMemory, text));
        }
        Self::new(session, comm, flavor, parts, (start, held))
    }

    /// Agrees on a context for the members' requests, and exchanges their parts.
    fn agreed(session: &Session, parent: &Comm, mine: Part) -> Outcome<(Rc<Comm>, Vec<Part>)> {
        let comm = session.context_of_its_own(parent, ERRORS_ARE_FATAL)?;
        let gathered = gathered(comm.party(&session.process), &mine.encode())?;
        Ok((Rc::new(comm), gathered.as_chunks().0.iter().map(|&part| Part::decode(part)).collect()))
    }

    fn new(
        session: &'static Session,
        comm: Rc<Comm>,
        flavor: Flavor,
        parts: Vec<Part>,
        (start, held): (*mut u8, Held),
    ) -> Outcome<Window> {
        let Part { bytes, unit } = parts[comm.me];
        let attached = Attached::default();
        let exposed = match (&held, flavor) {
            (_, Flavor::Dynamic) => Exposed::Attached(Rc::clone(&attached)),
            (Held::Shared(shared), _) => shared.exposed(comm.me, bytes),
            (Held::Nothing | Held::Allocated(_), _) => Exposed::Whole { start, bytes, gate: None },
        };
        let owner = Owner::new(exposed, comm.size());
        owner.serve(session, &comm);
        let attributes = AttributeValues {
            start,
            bytes: bytes as isize,
            unit,
            flavor: flavor as c_int,
            model: UNIFIED,
        };
        let number = session.windows_made.get();
        session.windows_made.set(number + 1);
        let window = Window {
            session,
            number,
            comm,
            flavor,
            attributes,
            parts,
            held,
            attached,
            owner,
            epochs: RefCell::default(),
            under_way: RefCell::default(),
            collect_at: Cell::new(origin::COLLECT_AT),
            copies: Cell::new(0),
            requested: RefCell::default(),
            forget_at: Cell::new(origin::COLLECT_AT),
            unsettled: RefCell::default(),
            asked: Cell::new(0),
            answers: Cell::new(origin::FIRST_ANSWER),
        };
        // No member sends a request to a member that does not serve yet.
        window.barrier()?;
        Ok(window)
    }

    /// Checks that the window may be freed.
    pub(crate) fn may_end(&self) -> Outcome {
        match self.epochs.borrow().are_open() {
            true => Err(Fault::new(Class::RmaSync, "window freed inside an epoch")),
            false => Ok(()),
        }
    }

    /// Ends the window when all members do and nothing is pending, and frees memory of the library.
    pub(crate) fn end(&self) -> Outcome {
        self.may_end()?;
        self.flush_all()?;
        self.barrier()?;
        self.leave();
        // The call ends the window's background work.
        self.session.process.progress(false)?;
        if let Held::Allocated(start) = self.held {
            // SAFETY: memory of `calloc`; a window ends once, and no process accesses the memory
            // through it any more.
            unsafe { free(start.cast()) };
        }
        Ok(())
    }

    /// Stops serving other members.
    pub(crate) fn leave(&self) {
        self.owner.is_over.set(true);
    }

    /// The place of a member's part in this process, if the member is on this node and the part is
    /// in shared memory. `None` names the first member that has a part.
    pub(crate) fn shared_part(&self, member: Option<usize>) -> Outcome<(*mut u8, Part)> {
        if self.flavor != Flavor::Shared {
            return Err(Fault::new(Class::RmaFlavor, "not a window of shared memory"));
        }
        let first = || self.parts.iter().position(|part| part.bytes > 0);
        let Some(member) = member.or_else(first) else {
            return Ok((std::ptr::null_mut(), Part { bytes: 0, unit: 1 }));
        };
        let start = match &self.held {
            // A member without a part has no place.
            _ if self.parts[member].bytes == 0 => std::ptr::null_mut(),
            Held::Shared(shared) => shared.start(member),
            Held::Nothing | Held::Allocated(_) => self.attributes.start,
        };
        Ok((start, self.parts[member]))
    }

    /// Attaches memory to a dynamic window.
    pub(crate) fn attach(&self, start: *mut u8, bytes: usize) -> Outcome {
        self.is_dynamic()?;
        let start = start.expose_provenance();
        let mut attached = self.attached.borrow_mut();
        let overlaps = |&(at, length): &(usize, usize)| at < start + bytes && start < at + length;
        if attached.iter().any(overlaps) {
            return Err(Fault::new(Class::RmaAttach, "memory that is attached already"));
        }
        attached.push((start, bytes));
        Ok(())
    }

    /// Detaches memory.
    pub(crate) fn detach(&self, start: *const u8) -> Outcome {
        self.is_dynamic()?;
        let mut attached = self.attached.borrow_mut();
        let at = attached.iter().position(|&(at, _)| at == start.addr());
        let none = || Fault::new(Class::RmaAttach, "no memory is attached there");
        attached.swap_remove(at.ok_or_else(none)?);
        Ok(())
    }

    fn is_dynamic(&self) -> Outcome {
        if self.flavor == Flavor::Dynamic {
            return Ok(());
        }
        Err(Fault::new(Class::RmaFlavor, "not a window to attach memory to"))
    }

    /// Returns when all members have come here.
    pub(crate) fn barrier(&self) -> Outcome {
        Ok(now(self.comm.party(&self.session.process).barrier())?)
    }

    /// Sets the window's handle, for errors and attributes.
    pub(crate) fn is_named(&self, handle: Handle) {
        self.comm.handle.set(handle);
    }
}
