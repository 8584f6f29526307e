//! Lines of a script that are meant for another resource manager, such as `#SBATCH -n 64`.
//!
//! storm treats them as comments. A user of that manager would get a single process where the
//! script asks for 64. So `storm` reports the ignored lines, and the options to type instead. A
//! script may have lines for several managers, because a site moved from one to another.

use super::asked::{Asked, quoted};
use super::{STANDARD_INPUT, flux, lsf, pbs, sbatch, sge};
use crate::cli::JobOptions;
use std::io::{BufRead, BufReader, Read, Seek};
use storm_mm::api::Submission;
use storm_rm::{FirstStep, Program};

/// The managers whose directives are known: sbatch(1), qsub(1B), qsub(1), bsub(1), flux-batch(1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Slurm,
    Pbs,
    GridEngine,
    Lsf,
    Flux,
}

impl Dialect {
    const ALL: [Dialect; 5] =
        [Dialect::Slurm, Dialect::Pbs, Dialect::GridEngine, Dialect::Lsf, Dialect::Flux];

    /// The prefix of its directives.
    fn directive(self) -> &'static str {
        match self {
            Dialect::Slurm => "#SBATCH",
            Dialect::Pbs => "#PBS",
            Dialect::GridEngine => "#$",
            Dialect::Lsf => "#BSUB",
            Dialect::Flux => "#flux:",
        }
    }

    fn asked<'a>(self, lines: impl IntoIterator<Item = &'a str>) -> Asked {
        match self {
            Dialect::Slurm => sbatch::asked(lines),
            Dialect::Pbs => pbs::asked(lines),
            Dialect::GridEngine => sge::asked(lines),
            Dialect::Lsf => lsf::asked(lines),
            Dialect::Flux => flux::asked(lines),
        }
    }

    /// The dialect of a line, and the text after the directive's prefix.
    fn of(line: &str) -> Option<(Dialect, &str)> {
        // Flux allows `# flux:`.
        let spaced = line.strip_prefix('#').map(str::trim_start);
        if let Some(behind) = spaced.and_then(|text| text.strip_prefix("flux:")) {
            return Some((Dialect::Flux, behind));
        }
        let (word, behind) = line.split_at(line.find(char::is_whitespace).unwrap_or(line.len()));
        let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.directive() == word)?;
        Some((dialect, behind))
    }
}

/// Directives come before the first command, and no script's head is longer than this.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// Bytes read at a time; more than enough to recognise a program that is no script.
const BLOCK_BYTES: usize = 4 << 10;

/// A script's lines for another resource manager.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    dialect: Dialect,
    /// The text after the directive's prefix, line by line.
    lines: Vec<String>,
}

impl Foreign {
    /// The note that storm ignores them, and what to type instead; `verb` is the verb of the
    /// command.
    pub(crate) fn advice(&self, verb: &str, options: &JobOptions) -> String {
        let asked = self.dialect.asked(self.lines.iter().map(String::as_str));
        let mut text =
            format!("storm ignores the {} lines of the script", self.dialect.directive());
        let ours = asked.options();
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
        if !asked.left.is_empty() {
            text += &format!("; storm lacks: {}", asked.left.join(", "));
        }
        let many = ["-n", "-N", "--ntasks-per-node"];
        if verb != "batch" && ours.iter().any(|option| many.contains(&option.as_str())) {
            text += "; each process runs the whole script: if it calls srun or mpirun, give storm \
                     the program that they start";
        }
        text
    }
}

/// The directives of the job's script, for each manager that it has any for. Those of Slurm count
/// in a batch script.
pub(crate) fn foreign_directives(submission: &Submission) -> Vec<Foreign> {
    let mut all = all_directives(submission);
    if submission.spec.first == FirstStep::Script {
        all.retain(|foreign| foreign.dialect != Dialect::Slurm);
    }
    all
}

