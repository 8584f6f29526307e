//! The last step: `execve`, with the search in `PATH` and the rule of shells for scripts.

use std::ffi::{CStr, CString, OsStr};
use std::io::Read;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use crate::ids::Errno;
use crate::launch_failure::{LaunchFailure, LaunchStep};
use crate::launcher::application_state::PMI_DESCRIPTOR;
use crate::launcher::request::Request;
use crate::original::stands_in_for;

/// The search path of a job without `PATH`, as in `confstr(_CS_PATH)` on Linux.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";
/// The interpreter of a script that names none.
const SHELL: &CStr = c"/bin/sh";
/// How many bytes are read to distinguish a text from a program. Every ELF header contains a NUL.
/// Other data contain characters that no text has.
const HEAD_BYTES: usize = 256;

/// Executes the program. Returns only after a failure.
pub(super) fn execute(request: &Request<'_>) -> LaunchFailure {
    let pmi = pmi_variable(PMI_DESCRIPTOR);
    let mut env: Vec<*const libc::c_char> = Vec::with_capacity(request.env.len() + 2);
    if request.head.pmi {
        env.push(pmi.as_ptr());
    }
    // A `PMI_FD` in the job's environment would name a descriptor of the submitter.
    let others = request.env.iter().filter(|variable| !variable.to_bytes().starts_with(b"PMI_FD="));
    env.extend(others.map(|variable| variable.as_ptr()));
    env.push(ptr::null());

    if let Some(original) = original(request) {
        // If the call fails, as on a file system mounted noexec, the copy is executed.
        try_one(original, &request.args, &env);
    }
    let mut worst = Errno(libc::ENOENT);
    for path in candidates(request) {
        let errno = try_one(&path, &request.args, &env);
        match errno.0 {
            // The file is not in this directory. Try the next directory, but remember a file
            // without permission.
            libc::ENOENT if !exists(&path) => {}
            libc::ENOTDIR => {}
            libc::EACCES => worst = errno,
            _ => return explain(&path, errno),
        }
    }
    LaunchFailure::new(LaunchStep::Program, worst)
}

/// The original of the program, if it has the same content.
fn original<'a>(request: &Request<'a>) -> Option<&'a CStr> {
    let path = |text: &'a CStr| Path::new(OsStr::from_bytes(text.to_bytes()));
    let original = Some(request.original).filter(|original| !original.is_empty())?;
    stands_in_for(path(original), path(request.program)).then_some(original)
}

fn pmi_variable(descriptor: RawFd) -> CString {
    // Digits contain no NUL, so the empty default never occurs.
    CString::new(format!("PMI_FD={descriptor}")).unwrap_or_default()
}

/// The paths to try, in order.
fn candidates(request: &Request<'_>) -> Vec<CString> {
    let program = request.program.to_bytes();
    if program.contains(&b'/') || program.is_empty() {
        return vec![request.program.to_owned()];
    }
    let path = request.variable(b"PATH").unwrap_or(DEFAULT_PATH);
    path.split(|&byte| byte == b':')
        .map(|directory| if directory.is_empty() { b"." } else { directory })
        .filter_map(|directory| CString::new([directory, b"/", program].concat()).ok())
        .collect()
}

/// Executes one file. Returns the reason why `execve` refused it.
fn try_one(path: &CStr, args: &[&CStr], env: &[*const libc::c_char]) -> Errno {
    let mut argv: Vec<*const libc::c_char> = args.iter().map(|arg| arg.as_ptr()).collect();
    argv.push(ptr::null());
    let errno = raw_execve(path, &argv, env);
    if errno.0 != libc::ENOEXEC || is_binary(path) {
        return errno;
    }
    // A script without `#!`: the shell reads it, with the script's name and arguments.
    let mut argv = vec![SHELL.as_ptr(), path.as_ptr()];
    argv.extend(args.iter().skip(1).map(|arg| arg.as_ptr()));
    argv.push(ptr::null());
    raw_execve(SHELL, &argv, env)
}

/// Whether the file is not a text, for example a program of another architecture. The shell would
/// read it as a script full of mistakes.
fn is_binary(path: &CStr) -> bool {
    let mut head = [0; HEAD_BYTES];
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut head));
    read.is_ok_and(|len| head[..len].iter().copied().any(is_in_no_text))
}

/// Whether the byte is a control character that texts lack. Texts have BEL to CR, and ESC.
fn is_in_no_text(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, 0x07..=0x0d | 0x1b)
}

fn raw_execve(path: &CStr, argv: &[*const libc::c_char], env: &[*const libc::c_char]) -> Errno {
    // SAFETY: both arrays end with a null pointer and all their strings outlive the call, which
    // either replaces this process or returns.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    Errno::last()
}

/// Names the failed step. If the file exists, "no such file" is about its interpreter.
fn explain(path: &CStr, errno: Errno) -> LaunchFailure {
    let step = match errno.0 {
        libc::E2BIG => LaunchStep::Arguments,
        libc::ENOENT | libc::ELIBBAD if exists(path) => LaunchStep::Interpreter,
        _ => LaunchStep::Program,
    };
    LaunchFailure::new(step, errno)
}

fn exists(path: &CStr) -> bool {
    Path::new(OsStr::from_bytes(path.to_bytes())).exists()
}

#[cfg(test)]
mod tests {
    use super::is_in_no_text;

    #[test]
    fn data_is_told_from_a_script() {
        let is_data = |head: &[u8]| head.iter().copied().any(is_in_no_text);
        assert!(is_data(b"\x7fELF\x02\x01\x01\0") && is_data(b"\x9c\x03\xe1z"));
        for script in ["echo hi\n", "# gr\u{fc}\u{df}e\r\n\tprintf '\x1b[1m\x07'\n", ""] {
            assert!(!is_data(script.as_bytes()), "{script}");
        }
    }
}
