//! Files (MPI-4.1, chapter 14). All nodes reach a file by the same name. Each process reads and
//! writes for itself, through its view. A nonblocking transfer is done when its function returns.
//!
//! Deliberately absent: representations of data other than the machine's, and collective buffering.

mod shared;
mod view;

use crate::comm::Comm;
use crate::datatype::Type;
use crate::fault::{Class, Fault, Outcome};
use crate::gathered::gathered;
use crate::memory::Elements;
use crate::session::Session;
use crate::table::{Handle, TYPE};
use shared::SharedPointer;
use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, c_int};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use storm_mpi::collective::now;
use storm_mpi::layout::Layout;
use view::View;

unsafe extern "C" {
    // The standard library's drop discards the error.
    fn close(descriptor: c_int) -> c_int;
}

const CREATE: c_int = 1;
const READ_ONLY: c_int = 2;
const WRITE_ONLY: c_int = 4;
const READ_WRITE: c_int = 8;
const DELETE_ON_CLOSE: c_int = 16;
const EXCLUSIVE: c_int = 64;
const APPEND: c_int = 128;
const SEQUENTIAL: c_int = 256;
const MODES: c_int = 511;

/// `MPI_DISPLACEMENT_CURRENT`: the view of a sequential file begins at the shared pointer.
const DISPLACEMENT_CURRENT: i64 = -54278278;

/// The type of bytes: the unit of a file without a view.
pub(crate) const BYTE: Handle = TYPE.handle(4);

/// The origin for setting a pointer: values of `mpi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whence {
    Set,
    Current,
    End,
}

/// A process's view, as the program described it.
pub(crate) struct Seen {
    view: View,
    pub(crate) displacement: i64,
    /// Types, with the handles that the program passed.
    pub(crate) unit: (Handle, Rc<Type>),
    pub(crate) pattern: (Handle, Rc<Type>),
}

impl Seen {
    fn new(
        displacement: i64,
        unit: (Handle, Rc<Type>),
        pattern: (Handle, Rc<Type>),
        mode: c_int,
    ) -> Outcome<Seen> {
        let start = not_negative(displacement, "displacement")?;
        let view = view_of(start, &pattern.1.layout, mode & READ_ONLY != 0)?;
        let (unit_bytes, pattern_bytes) = (unit.1.layout.size(), pattern.1.layout.size());
        if unit_bytes == 0 || pattern_bytes % unit_bytes != 0 {
            let text = format!("a file type of {pattern_bytes} bytes in units of {unit_bytes}");
            return Err(Fault::new(Class::Arg, text));
        }
        Ok(Seen { view, displacement, unit, pattern })
    }
}

pub(crate) struct OpenFile {
    session: &'static Session,
    /// The processes that opened the file, in a context of its own, with its error handler.
    pub(crate) comm: Rc<Comm>,
    /// `None` once it is closed.
    file: RefCell<Option<Rc<File>>>,
    path: PathBuf,
    pub(crate) mode: c_int,
    pub(crate) seen: RefCell<Seen>,
    /// This process's pointer, in units of its view.
    pub(crate) position: Cell<i64>,
    /// The pointer that all processes share.
    shared: SharedPointer,
    pub(crate) is_atomic: Cell<bool>,
    /// Number of bytes of a collective that has begun and not ended.
    pub(crate) begun: Cell<Option<usize>>,
}

