//! C programs with our own MPI, compiled as users do.

use super::{STORM, Scratch, told};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `source` with this build's `storm-mpicc`, given only the library's directories. The
/// program has the source's name without `.c`.
pub(crate) fn compiled(scratch: &Scratch, source: &Path) -> PathBuf {
    let built = Path::new(STORM).parent().expect("in a directory");
    let wrapper = built.join("storm-mpicc");
    assert!(wrapper.exists(), "{} is missing: cargo build -p storm-mpi-c", wrapper.display());
    let prefix = scratch.work().join("mpi");
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../storm-mpi/capi/include");
    let library = built.join("deps/libstormmpi.so");
    let headers = headers.read_dir().expect("headers").flatten().map(|header| {
        let to = format!("include/{}", header.file_name().display());
        (header.path(), to)
    });
    for (from, to) in headers.chain([(library, "lib/libstormmpi.so".to_owned())]) {
        let to = prefix.join(to);
        // A program that was compiled before may be running with the library.
        if !to.exists() {
            fs::create_dir_all(to.parent().expect("in the prefix")).expect("made");
            fs::copy(&from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        }
    }
    let program = scratch.work().join(source.file_stem().expect("a file"));
    let mut command = Command::new(wrapper);
    command.env("STORM_MPI_PREFIX", prefix).env_remove("CC").env_remove("STORM_MPI_CC");
    // Puts the library's directory before LD_LIBRARY_PATH: cargo's may have older builds.
    command.arg("-Wl,--disable-new-dtags");
    command.args(["-O1", "-ffp-contract=off", "-o"]).arg(&program).arg(source).arg("-lm");
    let done = command.output().expect("it starts");
    assert!(done.status.success(), "{}", told(&done));
    program
}
