//! This process between `MPI_Init` and `MPI_Finalize`: its objects, and the handling of an error.

use crate::comm::Comm;
use crate::datatype::{Combiner, Ingredient, Recipe, Type};
use crate::fault::{Fault, Outcome};
use crate::info::Info;
use crate::operation::Operation;
use crate::request::{BufferSpace, Detached, Request, Taken};
use crate::sequence::Sequence;
use crate::table::{
    COMM, ERRHANDLER, FILE, GROUP, Handle, INFO, KEYVAL, Kind, MESSAGE, REQUEST, Table, WINDOW,
};
use crate::types;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::rc::Rc;
use storm_mpi::Process;
use storm_mpi::comm::{ContextId, ContextPool, Group};

/// Exit code of a rank that ends its job because a communication failed.
const FAILED_EXIT_CODE: c_int = 1;

/// `MPI_ERRORS_ARE_FATAL`.
pub(crate) const ERRORS_ARE_FATAL: Handle = ERRHANDLER.handle(1);
/// `MPI_ERRORS_RETURN`.
const ERRORS_RETURN: Handle = ERRHANDLER.handle(2);

/// Numbers of requests: with the null handle, all their handles are positive.
const REQUESTS: Range<u32> = 0..1 << 30;
/// Numbers of messages, up to the null request, whose handle would be the next. The number of
/// `MPI_MESSAGE_NO_PROC` is never given.
const MESSAGES: Range<u32> = 1..(1 << 27) - 1;
const _: () = assert!(MESSAGE.null() + (MESSAGES.end as Handle) < REQUEST.null());

/// An error handler of a program.
pub(crate) type ErrorFunction = unsafe extern "C" fn(*mut Handle, *mut c_int, ...);

/// The effect of an error.
#[derive(Clone, Copy)]
pub(crate) enum ErrorHandler {
    /// Print the error and end the job.
    Fatal,
    /// Return the error's code.
    Return,
    /// Call the program's function, then return the error's code.
    Call(ErrorFunction),
}

/// Copies an attribute to a communicator's duplicate.
pub(crate) type CopyFunction =
    unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// Deletes an attribute.
pub(crate) type DeleteFunction =
    unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_void) -> c_int;

/// A key by which programs attach attributes to objects.
#[derive(Clone, Copy)]
pub(crate) struct Keyval {
    /// The kind of object; `None` for the library's own keys, whose values are elsewhere.
    pub(crate) of: Option<Kind>,
    /// `None` means that attributes are not copied.
    pub(crate) copy: Option<Copying>,
    pub(crate) delete: Option<DeleteFunction>,
    pub(crate) extra_state: *mut c_void,
}

/// Number of the library's own attributes, with the first keys (`MPI_TAG_UB` and so on).
pub(crate) const TOLD_ATTRIBUTES: usize = 6;
/// With the attributes of windows, which follow (`MPI_WIN_BASE` and so on), and `MPI_LASTUSEDCODE`.
pub(crate) const OWN_ATTRIBUTES: usize = TOLD_ATTRIBUTES + 6;

impl Keyval {
    /// A key of the library, whose values are not in the communicators.
    const TOLD: Keyval =
        Keyval { of: None, copy: None, delete: None, extra_state: std::ptr::null_mut() };
}

/// The way in which an attribute is copied.
#[derive(Clone, Copy)]
pub(crate) enum Copying {
    /// Only the address is copied (`MPI_COMM_DUP_FN`).
    Address,
    /// The program's function copies it.
    Call(CopyFunction),
}