impl OpenFile {
    /// Opens the file at all members, or at none.
    pub(crate) fn open(
        session: &'static Session,
        comm: &Comm,
        path: &Path,
        mode: c_int,
    ) -> Outcome<OpenFile> {
        let comm = Rc::new(session.context_of_its_own(comm, session.no_file.errhandler.get())?);
        let path = plain(path);
        let first =
            if comm.me == 0 { Some(checked(mode).and_then(|()| opened(path, mode))) } else { None };
        let class =
            |opened: &Outcome<File>| opened.as_ref().map_or_else(|fault| fault.class.code(), |_| 0);
        let number = if comm.me == 0 { SharedPointer::number() } else { 0 };
        let said = i64::from(first.as_ref().map_or(0, class));
        let mut said = [said.to_ne_bytes(), number.to_ne_bytes()];
        now(comm.party(&session.process).bcast(said.as_flattened_mut(), 0))?;
        let [said, number] = [i64::from_ne_bytes(said[0]) as u64, u64::from_ne_bytes(said[1])];
        let other = |_: ()| opened(path, mode & !(CREATE | EXCLUSIVE));
        let opened = match (first, Class::of(said as c_int)) {
            (Some(first), _) => first,
            (None, None) => checked(mode).and_then(other),
            (None, Some(class)) => {
                Err(Fault::new(class, format!("{}: not at rank 0", path.display())))
            }
        };
        // The end of the file is the same for all members, because none writes before all have read
        // it.
        let opened = opened.and_then(|file| {
            let end = if mode & APPEND == 0 { 0 } else { length(&file, path)? as i64 };
            Ok((file, end))
        });
        let said = opened.as_ref().map_or_else(|fault| fault.class.code(), |_| 0);
        let all = gathered(comm.party(&session.process), &said.to_ne_bytes())?;
        let failed =
            all.as_chunks().0.iter().find_map(|&code| Class::of(c_int::from_ne_bytes(code)));
        let (file, end) = match (opened, failed) {
            (Ok(_), Some(class)) => {
                return Err(Fault::new(class, format!("{}: not at all members", path.display())));
            }
            (opened, _) => opened?,
        };
        let bytes = session.datatype(BYTE)?;
        let seen = Seen::new(0, (BYTE, Rc::clone(&bytes)), (BYTE, bytes), mode)?;
        let path = path.to_owned();
        let shared = SharedPointer::new(&path, number, end);
        Ok(OpenFile {
            session,
            comm,
            file: RefCell::new(Some(Rc::new(file))),
            path,
            mode,
            seen: RefCell::new(seen),
            position: Cell::new(end),
            shared,
            is_atomic: Cell::new(false),
            begun: Cell::new(None),
        })
    }

    /// Checks that the file may be closed.
    pub(crate) fn may_close(&self) -> Outcome {
        match self.begun.get() {
            Some(_) => Err(Fault::new(Class::Other, "closed inside a collective that has begun")),
            None => Ok(()),
        }
    }

    /// Closes the file at all members, and deletes it if it was opened with that mode.
    pub(crate) fn close(&self) -> Outcome {
        let file = self.file.borrow_mut().take();
        // If another thread still uses the file, it is closed when that use is over.
        let closed = file
            .and_then(Rc::into_inner)
            .map_or(Ok(()), closed)
            .map_err(|error| self.failed(&error));
        // A member that failed also enters the barrier, because the others wait there.
        self.barrier()?;
        self.end_shared();
        if self.mode & DELETE_ON_CLOSE != 0 {
            let deleted = self.by_one(|path| std::fs::remove_file(path));
            return closed.and(deleted);
        }
        closed
    }

    /// The file. It is not borrowed, because it is used across waits, during which other threads
    /// may enter.
    fn file(&self) -> Outcome<Rc<File>> {
        let gone = || Fault::new(Class::File, "a file that was closed");
        self.file.borrow().clone().ok_or_else(gone)
    }

    /// Bytes in the file.
    pub(crate) fn size(&self) -> Outcome<u64> {
        let file = self.file()?;
        length(&file, &self.path)
    }

    /// Sets the length of the file. With `at_least` a longer file keeps its length.
    pub(crate) fn set_size(&self, bytes: u64, at_least: bool) -> Outcome {
        self.is_writable()?;
        let file = self.file()?;
        let resized = |_: &Path| match at_least {
            false => file.set_len(bytes),
            // The file system allocates the room on the disk, if it can.
            true if bytes == 0 => Ok(()),
            true => {
                match rustix::fs::fallocate(&*file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
                    Err(rustix::io::Errno::OPNOTSUPP) if file.metadata()?.len() < bytes => {
                        file.set_len(bytes)
                    }
                    Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
                    done => Ok(done?),
                }
            }
        };
        self.by_one(resized)
    }

    /// Brings written data to the disk.
    pub(crate) fn sync(&self) -> Outcome {
        let synced = match self.mode & READ_ONLY {
            0 => self.file().and_then(|file| file.sync_data().map_err(|error| self.failed(&error))),
            _ => Ok(()),
        };
        // A member that failed also enters the barrier, because the others wait there.
        self.barrier()?;
        synced
    }

