//! The error messages of Slurm's commands: `sbatch: error: ...`, a line each.

use crate::failure::{EXIT_FAILED, Failure};
use crate::output::for_people;
use storm_slurm::Verb;
use storm_slurm::options::UsageError;

/// The command was refused or has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    /// The lines.
    lines: Vec<Line>,
    /// The exit status.
    pub(super) status: u8,
}

/// A line of standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    /// Behind `VERB: error: `.
    Error(String),
    /// Behind `VERB: `.
    Told(String),
    /// As it is.
    Plain(String),
}

impl Complaint {
    /// An error with status 1.
    pub(super) fn error(text: impl Into<String>) -> Complaint {
        Complaint { lines: vec![Line::Error(text.into())], status: EXIT_FAILED }
    }

    /// Lines without the command's name, with status 1.
    pub(super) fn plain(text: impl Into<String>) -> Complaint {
        let lines = text.into().lines().map(|line| Line::Plain(line.to_owned())).collect();
        Complaint { lines, status: EXIT_FAILED }
    }

    /// A text behind the command's name, with status 1.
    pub(super) fn told(text: impl Into<String>) -> Complaint {
        Complaint { lines: vec![Line::Told(text.into())], status: EXIT_FAILED }
    }

    /// Adds a line with an error.
    #[must_use]
    pub(super) fn and_error(mut self, text: impl Into<String>) -> Complaint {
        self.lines.push(Line::Error(text.into()));
        self
    }

    /// Adds a line that says what to do.
    #[must_use]
    pub(super) fn and_told(mut self, text: impl Into<String>) -> Complaint {
        self.lines.push(Line::Told(text.into()));
        self
    }

    /// Sets the exit status.
    #[must_use]
    pub(super) fn exit(mut self, status: u8) -> Complaint {
        self.status = status;
        self
    }

    /// A command line that is not right.
    pub(super) fn of_usage(verb: Verb, error: &UsageError) -> Complaint {
        let status = if verb.has_command() { error.status_for_jobs() } else { EXIT_FAILED };
        let lines = match error.is_of_getopt() {
            true => vec![
                Line::Told(error.to_string()),
                Line::Plain(format!("Try \"{verb} --help\" for more information")),
            ],
            false => vec![Line::Error(error.to_string())],
        };
        Complaint { lines, status }
    }

    /// A command that is not there yet.
    pub(super) fn not_built(verb: Verb) -> Complaint {
        Complaint::error(format!("{verb} is not there yet"))
            .and_told(format!("`{}` does the like", verb.of_storm()))
    }

    /// The text for standard error.
    pub(super) fn shown(&self, verb: Verb) -> String {
        let line = |line: &Line| match line {
            Line::Error(text) => format!("{verb}: error: {}\n", for_people(text)),
            Line::Told(text) => format!("{verb}: {}\n", for_people(text)),
            Line::Plain(text) => format!("{}\n", for_people(text)),
        };
        self.lines.iter().map(line).collect()
    }
}

impl From<Failure> for Complaint {
    /// The message with its causes on one line, and the hint on the next.
    fn from(failure: Failure) -> Complaint {
        let Failure { message, causes, hint, .. } = failure;
        let text: Vec<String> = std::iter::once(message).chain(causes).collect();
        let complaint = Complaint::error(text.join(": "));
        match hint {
            Some(hint) => complaint.and_told(hint),
            None => complaint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_slurm::options::CommandLine;

    fn told(verb: Verb, line: &str) -> (String, u8) {
        let words = line.split(' ').map(Into::into);
        let error = CommandLine::read(verb, words).expect_err("it is wrong");
        let complaint = Complaint::of_usage(verb, &error);
        (complaint.shown(verb), complaint.status)
    }

    #[test]
    fn mistakes_are_told_as_by_slurm() {
        let unknown = |verb| {
            format!(
                "{verb}: unrecognized option '--frogs'\nTry \"{verb} --help\" for more information\n"
            )
        };
        assert_eq!(told(Verb::Sbatch, "--frogs x"), (unknown("sbatch"), 255));
        assert_eq!(told(Verb::Scancel, "--frogs"), (unknown("scancel"), 1));
        let count = "sbatch: error: Invalid numeric value \"x\" for --ntasks.\n";
        assert_eq!(told(Verb::Sbatch, "-n x j"), (count.to_owned(), 1));
        let (refused, status) = told(Verb::Sbatch, "--gres=gpu:2 j");
        assert!(refused.starts_with("sbatch: error: --gres=gpu:2: devices"), "{refused}");
        assert_eq!((refused.lines().count(), status), (1, 1));
    }
}
