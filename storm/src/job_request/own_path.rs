//! Programs that look for other files in their own directory. Nodes that have the same file at the
//! same path execute it there; the others get a copy.
//!
//! Shell scripts are not among them. A shell reads a script while it runs it, so an edit after the
//! submission would change the running job. A copy does not change.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use storm_pmix::Linkage;

/// The first bytes of a script that the kernel can execute (execve(2)).
pub(super) const SCRIPT: &[u8] = b"#!";
/// Interpreters that read a script while they run it, without version numbers.
const SHELLS: [&str; 18] = [
    "sh", "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "loksh", "mksh", "oksh", "pdksh",
    "posh", "rbash", "rksh", "tcsh", "yash", "zsh",
];
/// Options of env(1) that take their value as a separate word.
const WITH_WORD: [&str; 4] = ["-u", "--unset", "-C", "--chdir"];

/// Whether a program may find its files only at its own path. True for an ELF file with libraries
/// relative to its path. True also for a script that its interpreter reads before it runs: Python,
/// for example, looks for modules in the script's directory.
pub(super) fn needs_its_own_path(head: &[u8], linkage: Linkage) -> bool {
    linkage.origin || interpreter(head).is_some_and(|name| !is_shell(name))
}

/// The name of a script's interpreter, without directories.
fn interpreter(head: &[u8]) -> Option<&OsStr> {
    let line = head.strip_prefix(SCRIPT)?.split(|&byte| byte == b'\n').next()?;
    let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut words = words.map(|word| Path::new(OsStr::from_bytes(word)));
    let first = words.next()?.file_name()?;
    if first != "env" {
        return Some(first);
    }
    loop {
        let word = words.next()?;
        if WITH_WORD.iter().any(|option| word == Path::new(option)) {
            words.next();
            continue;
        }
        let text = word.as_os_str().as_bytes();
        if !text.starts_with(b"-") && !text.contains(&b'=') {
            return word.file_name();
        }
    }
}

fn is_shell(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let name = name.trim_end_matches(|end: char| end.is_ascii_digit() || "-.".contains(end));
    SHELLS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_are_read_before_they_run_need_their_own_path() {
        let of = |head: &str| needs_its_own_path(head.as_bytes(), Linkage::default());
        for head in [
            "#!/usr/bin/python3\nimport numpy\n",
            "#! /opt/conda/bin/python -u",
            "#!/usr/bin/env python3\n",
            "#!/usr/bin/env -S OMP_NUM_THREADS=1 julia --project\n",
            "#!/usr/bin/perl -w",
        ] {
            assert!(of(head), "{head}");
        }
        for head in [
            "#!/bin/sh\n",
            "#!/bin/bash -l\n",
            "#!/usr/bin/env bash\n",
            "#!/usr/bin/env -S zsh -f\n",
            "#!/usr/bin/env -S -u LANG -i bash\n",
            "#!/bin/zsh-5.9\n",
            "#!/usr/bin/ksh93\n",
            "#!\n",
            "#!/usr/bin/env\n",
            "\x7fELF",
            "",
        ] {
            assert!(!of(head), "{head}");
        }
        assert!(needs_its_own_path(b"\x7fELF", Linkage { origin: true, ..Linkage::default() }));
    }
}
