//! Reading a batch script. The job runs the text that is read here, whatever becomes of the file.

use super::program::{ProgramError, find_program};
use super::{STANDARD_INPUT, asked::quoted};
use crate::failure::{EXIT_NOT_EXECUTABLE, Failure};
use crate::standard_streams::StandardInput;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Largest script, which is held in memory; sbatch takes 4 MiB.
pub(super) const MAX_SCRIPT_BYTES: u64 = 16 << 20;
/// How a script begins.
const INTERPRETER: &[u8] = b"#!";

/// A script as it was at submission.
#[derive(Clone, Debug)]
pub(crate) struct ScriptText {
    /// The name of its file, without directories.
    pub(crate) name: String,
    /// The absolute path of its file, if it has one.
    pub(crate) path: Option<PathBuf>,
    pub(crate) contents: Vec<u8>,
}

impl ScriptText {
    /// Reads a script from standard input, or from a file: in the current directory, then in
    /// `PATH`. The file need not be executable.
    pub(crate) fn read(typed: &OsStr) -> Result<ScriptText, Failure> {
        if typed == STANDARD_INPUT {
            let script = ScriptText::of_input()?;
            return script.checked("standard input", "dos2unix < SCRIPT | storm batch -");
        }
        let (script, shown) = ScriptText::unchecked(typed)?;
        let typed = quoted(&shown);
        script.checked(&shown, &format!("dos2unix {typed}, or: sed -i 's/\\r$//' {typed}"))
    }

    /// All of standard input, whatever it holds.
    pub(crate) fn of_input() -> Result<ScriptText, Failure> {
        let contents = contents_of(StandardInput, "standard input")?;
        Ok(ScriptText { name: "stdin".to_owned(), path: None, contents })
    }

    /// A file of this name, whatever it holds, and its path.
    pub(crate) fn unchecked(typed: &OsStr) -> Result<(ScriptText, String), Failure> {
        let path = find(typed)?;
        let shown = path.display().to_string();
        let unreadable = |source| ProgramError::Unreadable { path: path.clone(), source };
        let file = File::open(&path).map_err(unreadable)?;
        let contents = contents_of(file, &shown)?;
        let name = file_name(&path);
        Ok((ScriptText { name, path: std::path::absolute(&path).ok(), contents }, shown))
    }

    /// Reads a file if it begins as a script does.
    pub(crate) fn of_file(path: &Path) -> Option<ScriptText> {
        // Opening a named pipe would wait for its writer.
        let mut file = path.is_file().then(|| File::open(path).ok()).flatten()?;
        let mut begin = [0; INTERPRETER.len()];
        file.read_exact(&mut begin).ok()?;
        if begin != INTERPRETER {
            return None;
        }
        let mut contents = begin.to_vec();
        let read = file.take(MAX_SCRIPT_BYTES).read_to_end(&mut contents).ok()?;
        let (name, path) = (file_name(path), std::path::absolute(path).ok());
        ((read as u64) < MAX_SCRIPT_BYTES).then_some(ScriptText { name, path, contents })
    }

    /// Refuses what no interpreter would run: the same texts that sbatch(1) refuses.
    pub(crate) fn checked(self, shown: &str, crlf_hint: &str) -> Result<ScriptText, Failure> {
        let refused = |message: String| Failure::new("program", message).exit(EXIT_NOT_EXECUTABLE);
        if self.contents.is_empty() {
            return Err(refused(format!("{shown} is empty: there is no script"))
                .hint("as in: storm batch job.sh, or: storm batch - < job.sh"));
        }
        if !self.contents.starts_with(INTERPRETER) {
            return Err(refused(format!("{shown} does not hold a script")).hint(
                "the first line of a script names its interpreter, as #!/bin/sh; `storm run` and \
                 `storm submit` run other programs, --wrap a shell command",
            ));
        }
        if self.contents.contains(&0) {
            return Err(refused(format!("{shown} has a NUL character, as no script has"))
                .hint("is it a program? `storm run` and `storm submit` run programs"));
        }
        let mut lines = self.contents.split(|byte| *byte == b'\n');
        if let Some(line) = lines.position(|line| line.ends_with(b"\r")) {
            let message =
                format!("{shown} has lines that end in CR LF, as on Windows: line {}", line + 1);
            return Err(refused(message).hint(crlf_hint));
        }
        Ok(self)
    }
}

/// The file of a script: a path, or a name in the current directory or in `PATH`.
fn find(typed: &OsStr) -> Result<PathBuf, Failure> {
    let here = Path::new(typed);
    if !typed.as_bytes().contains(&b'/') && !here.exists() {
        let found = find_program(typed);
        return found.map_err(|error| Failure::from(error).hint("give the path of the script"));
    }
    match here.metadata() {
        Ok(found) if found.is_dir() => Err(ProgramError::Directory(here.into()).into()),
        // A pipe is as good as a file: `storm batch <(generate)`.
        Ok(_) => Ok(here.into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(ProgramError::NoSuchFile(here.into()).into())
        }
        Err(source) => Err(ProgramError::Unreadable { path: here.into(), source }.into()),
    }
}

fn contents_of(from: impl Read, shown: &str) -> Result<Vec<u8>, Failure> {
    let mut contents = Vec::new();
    let read = from.take(MAX_SCRIPT_BYTES + 1).read_to_end(&mut contents);
    if let Err(error) = read {
        let message = format!("the script cannot be read from {shown}");
        let mut failure = Failure::new("program", message).exit(EXIT_NOT_EXECUTABLE);
        failure.causes.push(error.to_string());
        return Err(failure.hint("as in: storm batch - < job.sh"));
    }
    if contents.len() as u64 > MAX_SCRIPT_BYTES {
        let message = format!("the script from {shown} is longer than 16 MiB");
        return Err(Failure::new("program", message)
            .hint("keep data in files of their own")
            .exit(EXIT_NOT_EXECUTABLE));
    }
    Ok(contents)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
