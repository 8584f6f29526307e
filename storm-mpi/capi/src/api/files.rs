//! Files: opening, views, pointers, and queries.

use super::errors;
use crate::abi::{Out, Text, TextOut};
use crate::call::{on, on_file, on_no_file, raise};
use crate::comm::Comm;
use crate::datatype::Type;
use crate::fault::{Class, Fault, Outcome};
use crate::file::{OpenFile, Whence, delete, not_negative};
use crate::info::Info;
use crate::library::Library;
use crate::session::{ErrorFunction, Session};
use crate::table::{FILE, Handle};
use crate::types::is_predefined;
use std::ffi::c_int;
use std::rc::Rc;

/// `MPI_MAX_DATAREP_STRING`.
const MAX_REPRESENTATION: usize = 128;
/// The representation of data in files: as in memory.
const NATIVE: &str = "native";
/// The standard allows `internal` to be the same.
const INTERNAL: &str = "internal";

const SEEK_SET: c_int = 600;
const SEEK_CUR: c_int = 602;
const SEEK_END: c_int = 604;

#[unsafe(no_mangle)]
extern "C" fn MPI_File_open(
    comm: Handle,
    filename: Text,
    amode: c_int,
    info: Handle,
    fh: Out<Handle>,
) -> c_int {
    let mut opened = None;
    let found = on(comm, "MPI_File_open", |session, comm| {
        session.check_info(info)?;
        opened = Some(filename.path().and_then(|path| OpenFile::open(session, comm, &path, amode)));
        Ok(())
    });
    let Some(opened) = opened else { return found };
    // Errors of the opening do not go to the communicator's handler.
    on_no_file("MPI_File_open", |library| {
        let file = Rc::new(opened?);
        let handle = library.files.borrow_mut().add(Rc::clone(&file))?;
        file.comm.handle.set(handle);
        fh.set(handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_close(fh: Out<Handle>) -> c_int {
    on_no_file("MPI_File_close", |library| {
        let handle = fh.get()?;
        let file = library.files.borrow().get(handle)?.clone();
        file.may_close().map_err(|fault| fault.on(&file.comm))?;
        let closed = file.close();
        library.files.borrow_mut().free(handle)?;
        fh.set(FILE.null())?;
        closed.map_err(|fault| fault.on(&file.comm))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_delete(filename: Text, info: Handle) -> c_int {
    on_no_file("MPI_File_delete", |library| {
        library.session.check_info(info)?;
        delete(&filename.path()?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_set_size(fh: Handle, size: i64) -> c_int {
    on_file(fh, "MPI_File_set_size", |_, file| file.set_size(not_negative(size, "size")?, false))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_preallocate(fh: Handle, size: i64) -> c_int {
    on_file(fh, "MPI_File_preallocate", |_, file| file.set_size(not_negative(size, "size")?, true))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_get_size(fh: Handle, size: Out<i64>) -> c_int {
    on_file(fh, "MPI_File_get_size", |_, file| size.set(file.size()? as i64))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_get_group(fh: Handle, group: Out<Handle>) -> c_int {
    on_file(fh, "MPI_File_get_group", |session, file| {
        group.set(session.groups.borrow_mut().add(file.comm.group.clone())?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_get_amode(fh: Handle, amode: Out<c_int>) -> c_int {
    on_file(fh, "MPI_File_get_amode", |_, file| amode.set(file.mode))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_set_info(fh: Handle, info: Handle) -> c_int {
    on_file(fh, "MPI_File_set_info", |session, _| session.check_info(info))
}

/// The hints that the library uses: none.
#[unsafe(no_mangle)]
extern "C" fn MPI_File_get_info(fh: Handle, info_used: Out<Handle>) -> c_int {
    on_file(fh, "MPI_File_get_info", |session, _| {
        info_used.set(session.infos.borrow_mut().add(Info::default())?)
    })
}

/// A type of a view, which must be committed.
fn committed(session: &Session, handle: Handle) -> Outcome<(Handle, Rc<Type>)> {
    let datatype = session.datatype(handle)?;
    match datatype.committed.get() {
        true => Ok((handle, datatype)),
        false => Err(Fault::new(Class::Type, "datatype that was not committed")),
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_set_view(
    fh: Handle,
    disp: i64,
    etype: Handle,
    filetype: Handle,
    datarep: Text,
    info: Handle,
) -> c_int {
    on_file(fh, "MPI_File_set_view", |session, file| {
        file.see(disp, described(session, [etype, filetype], datarep, info))
    })
}

/// The types of a view, from the arguments of the function.
fn described(
    session: &Session,
    [etype, filetype]: [Handle; 2],
    datarep: Text,
    info: Handle,
) -> Outcome<[(Handle, Rc<Type>); 2]> {
    session.check_info(info)?;
    let representation = datarep.get()?;
    if ![NATIVE, INTERNAL].contains(&representation.as_str()) {
        let text = format!("representation {representation}");
        return Err(Fault::new(Class::UnsupportedRepresentation, text));
    }
    Ok([committed(session, etype)?, committed(session, filetype)?])
}

/// A handle for a type of a view: the program frees it, if it is not a predefined one.
fn handed(session: &Session, (handle, datatype): &(Handle, Rc<Type>)) -> Outcome<Handle> {
    if is_predefined(*handle) {
        return Ok(*handle);
    }
    session.types.borrow_mut().add(Rc::clone(datatype))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_get_view(
    fh: Handle,
    disp: Out<i64>,
    etype: Out<Handle>,
    filetype: Out<Handle>,
    datarep: TextOut,
) -> c_int {
    on_file(fh, "MPI_File_get_view", |session, file| {
        let seen = file.seen.borrow();
        disp.set(seen.displacement)?;
        etype.set(handed(session, &seen.unit)?)?;
        filetype.set(handed(session, &seen.pattern)?)?;
        datarep.set_cut(NATIVE, MAX_REPRESENTATION)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_get_type_extent(fh: Handle, datatype: Handle, extent: Out<isize>) -> c_int {
    on_file(fh, "MPI_File_get_type_extent", |session, _| {
        extent.set(session.datatype(datatype)?.layout.extent())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_seek(fh: Handle, offset: i64, whence: c_int) -> c_int {
    on_file(fh, "MPI_File_seek", |_, file| file.seek(offset, whence_of(whence)?))
}

pub(super) fn whence_of(whence: c_int) -> Outcome<Whence> {
    match whence {
        SEEK_SET => Ok(Whence::Set),
        SEEK_CUR => Ok(Whence::Current),
        SEEK_END => Ok(Whence::End),
        other => Err(Fault::new(Class::Arg, format!("whence {other}"))),
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_get_position(fh: Handle, offset: Out<i64>) -> c_int {
    on_file(fh, "MPI_File_get_position", |_, file| {
        file.is_not_sequential()?;
        offset.set(file.position.get())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_get_byte_offset(fh: Handle, offset: i64, disp: Out<i64>) -> c_int {
    on_file(fh, "MPI_File_get_byte_offset", |_, file| disp.set(file.byte_offset(offset)? as i64))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_set_atomicity(fh: Handle, flag: c_int) -> c_int {
    on_file(fh, "MPI_File_set_atomicity", |_, file| {
        file.is_atomic.set(flag != 0);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_get_atomicity(fh: Handle, flag: Out<c_int>) -> c_int {
    on_file(fh, "MPI_File_get_atomicity", |_, file| flag.set(c_int::from(file.is_atomic.get())))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_sync(fh: Handle) -> c_int {
    on_file(fh, "MPI_File_sync", |_, file| file.sync())
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_create_errhandler(
    function: Option<ErrorFunction>,
    errhandler: Out<Handle>,
) -> c_int {
    errors::create("MPI_File_create_errhandler", function, errhandler)
}

/// The communicator with the error handler of a file. `MPI_FILE_NULL` stands for files to be
/// opened.
fn handling(library: &Library, file: Handle) -> Outcome<Rc<Comm>> {
    if file == FILE.null() {
        return Ok(Rc::clone(&library.session.no_file));
    }
    Ok(Rc::clone(&library.files.borrow().get(file)?.comm))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_set_errhandler(file: Handle, errhandler: Handle) -> c_int {
    on_no_file("MPI_File_set_errhandler", |library| {
        library.session.error_handlers.borrow().get(errhandler)?;
        handling(library, file)?.errhandler.set(errhandler);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_get_errhandler(file: Handle, errhandler: Out<Handle>) -> c_int {
    on_no_file("MPI_File_get_errhandler", |library| {
        errhandler.set(handling(library, file)?.errhandler.get())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_File_call_errhandler(fh: Handle, errorcode: c_int) -> c_int {
    on_no_file("MPI_File_call_errhandler", |library| {
        raise(&library.session, &handling(library, fh)?, "MPI_File_call_errhandler", errorcode);
        Ok(())
    })
}