/// This process in its job.
pub(crate) struct Session {
    pub(crate) process: Process,
    pub(crate) contexts: Rc<RefCell<ContextPool>>,
    pub(crate) comms: RefCell<Table<Rc<Comm>>>,
    pub(crate) groups: RefCell<Table<Group>>,
    pub(crate) types: RefCell<Table<Rc<Type>>>,
    pub(crate) operations: RefCell<Table<Rc<Operation>>>,
    pub(crate) error_handlers: RefCell<Table<ErrorHandler>>,
    pub(crate) keyvals: RefCell<Table<Keyval>>,
    pub(crate) requests: RefCell<Sequence<Request>>,
    pub(crate) taken: RefCell<Sequence<Taken>>,
    pub(crate) infos: RefCell<Table<Info>>,
    /// Number of windows that were ever made.
    pub(crate) windows_made: Cell<u64>,
    /// `MPI_FILE_NULL`, whose error handler serves files to be opened.
    pub(crate) no_file: Rc<Comm>,
    pub(crate) detached: RefCell<Detached>,
    pub(crate) buffer: Cell<Option<BufferSpace>>,
    world: Rc<Comm>,
    /// `MPI_COMM_SELF`.
    pub(crate) own: Rc<Comm>,
}

impl Session {
    /// The objects of a process that has joined its job.
    pub(crate) fn new(process: Process) -> Self {
        let contexts: Rc<RefCell<ContextPool>> = Rc::default();
        let (me, size) = (process.rank(), process.size());
        let all = Group::new((0..size).map(storm_mpi::Rank::from_index));
        let comm = |context, group, place, name: &str| {
            let comm = Comm::new(context, group, place, None, ERRORS_ARE_FATAL, &contexts);
            comm.name.replace(name.to_owned());
            Rc::new(comm)
        };
        let world = comm(ContextId::WORLD, all, me.index(), "MPI_COMM_WORLD");
        let own = comm(ContextId::SELF, Group::new([me]), 0, "MPI_COMM_SELF");
        world.handle.set(COMM.handle(1));
        own.handle.set(COMM.handle(2));
        // The object is never dropped, and nothing communicates there, so the context stays that of
        // MPI_COMM_SELF.
        let no_file = comm(ContextId::SELF, Group::new([me]), 0, "MPI_FILE_NULL");
        no_file.handle.set(FILE.null());
        no_file.errhandler.set(ERRORS_RETURN);
        let handlers = [ErrorHandler::Fatal, ErrorHandler::Return, ErrorHandler::Fatal];
        Session {
            process,
            comms: RefCell::new(Table::new(COMM, [Rc::clone(&world), Rc::clone(&own)])),
            groups: RefCell::new(Table::new(GROUP, [Group::new([])])),
            types: RefCell::new(types::predefined()),
            operations: RefCell::new(Operation::predefined()),
            error_handlers: RefCell::new(Table::new(ERRHANDLER, handlers)),
            keyvals: RefCell::new(Table::new(KEYVAL, [Keyval::TOLD; OWN_ATTRIBUTES])),
            requests: RefCell::new(Sequence::new(REQUEST, REQUESTS)),
            taken: RefCell::new(Sequence::new(MESSAGE, MESSAGES)),
            infos: RefCell::new(Table::new(INFO, [Info::default()])),
            windows_made: Cell::new(0),
            no_file,
            detached: RefCell::default(),
            buffer: Cell::new(None),
            contexts,
            world,
            own,
        }
    }

    /// `MPI_COMM_WORLD`.
    pub(crate) fn world(&self) -> Rc<Comm> {
        Rc::clone(&self.world)
    }

    pub(crate) fn comm(&self, handle: Handle) -> Outcome<Rc<Comm>> {
        self.comms.borrow().get(handle).cloned()
    }

    pub(crate) fn group(&self, handle: Handle) -> Outcome<Group> {
        self.groups.borrow().get(handle).cloned()
    }

    pub(crate) fn datatype(&self, handle: Handle) -> Outcome<Rc<Type>> {
        self.types.borrow().get(handle).cloned()
    }

