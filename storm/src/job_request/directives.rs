//! Lines of a script that are meant for another resource manager: `#SBATCH -n 64`.
//!
//! They are comments here. Who comes from there would get one process where the script asks for
//! 64, so it is said that they do not count.

use super::STANDARD_INPUT;
use super::sbatch::{Asked, asked, quoted};
use crate::cli::JobOptions;
use std::io::{BufRead, BufReader, Read, Seek};
use storm_mm::api::Submission;
use storm_rm::Program;

/// How directives begin (sbatch(1), qsub(1B), bsub(1)).
const DIRECTIVES: [&str; 3] = [SBATCH, "#PBS", "#BSUB"];
/// Those whose options are known here.
const SBATCH: &str = "#SBATCH";
/// Directives stand before the first command: no script's head is longer than this.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// Read at a time: of a program that is no script it is more than enough.
const BLOCK_BYTES: usize = 4 << 10;

/// The lines for another resource manager that a script has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// How they begin.
    directive: &'static str,
    /// What is behind that, line by line.
    lines: Vec<String>,
}

impl Foreign {
    /// That they do not count, and what to type in their place where that is known; `verb` is
    /// what was typed.
    pub(crate) fn told(&self, verb: &str, options: &JobOptions) -> String {
        let directive = self.directive;
        let vain = format!("the {directive} lines of the script do not count");
        if directive != SBATCH {
            return format!("{vain}: give options on the command line");
        }
        let Asked { options: ours, left } = asked(self.lines.iter().map(String::as_str));
        let mut text = vain;
        if !ours.is_empty() {
            let program = options.program.iter().map(|word| quoted(&word.to_string_lossy()));
            let program: Vec<String> = program.collect();
            let script = if program.first().is_some_and(|word| word == STANDARD_INPUT) {
                " < SCRIPT"
            } else {
                ""
            };
            let (ours, program) = (ours.join(" "), program.join(" "));
            text +=
                &format!("; on the command line they are: storm {verb} {ours} {program}{script}");
        }
        if !left.is_empty() {
            text += &format!("; storm has not: {}", left.join(", "));
        }
        if ours.iter().any(|option| matches!(option.as_str(), "-n" | "-N")) {
            text += "; each process runs the whole script: of one that calls srun or mpirun, \
                     give storm what that starts";
        }
        text
    }
}

/// The directives of the job's script, if its program is a script that has any.
pub(crate) fn foreign_directives(submission: &Submission) -> Option<Foreign> {
    match &submission.spec.program {
        Program::OnNodes(_) => None,
        // The first of the files; it is sent from its beginning, wherever it was read.
        Program::Shipped(_) => {
            let mut script = submission.files.first().map(|(_, file)| file)?;
            script.rewind().ok()?;
            in_head(BufReader::with_capacity(BLOCK_BYTES, script.take(MAX_HEAD_BYTES)))
        }
    }
}

fn in_head(mut script: impl BufRead) -> Option<Foreign> {
    let mut line = Vec::new();
    let mut is_first = true;
    let mut found: Option<Foreign> = None;
    while script.read_until(b'\n', &mut line).ok()? > 0 {
        let text = line.trim_ascii();
        if is_first && !text.starts_with(b"#!") || !text.is_empty() && text[0] != b'#' {
            break;
        }
        let word = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if let Some(directive) = DIRECTIVES.iter().find(|known| known.as_bytes() == word) {
            let foreign = found.get_or_insert(Foreign { directive, lines: Vec::new() });
            if foreign.directive == *directive {
                let behind = String::from_utf8_lossy(&text[word.len()..]);
                foreign.lines.push(behind.trim().to_owned());
            }
        }
        is_first = false;
        line.clear();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_found_before_the_first_command_of_a_script() {
        let found = |script: &str| in_head(script.as_bytes());
        let lines = |directive, lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            Some(Foreign { directive, lines })
        };
        let script =
            "#!/bin/sh\n\n# a job\n  #SBATCH -n 4\n#PBS -x\n#SBATCH\t-t 5 \necho\n#SBATCH -N 2\n";
        assert_eq!(found(script), lines(SBATCH, &["-n 4", "-t 5"]));
        assert_eq!(found("#!/bin/bash\r\n#PBS -l nodes=2\r\n"), lines("#PBS", &["-l nodes=2"]));
        assert_eq!(found("#!/bin/sh\n#BSUB"), lines("#BSUB", &[""]));
        for none in
            ["", "#SBATCH -n 4\n", "#!/bin/sh\necho\n#SBATCH -n 4\n", "#!/bin/sh\n##SBATCH -n 4\n"]
        {
            assert_eq!(found(none), None, "{none:?}");
        }
        assert_eq!(in_head(&b"\x7fELF\n#SBATCH"[..]), None);
    }

    #[test]
    fn what_to_type_in_their_place_is_told() {
        let told = |directive, line: &str| {
            let program = ["./a job", "x"].map(Into::into).to_vec();
            let options = JobOptions { program, ..JobOptions::default() };
            Foreign { directive, lines: vec![line.to_owned()] }.told("submit", &options)
        };
        assert_eq!(
            told(SBATCH, "-t 5 --comment=x"),
            "the #SBATCH lines of the script do not count; on the command line they are: \
             storm submit -t 5 './a job' x; storm has not: --comment=x"
        );
        assert!(told(SBATCH, "--nodes 2").contains("-N 2 './a job' x; each process runs"));
        assert_eq!(told(SBATCH, ""), "the #SBATCH lines of the script do not count");
        assert!(told("#PBS", "-l nodes=2").ends_with("give options on the command line"));
    }
}
