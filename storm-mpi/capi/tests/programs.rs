//! C programs that are compiled with `storm-mpicc` and run as whole jobs on simulated nodes of this
//! host.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::Duration;
use storm_mpi::testing::{Launcher, Outcome};
use tempfile::TempDir;

/// (nodes, ranks per node): alone, one node, all remote, mixed, more ranks than processors.
const SHAPES: [(usize, usize); 5] = [(1, 1), (1, 2), (2, 1), (2, 2), (4, 4)];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

/// The library as installed. Cargo builds it next to the tests, and elsewhere only if the library
/// itself is a target.
static PREFIX: LazyLock<TempDir> = LazyLock::new(|| {
    let prefix = TempDir::new().expect("a directory");
    let test = std::env::current_exe().expect("this test has a path");
    let built = test.parent().expect("in a directory");
    let copy = |from: &Path, to: &str| {
        let to = prefix.path().join(to);
        std::fs::create_dir_all(to.parent().expect("in the prefix")).expect("made");
        std::fs::copy(from, to).expect("copied");
    };
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for header in headers.read_dir().expect("there are some").flatten() {
        copy(&header.path(), &format!("include/{}", header.file_name().display()));
    }
    copy(&built.join("libstormmpi.so"), "lib/libstormmpi.so");
    copy(&built.join("libstormmpi.a"), "lib/libstormmpi.a");
    copy(Path::new(env!("CARGO_BIN_EXE_storm-mpicc")), "bin/storm-mpicc");
    copy(Path::new(env!("CARGO_BIN_EXE_storm-mpicxx")), "bin/storm-mpicxx");
    prefix
});

/// An installed wrapper that knows only the system's compiler.
fn wrapper(name: &str) -> Command {
    let mut command = Command::new(PREFIX.path().join("bin").join(name));
    for variable in ["CC", "CXX", "STORM_MPI_CC", "STORM_MPI_CXX", "STORM_MPI_PREFIX"] {
        command.env_remove(variable);
    }
    command
}

fn mpicc() -> Command {
    let mut command = wrapper("storm-mpicc");
    command.args(["-O1", "-Wall", "-Wextra", "-Werror"]);
    command
}