    /// A recipe of these types, without numbers so far.
    pub(crate) fn recipe(&self, combiner: Combiner, types: &[Handle]) -> Outcome<Recipe> {
        let ingredient = |&handle: &Handle| match types::is_predefined(handle) {
            true => Ok(Ingredient::Predefined(handle)),
            false => Ok(Ingredient::Made(self.datatype(handle)?)),
        };
        Ok(Recipe::new(combiner, types.iter().map(ingredient).collect::<Outcome<_>>()?))
    }

    /// Checks an argument that is an info object or `MPI_INFO_NULL`.
    pub(crate) fn check_info(&self, info: Handle) -> Outcome {
        if info == INFO.null() {
            return Ok(());
        }
        self.infos.borrow().get(info).map(|_| ())
    }

    pub(crate) fn operation(&self, handle: Handle) -> Outcome<Rc<Operation>> {
        self.operations.borrow().get(handle).cloned()
    }

    /// Adds a communicator and stores its handle in it.
    pub(crate) fn add_comm(&self, comm: Comm) -> Outcome<Handle> {
        let comm = Rc::new(comm);
        let handle = self.comms.borrow_mut().add(Rc::clone(&comm))?;
        comm.handle.set(handle);
        Ok(handle)
    }

    /// Adds a datatype and stores its handle in it.
    pub(crate) fn add_type(&self, made: Type) -> Outcome<Handle> {
        let made = Rc::new(made);
        let handle = self.types.borrow_mut().add(Rc::clone(&made))?;
        made.handle.set(handle);
        Ok(handle)
    }

    /// The members of a communicator in a context of their own, for an object that is not a
    /// communicator. All members call it.
    pub(crate) fn context_of_its_own(&self, parent: &Comm, errhandler: Handle) -> Outcome<Comm> {
        parent.must_be_intra()?;
        let agreed = ContextPool::agree(&self.contexts, parent.party(&self.process))?;
        let context = agreed.ok_or(storm_mpi::CommError::NoContext)?;
        self.contexts.borrow_mut().take(context);
        let group = parent.group.clone();
        Ok(Comm::new(context, group, parent.me, None, errhandler, &self.contexts))
    }

    /// Acts as the communicator's error handler demands, and returns the function's result.
    pub(crate) fn answer(&self, name: &str, fault: &Fault, comm: Option<&Rc<Comm>>) -> c_int {
        let comm = fault.on.as_ref().or(comm).unwrap_or(&self.world);
        let handler = self.error_handlers.borrow().get(comm.errhandler.get()).copied();
        match handler {
            Ok(ErrorHandler::Return) => fault.code(),
            Ok(ErrorHandler::Call(function)) => {
                let (mut handle, mut code) = (comm.handle.get(), fault.code());
                // SAFETY: the program passed a function of this type, which takes a communicator
                // and an error code.
                unsafe { function(&mut handle, &mut code) };
                fault.code()
            }
            Ok(ErrorHandler::Fatal) | Err(_) => self.die(name, fault, comm),
        }
    }

    /// Prints the error, and ends the job.
    pub(crate) fn die(&self, name: &str, fault: &Fault, comm: &Comm) -> ! {
        let rank = self.process.rank();
        let on = comm.name.borrow();
        let on = match on.as_str() {
            "" if WINDOW.names(comm.handle.get()) => "a window",
            "" if FILE.names(comm.handle.get()) => "a file",
            "" => "a communicator",
            name => name,
        };
        let class = fault.class.name();
        say(&format!("rank {rank}: {name} on {on}: {} ({class})", fault.text));
        self.process.abort(FAILED_EXIT_CODE)
    }
}

/// Ends a process that is in no job, or that may not communicate.
pub(crate) fn die(name: &str, text: &str) -> ! {
    say(&format!("{name}: {text}"));
    std::process::exit(FAILED_EXIT_CODE)
}

/// Writes the text in a single write. Ranks often fail together, and pieces of their lines would
/// mix.
pub(crate) fn say(text: &str) {
    let line = format!("storm-mpi: {text}\n");
    eprint!("{line}");
}
