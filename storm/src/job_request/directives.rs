//! Lines of a script that are meant for another resource manager: `#SBATCH -n 64`.
//!
//! They are comments here. Who comes from there would get one process where the script asks for
//! 64, so it is said that they do not count.

use super::STANDARD_INPUT;
use super::program::find_program;
use crate::cli::JobOptions;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use storm_mm::api::Submission;

/// How directives begin (sbatch(1), qsub(1B), bsub(1)).
const DIRECTIVES: [&str; 3] = ["#SBATCH", "#PBS", "#BSUB"];
/// Directives stand before the first command: no script's head is longer than this.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// What the directives of the job's script begin with, if its program is a script that has any.
pub(crate) fn foreign_directives(
    options: &JobOptions,
    submission: &Submission,
) -> Option<&'static str> {
    let typed = options.program.first().filter(|_| !options.no_bcast)?;
    if typed == STANDARD_INPUT {
        // The first of the files, which is sent from its beginning.
        let (_, script) = submission.files.first()?;
        return in_head(BufReader::new(script.take(MAX_HEAD_BYTES)));
    }
    of_program(&find_program(typed).ok()?)
}

fn of_program(program: &Path) -> Option<&'static str> {
    // To open what is no file may wait for ever.
    let file = program.is_file().then(|| File::open(program).ok())??;
    in_head(BufReader::new(file.take(MAX_HEAD_BYTES)))
}

fn in_head(mut script: impl BufRead) -> Option<&'static str> {
    let mut line = Vec::new();
    let mut is_first = true;
    while script.read_until(b'\n', &mut line).ok()? > 0 {
        let text = line.trim_ascii();
        if is_first && !text.starts_with(b"#!") || !text.is_empty() && text[0] != b'#' {
            return None;
        }
        let word = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if let Some(found) = DIRECTIVES.iter().find(|directive| directive.as_bytes() == word) {
            return Some(found);
        }
        is_first = false;
        line.clear();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_found_before_the_first_command_of_a_script() {
        let found = |script: &str| in_head(script.as_bytes());
        assert_eq!(found("#!/bin/sh\n\n# a job\n  #SBATCH -n 4\necho\n"), Some("#SBATCH"));
        assert_eq!(found("#!/bin/bash\r\n#PBS -l nodes=2\r\n"), Some("#PBS"));
        assert_eq!(found("#!/bin/sh\n#BSUB"), Some("#BSUB"));
        for none in
            ["", "#SBATCH -n 4\n", "#!/bin/sh\necho\n#SBATCH -n 4\n", "#!/bin/sh\n##SBATCH -n 4\n"]
        {
            assert_eq!(found(none), None, "{none:?}");
        }
        assert_eq!(in_head(&b"\x7fELF\n#SBATCH"[..]), None);
        for no_script in ["/", "/nowhere", "/dev/null", "/bin/true"] {
            assert_eq!(of_program(Path::new(no_script)), None, "{no_script}");
        }
    }
}
