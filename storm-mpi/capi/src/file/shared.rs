//! The pointer that the processes with an open file share: a number in a separate file in the same
//! directory. A process that moves the pointer locks that file, as in ROMIO. The file exists from
//! the pointer's first use until the open file is closed.

use super::{OpenFile, SEQUENTIAL, Whence, fault};
use crate::fault::{Class, Fault, Outcome};
use crate::gathered::gathered;
use rustix::fs::OFlags;
use std::cell::{Cell, Ref, RefCell};
use std::ffi::{OsString, c_int};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use storm_mpi::collective::now;

const BYTES: usize = size_of::<i64>();

/// The pointer, in units of the views, which must then be the same at all members.
pub(super) struct SharedPointer {
    path: PathBuf,
    /// The initial position.
    start: Cell<i64>,
    file: RefCell<Option<File>>,
}

impl SharedPointer {
    /// The pointer of a file. All members pass the same number.
    pub(super) fn new(of: &Path, number: u64, start: i64) -> Self {
        let mut name = OsString::from(".");
        name.push(of.file_name().unwrap_or_default());
        name.push(format!(".shared-{number:016x}"));
        let path = of.with_file_name(name);
        SharedPointer { path, start: Cell::new(start), file: RefCell::default() }
    }

    /// A number that no other open file has.
    pub(super) fn number() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Processes that start in the same nanosecond are on different hosts or have different
        // numbers.
        since.as_nanos() as u64 ^ u64::from(std::process::id()) << 40
    }

    /// Changes the number, and returns the previous one.
    fn change(&self, to: impl FnOnce(i64) -> Option<i64>) -> io::Result<Option<i64>> {
        let file = self.file()?;
        while let Err(error) = file.lock() {
            // A signal handler of the program ran, for example of a timer or a profiler.
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let changed = self.locked(&file, to);
        file.unlock()?;
        changed
    }

    fn locked(&self, file: &File, to: impl FnOnce(i64) -> Option<i64>) -> io::Result<Option<i64>> {
        let mut bytes = [0; BYTES];
        let before = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => i64::from_ne_bytes(bytes),
            // The pointer has not been used yet.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.start.get(),
            Err(error) => return Err(error),
        };
        let Some(after) = to(before) else { return Ok(None) };
        if after != before {
            file.write_all_at(&after.to_ne_bytes(), 0)?;
        }
        Ok(Some(before))
    }

    fn file(&self) -> io::Result<Ref<'_, File>> {
        if self.file.borrow().is_none() {
            let mut options = OpenOptions::new();
            // In a directory that others may write to, a symlink could lead to another file of this
            // user.
            options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
            let file = options.read(true).write(true).create(true).mode(0o600).open(&self.path)?;
            self.file.replace(Some(file));
        }
        Ref::filter_map(self.file.borrow(), Option::as_ref)
            .map_err(|_| io::ErrorKind::NotFound.into())
    }
}

impl OpenFile {
    /// Moves the pointer by the length of a transfer, and returns the transfer's beginning.
    pub(crate) fn claim(&self, bytes: usize) -> Outcome<i64> {
        let units = self.units(bytes);
        self.change_shared(|before| before.checked_add(units))
    }

    /// Like [`OpenFile::claim`], for transfers of all members in their order. All members call it.
    /// A member with a fault transfers nothing.
    pub(crate) fn claim_in_order(&self, bytes: Outcome<usize>) -> Outcome<i64> {
        let mine = bytes.as_ref().map_or(0, |&bytes| self.units(bytes));
        let told = gathered(self.comm.party(&self.session.process), &mine.to_ne_bytes())?;
        let all: Vec<i64> =
            told.as_chunks().0.iter().map(|&units| i64::from_ne_bytes(units)).collect();
        let sum = |units: &[i64]| units.iter().fold(0, |sum: i64, &one| sum.saturating_add(one));
        let first = self.first_says(|| self.change_shared(|at| at.checked_add(sum(&all))))?;
        bytes?;
        Ok(first.saturating_add(sum(&all[..self.comm.me])))
    }

    /// Sets the pointer. All members call it with the same arguments.
    pub(crate) fn seek_shared(&self, offset: i64, whence: Whence) -> Outcome {
        self.is_not_sequential()?;
        let mine = [offset.to_ne_bytes(), (whence as i64).to_ne_bytes()];
        // All members that had to move the pointer before have arrived here.
        let told = gathered(self.comm.party(&self.session.process), mine.as_flattened())?;
        let moved = self.first_says(|| {
            let to = |from| self.target(offset, whence, from);
            let mut wrong = None;
            let changed = self.change_shared(|from| to(from).map_err(|no| wrong = Some(no)).ok());
            wrong.map_or(changed, Err)
        });
        if told.chunks(mine.as_flattened().len()).any(|other| other != mine.as_flattened()) {
            return Err(Fault::new(Class::NotSame, "members that seek different places"));
        }
        moved.map(drop)
    }

    /// The position of the pointer.
    pub(crate) fn shared_position(&self) -> Outcome<i64> {
        self.is_not_sequential()?;
        self.change_shared(Some)
    }

    /// The position of the pointer in the file, for a view that begins there.
    pub(super) fn shared_place(&self) -> Outcome<i64> {
        let place = self.byte_offset(self.change_shared(Some)?)?;
        Ok(i64::try_from(place).unwrap_or(i64::MAX))
    }

    /// Sets the pointer to the beginning of new views. All members call it, and none uses the
    /// pointer meanwhile.
    pub(super) fn rewind_shared(&self) -> Outcome {
        self.shared.start.set(0);
        if self.comm.me == 0 && self.shared.path.exists() {
            self.change_shared(|_| Some(0))?;
        }
        Ok(())
    }

    /// Removes the pointer's file, when all are done.
    pub(super) fn end_shared(&self) {
        if self.comm.me == 0 {
            // A pointer that was never used has no file.
            let _ = std::fs::remove_file(&self.shared.path);
        }
    }

    /// Refuses access out of order to a sequential file.
    pub(crate) fn is_not_sequential(&self) -> Outcome {
        if self.mode & SEQUENTIAL == 0 {
            return Ok(());
        }
        let text = "a file of MPI_MODE_SEQUENTIAL, which has the shared pointer only";
        Err(Fault::new(Class::UnsupportedOperation, text))
    }

    fn units(&self, bytes: usize) -> i64 {
        bytes.div_ceil(self.unit_bytes()) as i64
    }

    fn change_shared(&self, to: impl FnOnce(i64) -> Option<i64>) -> Outcome<i64> {
        let changed = self.shared.change(to).map_err(|error| fault(&self.shared.path, &error))?;
        changed.ok_or_else(|| Fault::new(Class::Arg, "a shared pointer beyond all files"))
    }

    /// Sends the result of the first member to all members.
    fn first_says(&self, doing: impl FnOnce() -> Outcome<i64>) -> Outcome<i64> {
        let done = if self.comm.me == 0 { doing() } else { Ok(0) };
        let class = done.as_ref().map_or_else(|fault| fault.class.code(), |_| 0);
        let at = done.as_ref().map_or(0, |&at| at);
        let mut said = [i64::from(class), at].map(i64::to_ne_bytes);
        now(self.comm.party(&self.session.process).bcast(said.as_flattened_mut(), 0))?;
        done?;
        let [class, at] = said.map(i64::from_ne_bytes);
        match Class::of(class as c_int) {
            None => Ok(at),
            Some(class) => Err(Fault::new(class, "the shared pointer: at rank 0")),
        }
    }
}
