//! The compiler wrappers. They pass all arguments on, and add the locations of `mpi.h` and the
//! library.
//!
//! `STORM_MPI_CC` (`STORM_MPI_CXX`) names the compiler, else `CC` (`CXX`), else it is `cc` (`c++`).
//! The header and the library are under `STORM_MPI_PREFIX`. Without it, they are near the wrapper,
//! as installed (`bin/`, `include/`, `lib/`), or where cargo built them.
//!
//! The wrapper has arguments of its own that the compiler does not see. `-show` prints the command
//! and runs nothing. `-static_mpi` links the library into the program. `--help` explains them
//! before the compiler's own help.
//!
//! Build systems ask for the command without anything to compile, and find the library in the
//! answer, so `-show` names the library in this case, too. CMake first asks with Open MPI's options
//! (`-showme:compile`, `-showme:link`), then with MPICH's (`-compile-info`, `-link-info`). MPICH's
//! options mean `-show`. Open MPI's options are passed to the compiler, which does not know them,
//! so CMake continues with the next.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

/// System libraries that a static library of Rust needs (`rustc --print native-static-libs`).
const NATIVE_LIBRARIES: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
/// Arguments with which nothing is linked.
const NO_LINKING: [&str; 7] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "--version"];
/// Arguments with which the command is printed.
const SHOW: [&str; 4] = ["-show", "--show", "-compile-info", "-link-info"];
/// Exit code when there is nothing to compile with.
const FAILED_EXIT_CODE: u8 = 1;

/// A language, and its compiler.
pub(crate) struct Language {
    /// The name of the wrapper.
    pub(crate) name: &'static str,
    /// The variable that names the compiler, alone or after `STORM_MPI_`.
    pub(crate) variable: &'static str,
    /// The compiler without such a variable.
    pub(crate) compiler: &'static str,
}

/// Becomes the compiler. Returns only when that fails, or with `-show`.
pub(crate) fn run(language: &Language) -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let shows = |a: &OsString| SHOW.iter().any(|option| a == option);
    let show = arguments.iter().any(shows);
    let is_static = arguments.iter().any(|a| a == "-static_mpi");
    let own = |a: &OsString| shows(a) || a == "-static_mpi";
    // Elsewhere the word may be an argument of another option, such as -Xlinker.
    if let [only] = arguments.as_slice()
        && (only == "--help" || only == "-help")
    {
        return language.help();
    }
    let Some(place) = Place::find() else {
        let name = language.name;
        eprintln!(
            "{name}: mpi.h and libstormmpi are neither beside {name} nor in STORM_MPI_PREFIX"
        );
        return ExitCode::from(FAILED_EXIT_CODE);
    };
    let mut command = language.command();
    command.arg(with_prefix("-I", &place.include));
    let passed_on = || arguments.iter().filter(|a| !own(a));
    command.args(passed_on());
    if links(passed_on(), show) {
        command.args(place.link_arguments(is_static));
    }
    if show {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<String> = words.map(quoted).collect();
        println!("{}", words.join(" "));
        return ExitCode::SUCCESS;
    }
    let error = command.exec();
    eprintln!("{}: {}: {error}", language.name, command.get_program().display());
    ExitCode::from(FAILED_EXIT_CODE)
}