    /// Sets another view; the pointers move to its beginning. A member that cannot have the view
    /// takes part all the same, because the others wait.
    pub(crate) fn see(
        &self,
        displacement: i64,
        types: Outcome<[(Handle, Rc<Type>); 2]>,
    ) -> Outcome {
        let start = match displacement {
            DISPLACEMENT_CURRENT if self.mode & SEQUENTIAL != 0 => {
                self.barrier()?;
                self.shared_place()
            }
            displacement => Ok(displacement),
        };
        let seen = types.and_then(|[unit, pattern]| Seen::new(start?, unit, pattern, self.mode));
        // From here on, no member uses the shared pointer.
        self.barrier()?;
        let changed = seen.and_then(|seen| {
            self.seen.replace(seen);
            self.position.set(0);
            self.rewind_shared()
        });
        self.barrier()?;
        changed
    }

    /// Reads elements from an offset on, and returns the number of bytes that were there.
    pub(crate) fn read(&self, offset: i64, into: &Elements) -> Outcome<usize> {
        if self.mode & WRITE_ONLY != 0 {
            return Err(Fault::new(Class::Access, "a file that was opened for writing only"));
        }
        let (seen, position) = (self.seen.borrow(), self.bytes_before(offset)?);
        let file = self.file()?;
        let mut landing = into.landing();
        if self.is_atomic.get() {
            file.lock_shared().map_err(|error| self.failed(&error))?;
        }
        let read = seen.view.read(&file, position, landing.bytes_mut());
        self.let_go()?;
        let read = read.map_err(|error| self.failed(&error))?;
        landing.finish(read);
        Ok(read)
    }

    /// Writes elements from an offset on, and returns the number of bytes.
    pub(crate) fn write(&self, offset: i64, from: &Elements) -> Outcome<usize> {
        self.is_writable()?;
        let (seen, position) = (self.seen.borrow(), self.bytes_before(offset)?);
        let file = self.file()?;
        let data = from.packed();
        if self.is_atomic.get() {
            file.lock().map_err(|error| self.failed(&error))?;
        }
        let written = seen.view.write(&file, position, &data);
        self.let_go()?;
        written.map_err(|error| self.failed(&error))
    }

    /// Moves the pointer behind `bytes` bytes. A partly covered unit counts too.
    pub(crate) fn advance(&self, from: i64, bytes: usize) {
        let units = bytes.div_ceil(self.unit_bytes());
        self.position.set(from.saturating_add(units as i64));
    }

    /// Sets the pointer.
    pub(crate) fn seek(&self, offset: i64, whence: Whence) -> Outcome {
        self.is_not_sequential()?;
        self.position.set(self.target(offset, whence, self.position.get())?);
        Ok(())
    }

    /// The position of an offset, if the pointer is at `current`.
    fn target(&self, offset: i64, whence: Whence, current: i64) -> Outcome<i64> {
        let from = match whence {
            Whence::Set => 0,
            Whence::Current => current,
            Whence::End => {
                let seen = self.seen.borrow().view.seen_of(self.size()?);
                i64::try_from(seen.div_ceil(self.unit_bytes() as u64)).unwrap_or(i64::MAX)
            }
        };
        let beyond = || Fault::new(Class::Arg, format!("offset {offset}"));
        from.checked_add(offset).filter(|&at| at >= 0).ok_or_else(beyond)
    }

    /// The position in the file of an offset.
    pub(crate) fn byte_offset(&self, offset: i64) -> Outcome<u64> {
        let position = self.bytes_before(offset)?;
        let place = self.seen.borrow().view.place(position);
        place.ok_or_else(|| Fault::new(Class::Arg, format!("offset {offset}")))
    }

    fn unit_bytes(&self) -> usize {
        self.seen.borrow().unit.1.layout.size()
    }

    fn bytes_before(&self, offset: i64) -> Outcome<u64> {
        let units = not_negative(offset, "offset")?;
        let beyond = || Fault::new(Class::Arg, format!("offset {offset}"));
        let bytes = units.checked_mul(self.unit_bytes() as u64);
        // A transfer is shorter than memory.
        bytes.filter(|&bytes| bytes <= i64::MAX as u64).ok_or_else(beyond)
    }

    fn is_writable(&self) -> Outcome {
        if self.mode & READ_ONLY == 0 {
            return Ok(());
        }
        Err(Fault::new(Class::ReadOnly, "a file that was opened for reading only"))
    }

