//! The program that a job executes: a program of this host or of the nodes, a script on standard
//! input, or a shell command.

use super::STANDARD_INPUT;
use super::asked::quoted;
use super::own_path::{SCRIPT, needs_its_own_path};
use super::program::find_program;
use super::script::{MAX_SCRIPT_BYTES, ScriptText};
use super::shipped_files::ShippedFiles;
use crate::cli::JobOptions;
use crate::failure::{EXIT_NOT_EXECUTABLE, EXIT_USAGE, Failure};
use crate::standard_streams::StandardInput;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use storm_pmix::Linkage;
use storm_rm::{Destination, OsBytes, Program};

/// Executes the command of `--wrap`; every node has it (POSIX).
const SHELL: &str = "/bin/sh";
/// How far the kernel looks for the end of a script's first line (BINPRM_BUF_SIZE).
const HEAD_BYTES: usize = 256;

/// The program that a job executes.
pub(super) struct Payload {
    /// The program as nodes get it.
    pub(super) program: Program,
    /// Its path here, or on the nodes.
    pub(super) path: PathBuf,
    pub(super) argv: Vec<OsBytes>,
    /// The name of the job by default.
    pub(super) name: String,
    /// Known if the program was read here.
    pub(super) linkage: Option<Linkage>,
}

/// The program that the options select. Adds to `files` those that the nodes need.
pub(super) fn payload(options: &JobOptions, files: &mut ShippedFiles) -> Result<Payload, Failure> {
    if let Some(script) = &options.script {
        return of_script(script, options, files);
    }
    if let Some(line) = &options.wrap {
        let argv = ["sh".into(), "-c".into(), line.clone()];
        return Ok(Payload {
            program: Program::OnNodes(OsString::from(SHELL).into()),
            path: SHELL.into(),
            argv: argv.map(OsBytes::from).into(),
            name: "wrap".to_owned(),
            linkage: None,
        });
    }
    let typed = options
        .program
        .first()
        .ok_or_else(|| Failure::new("usage", "a program is needed").exit(EXIT_USAGE))?;
    if typed == STANDARD_INPUT {
        return of_script(&standard_input(options)?, options, files);
    }
    let argv = options.program.iter().cloned().map(OsBytes::from).collect();
    let name = file_name(typed);
    if options.no_bcast {
        let path = path_on_nodes(typed)?;
        let program = Program::OnNodes(path.clone().into_os_string().into());
        return Ok(Payload { program, path, argv, name, linkage: None });
    }
    let path = find_program(typed)?;
    let mut file = files.program(&path)?;
    let mut head = [0; HEAD_BYTES];
    let read = files.first().and_then(|file| file.read_at(&mut head, 0).ok()).unwrap_or(0);
    let head = &head[..read];
    let shown = path.display().to_string();
    let typed = quoted(&shown);
    refuse_crlf(head, &shown, &format!("dos2unix {typed}, or: sed -i 's/\\r$//' {typed}"))?;
    let linkage = files.first().map(|file| Linkage::of(file, &path)).unwrap_or_default();
    // Files that the user copies into the job's directory must be in the directory of the program's
    // copy.
    let alone = options.bcast.iter().all(|bcast| bcast.destination.is_some());
    if alone
        && needs_its_own_path(head, linkage)
        && let Ok(original) = std::path::absolute(&path)
    {
        file.destination = Destination::JobDirectoryUnlessAt(original.into_os_string().into());
    }
    let program = Program::Shipped(file);
    Ok(Payload { program, path, argv, name, linkage: Some(linkage) })
}

/// A script whose text was read.
fn of_script(
    script: &ScriptText,
    options: &JobOptions,
    files: &mut ShippedFiles,
) -> Result<Payload, Failure> {
    let program = Program::Shipped(files.contents(&script.contents, &script.name)?);
    let arguments = options.program.iter().skip(1).cloned().map(OsBytes::from);
    // An interpreter never sees the first argument: it tells listings where the script was.
    let own = script.path.clone().map_or_else(|| script.name.clone().into(), OsString::from);
    let argv = std::iter::once(OsBytes::from(own)).chain(arguments).collect();
    let (path, name) = (PathBuf::from(&script.name), script.name.clone());
    Ok(Payload { program, path, argv, name, linkage: Some(Linkage::default()) })
}

/// All of standard input, which must be a script.
pub(crate) fn standard_input(options: &JobOptions) -> Result<ScriptText, Failure> {
    let refused = |message: &str| Failure::new("program", message).exit(EXIT_NOT_EXECUTABLE);
    if options.no_bcast {
        return Err(Failure::new(
            "usage",
            "--no-bcast runs a program of the nodes, so it cannot be `-`",
        )
        .exit(EXIT_USAGE));
    }
    let mut contents = Vec::new();
    let read = StandardInput.take(MAX_SCRIPT_BYTES + 1).read_to_end(&mut contents);
    if let Err(error) = read {
        let mut failure = refused("the script on standard input cannot be read")
            .hint("as in: storm submit - < script.sh");
        failure.causes.push(error.to_string());
        return Err(failure);
    }
    if contents.len() as u64 > MAX_SCRIPT_BYTES {
        return Err(refused("the script on standard input is longer than 16 MiB")
            .hint("put the script into a file, and give its name"));
    }
    if contents.is_empty() {
        return Err(refused("there is no script on standard input")
            .hint("as in: storm submit - < script.sh"));
    }
    if !contents.starts_with(SCRIPT) {
        return Err(refused("standard input does not hold a script").hint(
            "the first line of a script names its interpreter, as #!/bin/sh; --wrap takes shell \
             commands without one",
        ));
    }
    let what = "the script on standard input";
    refuse_crlf(&contents, what, "dos2unix < SCRIPT | storm submit -")?;
    Ok(ScriptText { name: "stdin".to_owned(), path: None, contents })
}

/// Refuses a script with Windows line ends: the interpreter that it names exists on no node.
fn refuse_crlf(head: &[u8], what: &str, hint: &str) -> Result<(), Failure> {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Some(line) = line.strip_prefix(SCRIPT) else { return Ok(()) };
    let Some(line) = line.strip_suffix(b"\r") else { return Ok(()) };
    let interpreter = String::from_utf8_lossy(line.trim_ascii()).into_owned();
    let message = format!(
        "{what} has lines that end in CR LF, as on Windows: {interpreter:?} followed by a CR would \
         be taken for its interpreter"
    );
    Err(Failure::new("program", message).hint(hint).exit(EXIT_NOT_EXECUTABLE))
}

fn file_name(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or(program);
    name.to_string_lossy().into_owned()
}
/// The absolute path that the nodes execute, which need not exist here.
fn path_on_nodes(typed: &OsString) -> Result<PathBuf, Failure> {
    let path = if typed.as_bytes().contains(&b'/') {
        PathBuf::from(typed)
    } else {
        find_program(typed).map_err(|error| {
            Failure::from(error)
                .hint("with --no-bcast, give the path that the program has on the nodes")
        })?
    };
    std::path::absolute(path).map_err(|error| Failure::of("working-directory", &error))
}