impl Language {
    /// The compiler with the other words of its variable (`ccache gcc -m64`).
    fn command(&self) -> Command {
        let named = [format!("STORM_MPI_{}", self.variable), self.variable.to_owned()]
            .iter()
            .filter_map(|variable| env::var(variable).ok())
            .find(|value| !value.trim().is_empty() && !self.is_this(value));
        let named = named.unwrap_or_else(|| self.compiler.to_owned());
        let mut words = named.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or(self.compiler));
        command.args(words);
        command
    }

    /// Prints the wrapper's help, and then the compiler's. If the reader has closed the pipe,
    /// nothing more is printed.
    fn help(&self) -> ExitCode {
        let Language { name, variable, compiler } = self;
        let mut command = self.command();
        let wrapped = command.get_program().display().to_string();
        let text = format!(
            "\
Usage: {name} [-show] [-static_mpi] [ARGUMENTS OF THE COMPILER]...

Compiles and links programs with storm's MPI: it passes its arguments on to the compiler,
here {wrapped}, and adds where mpi.h and libstormmpi are.

  -show         print the command, run nothing
  -static_mpi   link libstormmpi.a into the program, which then needs no library of storm's
  --help        this, and the help of the compiler

  STORM_MPI_{variable}, else {variable}   the compiler, in place of {compiler}
  STORM_MPI_PREFIX         the directory with include/mpi.h and lib/libstormmpi.so or .a

Example:
  {name} -O2 -o ring ring.c && storm submit -n 16 ./ring

What follows is the help of {wrapped}:

"
        );
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            return ExitCode::SUCCESS;
        }
        let error = command.arg("--help").exec();
        eprintln!("{name}: {wrapped}: {error}");
        ExitCode::from(FAILED_EXIT_CODE)
    }

    /// `CC=storm-mpicc make` names this program, which must not call itself for ever.
    fn is_this(&self, value: &str) -> bool {
        let first = value.split_whitespace().next().unwrap_or_default();
        Path::new(first).file_name().is_some_and(|name| name == self.name)
    }
}

/// The place of the header and the library.
struct Place {
    include: PathBuf,
    lib: PathBuf,
}

impl Place {
    fn find() -> Option<Place> {
        let under =
            |prefix: &Path| Place { include: prefix.join("include"), lib: prefix.join("lib") };
        if let Some(prefix) = env::var_os("STORM_MPI_PREFIX") {
            return under(Path::new(&prefix)).complete();
        }
        let program = env::current_exe().ok()?;
        let here = program.parent()?;
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
        let built = || {
            // `cargo build` puts the library next to its programs; `cargo test` leaves it below
            // them.
            let in_either = [here.to_owned(), here.join("deps")];
            let places = in_either.map(|lib| Place { include: include.clone(), lib }.complete());
            places.into_iter().flatten().max_by_key(Place::made_at)
        };
        here.parent().and_then(|prefix| under(prefix).complete()).or_else(built)
    }

    /// The time when the shared library was made.
    fn made_at(&self) -> Option<SystemTime> {
        self.lib.join("libstormmpi.so").metadata().and_then(|file| file.modified()).ok()
    }

    fn complete(self) -> Option<Place> {
        let library = |name: &str| self.lib.join(name).exists();
        let found = library("libstormmpi.so") || library("libstormmpi.a");
        (found && self.include.join("mpi.h").exists()).then_some(self)
    }

    fn link_arguments(&self, is_static: bool) -> Vec<OsString> {
        if is_static {
            let archive = self.lib.join("libstormmpi.a").into_os_string();
            return std::iter::once(archive).chain(NATIVE_LIBRARIES.map(OsString::from)).collect();
        }
        let mut arguments = vec![with_prefix("-L", &self.lib)];
        arguments.push(with_prefix("-Wl,-rpath,", &self.lib));
        arguments.push("-lstormmpi".into());
        arguments
    }
}

/// Whether the compiler will link: it has something to compile or to link, and no option stops it
/// before. With `would`, the input may be missing, as in a query.
fn links<'a>(arguments: impl Iterator<Item = &'a OsString> + Clone, would: bool) -> bool {
    let stops = arguments.clone().any(|a| NO_LINKING.iter().any(|option| a == option));
    let mut after_output = false;
    let mut has_input = would;
    for argument in arguments {
        let bytes = argument.as_encoded_bytes();
        has_input |= !after_output && (!bytes.starts_with(b"-") || bytes == b"-");
        after_output = bytes == b"-o";
    }
    has_input && !stops
}

fn with_prefix(prefix: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(prefix);
    argument.push(path);
    argument
}

/// A word, quoted for a shell.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+/.,:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
