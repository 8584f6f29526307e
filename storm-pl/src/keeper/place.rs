//! Copies a file to a path as a user: the `DEST` half of `--bcast FILE:DEST`.
//!
//! The source belongs to the daemon and is opened before the privileges are dropped. Everything at
//! the destination happens with the user's rights. The file appears completely or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::credentials::{Credentials, become_user};
use crate::ids::Errno;

/// Attempts to find a free temporary name. Names contain the process id, so a second attempt is
/// rare.
const TEMPORARY_NAMES_MAX: u32 = 16;

/// A file to place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceSpec {
    /// The file, readable by the daemon.
    pub source: PathBuf,
    /// The absolute path of the copy, with patterns expanded.
    pub destination: PathBuf,
    /// Its permissions, exactly (no mask is applied).
    pub mode: u32,
    /// Whether to replace an existing file. If false, an existing file is an error.
    pub replace: bool,
    /// The user who writes the file and owns it.
    pub credentials: Credentials,
}

/// The steps of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum PlaceStep {
    /// Starting the process that copies.
    #[error("cannot start the copy")]
    Start,
    /// Opening the source, as the daemon.
    #[error("cannot open the file to place")]
    Source,
    /// The destination is not an absolute path to a file.
    #[error("the destination must be an absolute path to a file")]
    Destination,
    /// Becoming the user.
    #[error("cannot act as the user")]
    User,
    /// Creating a temporary file in the destination's directory.
    #[error("cannot create a file in the directory of the destination")]
    Create,
    /// Copying the content.
    #[error("cannot write the file")]
    Copy,
    /// Setting the permissions.
    #[error("cannot set the permissions of the file")]
    Mode,
    /// Giving it its final name.
    #[error("cannot give the file its name")]
    Rename,
    /// The process that copies was killed.
    #[error("the copy was killed")]
    Killed,
}

/// A placement that left nothing behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("{step}: {errno}")]
pub struct PlaceFailure {
    /// The step that failed.
    pub step: PlaceStep,
    /// Why, in the kernel's words.
    pub errno: Errno,
}

/// Places the file; called in a child that ends afterwards, as it changes its user.
pub(super) fn place(spec: &PlaceSpec) -> Result<(), PlaceFailure> {
    let at = |step| move |error: io::Error| PlaceFailure { step, errno: Errno::of(&error) };
    let invalid = PlaceFailure { step: PlaceStep::Destination, errno: Errno(libc::EINVAL) };
    let (Some(directory), Some(_)) = (spec.destination.parent(), spec.destination.file_name())
    else {
        return Err(invalid);
    };
    if !spec.destination.is_absolute() {
        return Err(invalid);
    }
    let source = File::open(&spec.source).map_err(at(PlaceStep::Source))?;
    become_user(&spec.credentials).map_err(at(PlaceStep::User))?;
    let (temporary, file) = create_temporary(directory).map_err(at(PlaceStep::Create))?;
    let result = fill_and_name(spec, &source, &file, &temporary);
    if result.is_err() {
        // The caller gets the failure above. A failed removal adds nothing.
        let _ = fs::remove_file(&temporary);
    }
    result.map_err(|(step, error)| at(step)(error))
}

fn fill_and_name(
    spec: &PlaceSpec,
    source: &File,
    file: &File,
    temporary: &Path,
) -> Result<(), (PlaceStep, io::Error)> {
    copy(source, file).map_err(|error| (PlaceStep::Copy, error))?;
    file.set_permissions(Permissions::from_mode(spec.mode))
        .map_err(|error| (PlaceStep::Mode, error))?;
    let named = if spec.replace {
        fs::rename(temporary, &spec.destination)
    } else {
        // A hard link refuses an existing name, on every file system that has links.
        fs::hard_link(temporary, &spec.destination).and_then(|()| fs::remove_file(temporary))
    };
    named.map_err(|error| (PlaceStep::Rename, error))
}

/// Shares the blocks if the file system can, else lets the kernel copy, else copies itself.
fn copy(source: &File, file: &File) -> io::Result<()> {
    // SAFETY: FICLONE takes the source's descriptor as its argument; both are open.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::FICLONE, source.as_raw_fd()) } == 0 {
        return Ok(());
    }
    // Tries copy_file_range, sendfile and read/write, in this order.
    io::copy(&mut &*source, &mut &*file).map(drop)
}

fn create_temporary(directory: &Path) -> io::Result<(PathBuf, File)> {
    let pid = std::process::id();
    for attempt in 0..TEMPORARY_NAMES_MAX {
        let path = directory.join(format!(".storm-place-{pid}-{attempt}"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => return Ok((path, file)),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EEXIST))
}