fn all_directives(submission: &Submission) -> Vec<Foreign> {
    match &submission.spec.step.program {
        Program::OnNodes(_) => Vec::new(),
        // The program is the first of the files, and is sent from its beginning, wherever this read
        // ends.
        Program::Shipped(_) => {
            let Some((_, script)) = submission.files.first() else { return Vec::new() };
            let mut script = script;
            if script.rewind().is_err() {
                return Vec::new();
            }
            in_head(BufReader::with_capacity(BLOCK_BYTES, script.take(MAX_HEAD_BYTES)))
        }
    }
}

/// The directives by manager, in the order in which the managers occur. A head that cannot be read
/// has those before the error.
fn in_head(mut script: impl BufRead) -> Vec<Foreign> {
    let mut line = Vec::new();
    let mut is_first = true;
    let mut found: Vec<Foreign> = Vec::new();
    while script.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = line.trim_ascii();
        if is_first && !text.starts_with(b"#!") || !text.is_empty() && text[0] != b'#' {
            break;
        }
        if let Some((dialect, behind)) = Dialect::of(&String::from_utf8_lossy(text)) {
            let behind = behind.trim().to_owned();
            match found.iter_mut().find(|foreign| foreign.dialect == dialect) {
                Some(foreign) => foreign.lines.push(behind),
                None => found.push(Foreign { dialect, lines: vec![behind] }),
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
        let lines = |dialect, lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            Foreign { dialect, lines }
        };
        let script =
            "#!/bin/sh\n\n# a job\n  #SBATCH -n 4\n#PBS -x\n#SBATCH\t-t 5 \necho\n#SBATCH -N 2\n";
        // Regression: only the lines of the first manager were reported.
        let both = [lines(Dialect::Slurm, &["-n 4", "-t 5"]), lines(Dialect::Pbs, &["-x"])];
        assert_eq!(found(script), both);
        let pbs = "#!/bin/bash\r\n#PBS -l nodes=2\r\n";
        assert_eq!(found(pbs), [lines(Dialect::Pbs, &["-l nodes=2"])]);
        assert_eq!(found("#!/bin/sh\n#BSUB"), [lines(Dialect::Lsf, &[""])]);
        let sge = "#!/bin/sh\n#$Id: job.sh $\n#$ -cwd\n";
        assert_eq!(found(sge), [lines(Dialect::GridEngine, &["-cwd"])]);
        let flux = "#!/bin/sh\n#flux: -N2\n# flux: -n 4\n";
        assert_eq!(found(flux), [lines(Dialect::Flux, &["-N2", "-n 4"])]);
        for none in
            ["", "#SBATCH -n 4\n", "#!/bin/sh\necho\n#SBATCH -n 4\n", "#!/bin/sh\n##SBATCH -n 4\n"]
        {
            assert!(found(none).is_empty(), "{none:?}");
        }
        assert!(in_head(&b"\x7fELF\n#SBATCH"[..]).is_empty());
    }

    #[test]
    fn the_replacement_for_foreign_options_is_told() {
        let told = |dialect, line: &str| {
            let program = ["./a job", "x"].map(Into::into).to_vec();
            let options = JobOptions { program, ..JobOptions::default() };
            Foreign { dialect, lines: vec![line.to_owned()] }.advice("submit", &options)
        };
        assert_eq!(
            told(Dialect::Slurm, "-t 5 --gres=x"),
            "storm ignores the #SBATCH lines of the script; on the command line they are: \
             storm submit -t 5 './a job' x; storm lacks: --gres=x"
        );
        assert!(told(Dialect::Slurm, "--nodes 2").contains("-N 2 './a job' x; each process runs"));
        assert_eq!(told(Dialect::Slurm, ""), "storm ignores the #SBATCH lines of the script");
        let pbs = told(Dialect::Pbs, "-l walltime=60");
        assert!(pbs.ends_with("they are: storm submit -t 60s './a job' x"), "{pbs}");
        for (dialect, line) in
            [(Dialect::GridEngine, "-l h_rt=60"), (Dialect::Lsf, "-W 1"), (Dialect::Flux, "-t 1")]
        {
            let told = told(dialect, line);
            assert!(told.contains("they are: storm submit -t"), "{told}");
        }
    }
}