    fn let_go(&self) -> Outcome {
        if !self.is_atomic.get() {
            return Ok(());
        }
        self.file()?.unlock().map_err(|error| self.failed(&error))
    }

    fn barrier(&self) -> Outcome {
        Ok(now(self.comm.party(&self.session.process).barrier())?)
    }

    /// Lets one member do the work, and sends the result to all.
    fn by_one(&self, doing: impl FnOnce(&Path) -> io::Result<()>) -> Outcome {
        let done = if self.comm.me == 0 {
            doing(&self.path).map_err(|error| self.failed(&error))
        } else {
            Ok(())
        };
        let mut said = done.as_ref().map_or_else(|fault| fault.class.code(), |()| 0).to_ne_bytes();
        now(self.comm.party(&self.session.process).bcast(&mut said, 0))?;
        done?;
        match Class::of(c_int::from_ne_bytes(said)) {
            None => Ok(()),
            Some(class) => Err(Fault::new(class, format!("{}: at rank 0", self.path.display()))),
        }
    }

    fn failed(&self, error: &io::Error) -> Fault {
        fault(&self.path, error)
    }
}

/// Deletes a file.
pub(crate) fn delete(path: &Path) -> Outcome {
    let path = plain(path);
    std::fs::remove_file(path).map_err(|error| fault(path, &error))
}

/// A name may begin with the kind of a file system, as in ROMIO.
fn plain(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    Path::new(OsStr::from_bytes(bytes.strip_prefix(b"ufs:").unwrap_or(bytes)))
}

/// Closes a file and returns the result: written data may be refused only here (NFS, quotas).
fn closed(file: File) -> io::Result<()> {
    // SAFETY: C's own function. This call gives up the descriptor, and nothing else has it. The
    // descriptor is gone even if the call fails.
    match unsafe { close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn checked(mode: c_int) -> Outcome {
    let ways = [READ_ONLY, WRITE_ONLY, READ_WRITE].iter().filter(|&way| mode & way != 0).count();
    let makes = mode & (CREATE | EXCLUSIVE) != 0;
    if ways != 1 || mode & !MODES != 0 || (makes && mode & READ_ONLY != 0) {
        return Err(Fault::new(Class::AccessMode, format!("access mode {mode:#x}")));
    }
    if mode & SEQUENTIAL != 0 && mode & READ_WRITE != 0 {
        let text = "a file of MPI_MODE_SEQUENTIAL that is read and written";
        return Err(Fault::new(Class::AccessMode, text));
    }
    Ok(())
}

fn opened(path: &Path, mode: c_int) -> Outcome<File> {
    let mut options = OpenOptions::new();
    options.read(mode & (READ_ONLY | READ_WRITE) != 0);
    options.write(mode & (WRITE_ONLY | READ_WRITE) != 0);
    options.create(mode & CREATE != 0).create_new(mode & CREATE != 0 && mode & EXCLUSIVE != 0);
    options.open(path).map_err(|error| fault(path, &error))
}

fn length(file: &File, path: &Path) -> Outcome<u64> {
    Ok(file.metadata().map_err(|error| fault(path, &error))?.len())
}

fn view_of(displacement: u64, layout: &Layout, read: bool) -> Outcome<View> {
    let text = "a file type whose data does not lie in order";
    View::new(displacement, layout, read).ok_or_else(|| Fault::new(Class::Arg, text))
}

pub(crate) fn not_negative(number: i64, what: &str) -> Outcome<u64> {
    u64::try_from(number).map_err(|_| Fault::new(Class::Arg, format!("{what} {number}")))
}

fn fault(path: &Path, error: &io::Error) -> Fault {
    let class = match error.kind() {
        io::ErrorKind::NotFound => Class::NoSuchFile,
        io::ErrorKind::AlreadyExists => Class::FileExists,
        io::ErrorKind::PermissionDenied => Class::Access,
        io::ErrorKind::StorageFull => Class::NoSpace,
        io::ErrorKind::QuotaExceeded => Class::Quota,
        io::ErrorKind::ReadOnlyFilesystem => Class::ReadOnly,
        io::ErrorKind::IsADirectory
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::InvalidFilename => Class::BadFile,
        _ => Class::Io,
    };
    Fault::new(class, format!("{}: {error}", path.display()))
}
