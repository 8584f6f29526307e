//! The files of a job: opened once, hashed, and kept open for sending.

use crate::cli::BcastArgument;
use crate::failure::Failure;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use storm_mm::api::hash_file;
use storm_rm::{ContentHash, Destination, FileSpec, OsBytes};

/// The open files, each content only once.
#[derive(Debug, Default)]
pub(super) struct ShippedFiles {
    files: Vec<(ContentHash, File)>,
}

impl ShippedFiles {
    /// Adds the program.
    pub(super) fn program(&mut self, path: &Path) -> Result<FileSpec, Failure> {
        let mut spec = self.add(path, Destination::JobDirectory)?;
        // The file is executable, perhaps only for its owner.
        spec.mode |= 0o500;
        Ok(spec)
    }

    /// Adds a script that is not a file here.
    pub(super) fn contents(&mut self, contents: &[u8], name: &str) -> Result<FileSpec, Failure> {
        let fail = |error: std::io::Error| Failure::of("file", &error);
        let memory = memfd_create("script", MFdFlags::MFD_CLOEXEC);
        let mut file = File::from(memory.map_err(std::io::Error::from).map_err(fail)?);
        file.write_all(contents).map_err(fail)?;
        let (hash, size_bytes) = hash_file(&mut file).map_err(fail)?;
        self.files.push((hash, file));
        let (name, destination) = (OsBytes::from(name), Destination::JobDirectory);
        Ok(FileSpec { hash, size_bytes, mode: 0o500, name, destination })
    }

    /// Adds a file of `--bcast`. A destination that ends in a slash is a directory.
    pub(super) fn further(&mut self, bcast: &BcastArgument) -> Result<FileSpec, Failure> {
        let destination = match &bcast.destination {
            None => Destination::JobDirectory,
            Some(text) if text.as_encoded_bytes().ends_with(b"/") => {
                let name = bcast.file.file_name().unwrap_or_default();
                Destination::Path(PathBuf::from(text).join(name).into_os_string().into())
            }
            Some(path) => Destination::Path(path.clone().into()),
        };
        self.add(&bcast.file, destination)
    }

    /// The first file: the program, if it is shipped.
    pub(super) fn first(&self) -> Option<&File> {
        self.files.first().map(|(_, file)| file)
    }

    /// The files to send.
    pub(super) fn into_files(self) -> Vec<(ContentHash, File)> {
        self.files
    }

    fn add(&mut self, path: &Path, destination: Destination) -> Result<FileSpec, Failure> {
        let fail = |error: std::io::Error| {
            let mut failure = Failure::new("file", format!("{} cannot be read", path.display()));
            failure.causes.push(error.to_string());
            failure.hint("storm reads the files to copy them to the nodes")
        };
        let mut file = File::open(path).map_err(fail)?;
        let found = file.metadata().map_err(fail)?;
        if !found.is_file() {
            return Err(Failure::new("file", format!("{} is not a regular file", path.display()))
                .hint("only single files can be copied; pack a directory with tar"));
        }
        let (hash, size_bytes) = hash_file(&mut file).map_err(fail)?;
        if !self.files.iter().any(|(known, _)| *known == hash) {
            self.files.push((hash, file));
        }
        let name = path.file_name().unwrap_or_default().to_owned();
        Ok(FileSpec {
            hash,
            size_bytes,
            // Nodes drop the bits that change the user: see `without_set_id`.
            mode: found.permissions().mode() & 0o7777,
            name: OsBytes::from(name),
            destination,
        })
    }
}
