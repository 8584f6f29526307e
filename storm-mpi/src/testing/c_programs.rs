//! Programs in C, compiled by this build's `storm-mpicc` as a user would.

use std::fs;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An installation of this build's headers and shared library.
#[derive(Clone, Debug)]
pub struct CPrograms {
    wrapper: PathBuf,
    prefix: PathBuf,
}

impl CPrograms {
    /// Installs into `prefix`. `built` is the directory into which Cargo puts programs.
    ///
    /// # Errors
    /// A file is missing, or `prefix` cannot be written; the error names the file.
    pub fn install(built: &Path, prefix: &Path) -> Result<CPrograms> {
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("capi/include");
        for header in fs::read_dir(headers)? {
            copy(&header?.path(), &prefix.join("include"))?;
        }
        copy(&built.join("deps/libstormmpi.so"), &prefix.join("lib"))?;
        Ok(CPrograms { wrapper: built.join("storm-mpicc"), prefix: prefix.to_owned() })
    }

    /// The wrapper, which uses the system's compiler and this installation.
    pub fn mpicc(&self) -> Command {
        let mut command = Command::new(&self.wrapper);
        command.env("STORM_MPI_PREFIX", &self.prefix).env_remove("CC").env_remove("STORM_MPI_CC");
        command
    }
}

fn copy(file: &Path, directory: &Path) -> Result<()> {
    let named = |error: Error| {
        let advice = "missing? cargo build -p storm-mpi-c";
        Error::new(error.kind(), format!("{}: {error} ({advice})", file.display()))
    };
    fs::create_dir_all(directory)?;
    let name = file.file_name().unwrap_or_default();
    fs::copy(file, directory.join(name)).map_err(named)?;
    Ok(())
}
