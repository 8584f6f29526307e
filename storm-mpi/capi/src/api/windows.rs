//! Windows: making and ending them, and attributes of programs on them.

use super::attributes::{MaybeCopy, create, delete, found, free, give, put};
use super::errors;
use crate::abi::{Buffer, BufferMut, MAX_NAME, Out, PROC_NULL, Text, TextOut};
use crate::call::{call_library, on_library, on_window, raise};
use crate::fault::{Class, Fault, Outcome};
use crate::info::Info;
use crate::library::Library;
use crate::session::{DeleteFunction, ErrorFunction, TOLD_ATTRIBUTES};
use crate::table::{Handle, INFO, KEYVAL, WINDOW};
use crate::window::{Flavor, Part, Window};
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// A part of `bytes` bytes, from the arguments of a function.
fn part(bytes: isize, unit: c_int) -> Outcome<Part> {
    let negative = |_| Fault::new(Class::Size, format!("window of {bytes} bytes"));
    let bytes = usize::try_from(bytes).map_err(negative)?;
    if unit <= 0 {
        return Err(Fault::new(Class::Displacement, format!("displacement unit of {unit}")));
    }
    Ok(Part { bytes, unit })
}

fn add(library: &Library, made: Window, window: Out<Handle>) -> Outcome {
    let made = Rc::new(made);
    let handle = library.windows.borrow_mut().add(Rc::clone(&made))?;
    made.is_named(handle);
    window.set(handle)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_create(
    base: BufferMut,
    size: isize,
    disp_unit: c_int,
    info: Handle,
    comm: Handle,
    win: Out<Handle>,
) -> c_int {
    on_library(comm, "MPI_Win_create", |library, comm| {
        let session = &library.session;
        session.check_info(info)?;
        let part = part(size, disp_unit)?;
        if base.start().is_null() && part.bytes > 0 {
            return Err(Fault::new(Class::Base, format!("null base of {size} bytes")));
        }
        add(library, Window::create(session, comm, base.start(), part)?, win)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_allocate(
    size: isize,
    disp_unit: c_int,
    info: Handle,
    comm: Handle,
    baseptr: Out<*mut u8>,
    win: Out<Handle>,
) -> c_int {
    on_library(comm, "MPI_Win_allocate", |library, comm| {
        let session = &library.session;
        session.check_info(info)?;
        let part = part(size, disp_unit)?;
        let made = Window::allocate(session, comm, part, Flavor::Allocate, false)?;
        baseptr.set(made.attributes.start)?;
        add(library, made, win)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_allocate_shared(
    size: isize,
    disp_unit: c_int,
    info: Handle,
    comm: Handle,
    baseptr: Out<*mut u8>,
    win: Out<Handle>,
) -> c_int {
    on_library(comm, "MPI_Win_allocate_shared", |library, comm| {
        let session = &library.session;
        session.check_info(info)?;
        let part = part(size, disp_unit)?;
        let node = session.process.node_ranks();
        if comm.group.members().iter().any(|rank| node.binary_search(rank).is_err()) {
            return Err(Fault::new(Class::RmaShared, "members on several nodes"));
        }
        let apart = info != INFO.null() && {
            let infos = session.infos.borrow();
            infos.get(info)?.value("alloc_shared_noncontig") == Some("true")
        };
        let made = Window::allocate(session, comm, part, Flavor::Shared, !apart)?;
        baseptr.set(made.attributes.start)?;
        add(library, made, win)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_shared_query(
    win: Handle,
    rank: c_int,
    size: Out<isize>,
    disp_unit: Out<c_int>,
    baseptr: Out<*mut u8>,
) -> c_int {
    on_window(win, "MPI_Win_shared_query", |_, window| {
        let member = if rank == PROC_NULL { None } else { Some(window.comm.member(rank)?) };
        let (start, part) = window.shared_part(member)?;
        size.set(part.bytes as isize)?;
        disp_unit.set(part.unit)?;
        baseptr.set(start)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_create_dynamic(info: Handle, comm: Handle, win: Out<Handle>) -> c_int {
    on_library(comm, "MPI_Win_create_dynamic", |library, comm| {
        let session = &library.session;
        session.check_info(info)?;
        add(library, Window::dynamic(session, comm)?, win)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_attach(win: Handle, base: BufferMut, size: isize) -> c_int {
    on_window(win, "MPI_Win_attach", |_, window| {
        let part = part(size, 1)?;
        let start = base.start();
        if part.bytes > 0 && start.is_null() || start.addr().checked_add(part.bytes).is_none() {
            return Err(Fault::new(Class::Base, format!("{size} bytes at {start:?}")));
        }
        window.attach(start, part.bytes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_detach(win: Handle, base: Buffer) -> c_int {
    on_window(win, "MPI_Win_detach", |_, window| window.detach(base.start()))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_free(win: Out<Handle>) -> c_int {
    call_library("MPI_Win_free", |library| {
        let handle = win.get()?;
        let window = library.windows.borrow().get(handle)?.clone();
        let ended = || -> Outcome {
            window.may_end()?;
            library.session.delete_attributes(&window.comm)?;
            window.end()
        };
        ended().map_err(|fault| fault.on(&window.comm))?;
        library.windows.borrow_mut().free(handle)?;
        win.set(WINDOW.null())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_get_group(win: Handle, group: Out<Handle>) -> c_int {
    on_window(win, "MPI_Win_get_group", |session, window| {
        group.set(session.groups.borrow_mut().add(window.comm.group.clone())?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_set_info(win: Handle, info: Handle) -> c_int {
    on_window(win, "MPI_Win_set_info", |session, _| session.check_info(info))
}

/// Properties of every window, regardless of the hints that programs gave: the hints of MPI-4.1,
/// section 12.2.1.
const HELD_HINTS: [(&str, &str); 5] = [
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
];

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_get_info(win: Handle, info: Out<Handle>) -> c_int {
    on_window(win, "MPI_Win_get_info", |session, _| {
        let mut held = Info::default();
        HELD_HINTS.iter().for_each(|(key, value)| held.set((*key).into(), (*value).into()));
        info.set(session.infos.borrow_mut().add(held)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_set_name(win: Handle, name: Text) -> c_int {
    on_window(win, "MPI_Win_set_name", |_, window| {
        window.comm.name.replace(name.get()?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_get_name(win: Handle, name: TextOut, resultlen: Out<c_int>) -> c_int {
    on_window(win, "MPI_Win_get_name", |_, window| {
        name.set(&window.comm.name.borrow(), MAX_NAME, resultlen)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_create_keyval(
    copy: MaybeCopy,
    del: Option<DeleteFunction>,
    keyval: Out<c_int>,
    extra_state: *mut c_void,
) -> c_int {
    create("MPI_Win_create_keyval", WINDOW, copy, del, keyval, extra_state)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_free_keyval(keyval: Out<c_int>) -> c_int {
    free("MPI_Win_free_keyval", WINDOW, keyval)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_set_attr(win: Handle, keyval: c_int, value: *mut c_void) -> c_int {
    on_window(win, "MPI_Win_set_attr", |session, window| put(session, &window.comm, keyval, value))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_get_attr(
    win: Handle,
    keyval: c_int,
    value: Out<*const c_void>,
    flag: Out<c_int>,
) -> c_int {
    on_window(win, "MPI_Win_get_attr", |session, window| {
        let values = &window.attributes;
        // The keys of windows follow the library's keys of communicators, in the order of `mpi.h`.
        let own = match keyval.wrapping_sub(KEYVAL.handle(1 + TOLD_ATTRIBUTES)) {
            0 => values.start.cast::<c_void>().cast_const(),
            1 => (&raw const values.bytes).cast(),
            2 => (&raw const values.unit).cast(),
            3 => (&raw const values.flavor).cast(),
            4 => (&raw const values.model).cast(),
            _ => return give(found(session, &window.comm, keyval)?, value, flag),
        };
        give(Some(own), value, flag)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_delete_attr(win: Handle, keyval: c_int) -> c_int {
    on_window(win, "MPI_Win_delete_attr", |session, window| delete(session, &window.comm, keyval))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_create_errhandler(
    function: Option<ErrorFunction>,
    errhandler: Out<Handle>,
) -> c_int {
    errors::create("MPI_Win_create_errhandler", function, errhandler)
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_set_errhandler(win: Handle, errhandler: Handle) -> c_int {
    on_window(win, "MPI_Win_set_errhandler", |session, window| {
        session.error_handlers.borrow().get(errhandler)?;
        window.comm.errhandler.set(errhandler);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_get_errhandler(win: Handle, errhandler: Out<Handle>) -> c_int {
    on_window(win, "MPI_Win_get_errhandler", |_, window| {
        errhandler.set(window.comm.errhandler.get())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Win_call_errhandler(win: Handle, errorcode: c_int) -> c_int {
    on_window(win, "MPI_Win_call_errhandler", |session, window| {
        raise(session, &window.comm, "MPI_Win_call_errhandler", errorcode);
        Ok(())
    })
}
