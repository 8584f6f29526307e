//! `key`: makes cluster keys and tells which is which. The key itself is never
//! printed.

use super::print;
use crate::cli::{KeyCommand, KeyOptions};
use crate::failure::Failure;
use crate::key_file::{self, KeyFileError, KeyFileProblem};
use crate::output::Output;
use storm_backend_tcp::ClusterKey;

/// `key`.
pub(super) fn run(options: &KeyOptions, output: &dyn Output) -> Result<u8, Failure> {
    let (key, file) = match &options.command {
        KeyCommand::New { file, force } => {
            let key = ClusterKey::generate().map_err(|error| Failure::of("key", &error))?;
            key_file::write(file, &key, *force)?;
            (key, file)
        }
        KeyCommand::Show { file } => (key_file::read(file)?, file),
    };
    print(&output.key(file, &key.id().to_string()))?;
    Ok(0)
}

impl From<KeyFileError> for Failure {
    fn from(error: KeyFileError) -> Failure {
        let failure = Failure::of("key", &error);
        match error.problem {
            KeyFileProblem::Write(_) => failure.hint("does its directory exist, and is it yours?"),
            KeyFileProblem::Read(_) => failure.hint("`storm key new FILE` makes one"),
            KeyFileProblem::NotAFile
            | KeyFileProblem::Exposed { .. }
            | KeyFileProblem::Owner { .. }
            | KeyFileProblem::TooLong
            | KeyFileProblem::NotAKey(_)
            | KeyFileProblem::Exists => failure,
        }
    }
}