fn ran(command: &mut Command) -> Output {
    let output = command.output().expect("the wrapper starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Interval of slices for programs that do not wait, but look again and again.
const TICK: Duration = Duration::from_millis(2);

/// A compiled program, and its directory, which is removed with it.
struct Program {
    path: PathBuf,
    _directory: TempDir,
}

impl Program {
    fn compiled(name: &str) -> Program {
        Self::with(mpicc().arg(source(&format!("{name}.c"))).arg("-lm"))
    }

    fn with(command: &mut Command) -> Program {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("program");
        ran(command.arg("-o").arg(&path));
        Program { path, _directory: directory }
    }

    fn run(&self, (nodes, per_node): (usize, usize)) -> Outcome {
        let outcome = Launcher::new(&self.path).nodes(nodes, per_node).run().expect("it starts");
        assert!(outcome.success(), "{nodes} x {per_node}: {}", outcome.report());
        outcome
    }

    /// Runs the program with nodes that move messages in slices.
    fn run_in_slices(&self, (nodes, per_node): (usize, usize)) -> Outcome {
        let launcher = Launcher::new(&self.path).nodes(nodes, per_node);
        let outcome = launcher.in_slices().at_least_every(TICK).run().expect("it starts");
        assert!(outcome.success(), "{nodes} x {per_node}, in slices: {}", outcome.report());
        outcome
    }

    fn run_everywhere(&self) {
        for shape in SHAPES {
            self.run(shape);
            self.run_in_slices(shape);
        }
    }
}

#[test]
fn messages() {
    let program = Program::compiled("messages");
    program.run_everywhere();
}

#[test]
fn sends_that_are_taken_back() {
    let program = Program::compiled("cancel");
    program.run_everywhere();
}

#[test]
fn collectives_whose_bits_are_the_same_in_every_run() {
    the_bits_are_the_same_in_every_run(&Program::compiled("collectives"));
}

#[test]
fn collectives_between_groups_whose_bits_are_the_same_in_every_run() {
    the_bits_are_the_same_in_every_run(&Program::compiled("across"));
}

/// Compares the output of runs.
fn the_bits_are_the_same_in_every_run(program: &Program) {
    for shape in SHAPES {
        let mut sums: Vec<String> = (0..2)
            .flat_map(|_| program.run(shape).ranks)
            .chain(program.run_in_slices(shape).ranks)
            .flat_map(|rank| rank.stdout.lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        sums.sort_unstable();
        sums.dedup();
        // "MEMBERS BITS": one result for each number of members.
        let members = |sum: &String| sum.split(' ').next().map(str::to_owned);
        let mut numbers: Vec<_> = sums.iter().map(members).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), sums.len(), "{sums:?}");
    }
}

#[test]
fn collectives_in_the_background() {
    let program = Program::compiled("background");
    program.run_everywhere();
}

#[test]
fn collectives_that_are_started_again() {
    let program = Program::compiled("persistent");
    program.run_everywhere();
}

#[test]
fn messages_by_every_way() {
    let program = Program::compiled("straight");
    program.run_everywhere();
}

#[test]
fn matched_probes_hints_and_old_names() {
    let program = Program::compiled("hints");
    program.run_everywhere();
}

#[test]
fn derived_datatypes() {
    let program = Program::compiled("types");
    program.run_everywhere();
}

#[test]
fn markers_of_where_types_begin_and_end() {
    let program = Program::compiled("markers");
    program.run_everywhere();
}

#[test]
fn contents_of_types_and_codes_of_programs() {
    let program = Program::compiled("additions");
    program.run_everywhere();
}

#[test]
fn communicators() {
    let program = Program::compiled("communicators");
    program.run_everywhere();
}

#[test]
fn duplicates_in_the_background() {
    let program = Program::compiled("duplicates");
    program.run_everywhere();
}

#[test]
fn intercommunicators() {
    let program = Program::compiled("intercomms");
    program.run_everywhere();
}

#[test]
fn graphs() {
    let program = Program::compiled("graphs");
    program.run_everywhere();
}

#[test]
fn one_sided_communication() {
    let program = Program::compiled("windows");
    program.run_everywhere();
    for way in ["spin", "block", "spin-block"] {
        let launcher = Launcher::new(&program.path).env("STORM_MPI_WAIT", way);
        let outcome = launcher.nodes(2, 2).run().expect("it starts");
        assert!(outcome.success(), "{way}: {}", outcome.report());
    }
}

#[test]
fn windows_are_served_whatever_their_owner_does() {
    let program = Program::compiled("served");
    program.run_everywhere();
}

#[test]
fn work_of_the_programs_own() {
    let program = Program::with(mpicc().arg("-pthread").arg(source("generalized.c")));
    program.run_everywhere();
}

#[test]
fn graphs_of_mpi_1_and_distributed_arrays() {
    let program = Program::compiled("arrangements");
    program.run_everywhere();
}

#[test]
fn files() {
    in_a_directory("files");
}

#[test]
fn pointers_of_files_that_processes_share() {
    in_a_directory("shared");
}

/// Runs a program in all shapes, with a directory for files as its argument.
fn in_a_directory(name: &str) {
    let program = Program::compiled(name);
    let directory = TempDir::new().expect("a directory");
    for shape in SHAPES {
        for in_slices in [false, true] {
            let launcher =
                Launcher::new(&program.path).arg(directory.path()).nodes(shape.0, shape.1);
            let launcher = if in_slices { launcher.in_slices() } else { launcher };
            let outcome = launcher.run().expect("it starts");
            assert!(outcome.success(), "{shape:?}, {in_slices}: {}", outcome.report());
        }
    }
}

#[test]
fn threads_that_communicate_all_at_once() {
    let program = Program::with(mpicc().arg("-pthread").arg(source("threads.c")));
    program.run_everywhere();
    for way in ["spin", "block", "spin-block"] {
        let launcher = Launcher::new(&program.path).env("STORM_MPI_WAIT", way);
        let outcome = launcher.nodes(1, 2).run().expect("it starts");
        assert!(outcome.success(), "{way}: {}", outcome.report());
    }
}

#[test]
fn threads_that_take_turns_and_those_that_may_not_call() {
    let program = Program::with(mpicc().arg("-pthread").arg(source("levels.c")));
    program.run_everywhere();
    let of_level = |level: &str| Launcher::new(&program.path).arg(level).nodes(1, 2);
    for level in ["0", "1", "2", "3"] {
        let outcome = of_level(level).run().expect("it starts");
        assert!(outcome.success(), "{level}: {}", outcome.report());
    }
    let refused = of_level("1").arg("call").run().expect("it starts");
    // The first rank that reports it ends the others.
    let is_said = refused.ranks.iter().any(|rank| rank.stderr.contains("from another thread"));
    assert!(!refused.success() && is_said, "{}", refused.report());
}

#[test]
fn mistakes_give_their_error_classes() {
    let program = Program::compiled("errors");
    program.run_everywhere();
}

#[test]
fn a_fatal_error_ends_the_whole_job() {
    let program = Program::compiled("fatal");
    let end = |how: &str| {
        let outcome = Launcher::new(&program.path).arg(how).nodes(2, 2).run().expect("it starts");
        assert!(!outcome.timed_out && !outcome.success(), "{how}: {}", outcome.report());
        outcome
    };
    let error = end("error");
    assert_eq!(error.aborted, Some(1));
    let said = &error.ranks[3].stderr;
    let expected = "storm-mpi: rank 3: MPI_Send on MPI_COMM_WORLD: rank 77 in a communicator of 4 \
                    (MPI_ERR_RANK)";
    assert!(said.contains(expected), "{said}");
    assert_eq!(end("abort").aborted, Some(42));
    end("exit");
    let own = end("code");
    assert!(
        own.ranks[3].stderr.contains("raised by the program: out of cheese (MPI_ERR_OTHER)"),
        "{}",
        own.report()
    );
    let twice = end("twice");
    assert!(twice.ranks[3].stderr.contains("MPI_Init: called a second time"), "{}", twice.report());
    let before = end("before");
    assert!(before.ranks[0].stderr.contains("MPI_Comm_rank: called before MPI_Init"));
}

#[test]
fn an_absent_file_does_not_become_a_program() {
    let directory = TempDir::new().expect("a directory");
    let link = |arguments: &[&str]| {
        let mut command = wrapper("storm-mpicc");
        command.args(arguments).arg(source("absent.c")).arg("-o").arg(directory.path().join("it"));
        let output = command.output().expect("the wrapper starts");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for arguments in [&["-DDECLARED"][..], &["-DDECLARED", "-static_mpi"]] {
        let said = link(arguments);
        assert!(said.contains("undefined reference to `MPI_Psend_init'"), "{said}");
    }
    assert!(link(&["-Werror=implicit-function-declaration"]).contains("MPI_Psend_init"));
}

#[test]
fn processes_that_cannot_be_had() {
    Program::compiled("spawning").run_everywhere();
}

#[test]
fn functions_that_the_program_has_itself() {
    Program::compiled("profiled").run_everywhere();
    // Only the shared library allows it; with the static one the linker refuses.
    let directory = TempDir::new().expect("a directory");
    let mut command = mpicc();
    command.arg("-static_mpi").arg(source("profiled.c")).arg("-o").arg(directory.path().join("it"));
    let done = command.output().expect("the wrapper starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("MPI_Send"), "{said}");
}

#[test]
fn the_static_library_and_cxx() {
    let source_file = source("messages.c");
    let program = Program::with(mpicc().arg("-static_mpi").arg(source_file));
    program.run((2, 2));
    let needs = Command::new("ldd").arg(&program.path).output().expect("ldd is part of libc");
    let needs = String::from_utf8_lossy(&needs.stdout);
    assert!(needs.contains("libc.so") && !needs.contains("stormmpi"), "{needs}");
    let mut cxx = wrapper("storm-mpicxx");
    Program::with(cxx.args(["-Wall", "-Wextra", "-Werror"]).arg(source("plus.cc"))).run((2, 2));
}

#[test]
fn the_wrapper_passes_arguments_on() {
    let shown = |command: &mut Command| {
        String::from_utf8(ran(command.arg("-show")).stdout).expect("text").trim().to_owned()
    };
    let mut plain = wrapper("storm-mpicc");
    let line = shown(plain.args(["-g", "a b.c", "-o", "it"]));
    assert!(line.starts_with("cc -I") && line.contains(" -g 'a b.c' -o it -L"), "{line}");
    assert!(line.contains(" -Wl,-rpath,") && line.ends_with("-lstormmpi"), "{line}");
    // Nothing is linked, so nothing to link with is named.
    for arguments in [&["-c", "a.c"][..], &["-c"], &["-E", "a.c"], &["--version"]] {
        let line = shown(wrapper("storm-mpicc").args(arguments));
        assert!(!line.contains("-lstormmpi"), "{line}");
    }
    // Build systems ask in this way for the libraries to link with.
    for arguments in [&[][..], &["-O2"], &["-o", "it"], &["-compile-info"], &["-link-info"]] {
        let line = shown(wrapper("storm-mpicc").args(arguments));
        assert!(line.contains(" -L") && line.ends_with("-lstormmpi"), "{arguments:?}: {line}");
        assert!(!line.contains("-info"), "{line}");
    }
    let asked_alone = ran(wrapper("storm-mpicc").arg("-link-info"));
    let asked_alone = String::from_utf8_lossy(&asked_alone.stdout).trim().to_owned();
    assert_eq!(asked_alone, shown(&mut wrapper("storm-mpicc")));
    let with = |variables: &[(&str, &str)]| {
        let mut command = wrapper("storm-mpicc");
        shown(command.envs(variables.iter().copied()).args(["-c", "a.c"]))
    };
    assert!(with(&[("CC", "clang -m64")]).starts_with("clang -m64 -I"));
    assert!(with(&[("CC", "clang"), ("STORM_MPI_CC", "gcc")]).starts_with("gcc -I"));
    // Configure scripts set the variable so. The wrapper must not call itself for ever.
    assert!(with(&[("CC", "/usr/bin/storm-mpicc")]).starts_with("cc -I"));
}

/// Regression: the help was only the compiler's, which does not know `-show`.
#[test]
fn the_help_of_the_wrapper_comes_before_that_of_the_compiler() {
    for (name, compiler) in [("storm-mpicc", "cc"), ("storm-mpicxx", "c++")] {
        for option in ["--help", "-help"] {
            // The help also works without the library, because the user may be about to install it.
            let help = ran(wrapper(name).arg(option).env("STORM_MPI_PREFIX", "/nonexistent"));
            let help = String::from_utf8(help.stdout).expect("text");
            assert!(help.starts_with(&format!("Usage: {name} [-show]")), "{help}");
            assert!(help.contains(&format!("the help of {compiler}:")), "{help}");
            assert!(help.contains("--version"), "the compiler's follows: {help}");
        }
    }
    let topic = ran(wrapper("storm-mpicc").arg("--help=common"));
    assert!(!String::from_utf8_lossy(&topic.stdout).contains("-static_mpi"), "the compiler's");
}

#[test]
fn the_wrapper_finds_the_library() {
    let prefix = PREFIX.path().canonicalize().expect("it is there");
    let beside = ran(wrapper("storm-mpicc").args(["-show", "a.c"]));
    let line = String::from_utf8_lossy(&beside.stdout).into_owned();
    assert!(line.contains(&format!("-I{}/include ", prefix.display())), "{line}");
    assert!(line.contains(&format!("-L{}/lib ", prefix.display())), "{line}");
    let mut told = Command::new(env!("CARGO_BIN_EXE_storm-mpicc"));
    let told = ran(told.env("STORM_MPI_PREFIX", &prefix).args(["-show", "a.c"]));
    assert_eq!(String::from_utf8_lossy(&told.stdout), line);
    let mut nowhere = wrapper("storm-mpicc");
    let failed = nowhere.env("STORM_MPI_PREFIX", "/nonexistent").arg("a.c").output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("STORM_MPI_PREFIX"));
}
