//! `key`: makes the keys of clusters and users, and identifies them. A key itself is printed only
//! if its file is standard output.

use super::{note, print};
use crate::cli::{KeyCommand, KeyOptions};
use crate::failure::Failure;
use crate::key_file::{self, KeyFileError, KeyFileProblem};
use crate::output::Output;
use nix::unistd::User;
use std::path::Path;
use storm_session::{ClientKey, ClusterKey, DoorKey, NotAKey, UserName};

pub(super) fn run(options: &KeyOptions, output: &dyn Output) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| Failure::of("key", &error);
    let told = match &options.command {
        KeyCommand::New { file, force } => {
            let key = ClusterKey::generate().map_err(failed)?;
            key_file::write(file, &key, *force)?;
            output.key(file, &key.id().to_string(), None)
        }
        KeyCommand::Show { file } => show(file, output)?,
        KeyCommand::Door { output: file, force, cluster_key } => {
            let cluster: ClusterKey = key_file::read(cluster_key)?;
            let key = DoorKey::derive(&cluster).map_err(failed)?;
            if file == Path::new("-") {
                key.to_text().to_string()
            } else {
                key_file::write(file, &key, *force)?;
                output.key(file, &key.serial().to_string(), None)
            }
        }
        KeyCommand::Client { user, output: file, force, allow_root, cluster_key } => {
            check_user(user, *allow_root, output)?;
            let cluster: ClusterKey = key_file::read(cluster_key)?;
            let key = ClientKey::derive(&cluster, user.clone()).map_err(failed)?;
            if file == Path::new("-") {
                key.to_text().to_string()
            } else {
                key_file::write(file, &key, *force)?;
                told_of(file, &key, output)
            }
        }
    };
    print(&told)?;
    Ok(0)
}

/// Identifies the key in a file, of any kind.
fn show(file: &Path, output: &dyn Output) -> Result<String, Failure> {
    if let Some(key) = of_kind::<ClusterKey>(file)? {
        return Ok(output.key(file, &key.id().to_string(), None));
    }
    match of_kind::<DoorKey>(file)? {
        Some(key) => Ok(output.key(file, &key.serial().to_string(), None)),
        None => Ok(told_of(file, &key_file::read_to_tell(file)?, output)),
    }
}

/// The key in a file; `None` if it is of another kind.
fn of_kind<K: key_file::Key>(file: &Path) -> Result<Option<K>, Failure> {
    match key_file::read_to_tell::<K>(file) {
        Ok(key) => Ok(Some(key)),
        Err(KeyFileError { problem: KeyFileProblem::NotAKey(NotAKey::Format { .. }), .. }) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn told_of(file: &Path, key: &ClientKey, output: &dyn Output) -> String {
    output.key(file, &key.serial().to_string(), Some(key.user().as_str()))
}

/// Refuses root unless it is allowed explicitly. Only warns of an unknown user, because the manager
/// may know the user.
fn check_user(user: &UserName, allow_root: bool, output: &dyn Output) -> Result<(), Failure> {
    let found = User::from_name(user.as_str()).map_err(|error| Failure::of("user", &error))?;
    let is_root = user.as_str() == "root" || found.as_ref().is_some_and(|user| user.uid.is_root());
    if is_root && !allow_root {
        return Err(Failure::new("key", format!("{user} is root: the key would command all jobs"))
            .hint("--allow-root makes the key all the same"));
    }
    if found.is_none() {
        note(
            &output.warning(&format!(
                "this host knows no user {user}; the Machine Manager's host must"
            )),
        );
    }
    Ok(())
}

impl From<KeyFileError> for Failure {
    fn from(error: KeyFileError) -> Failure {
        let failure = Failure::of("key", &error);
        match error.problem {
            KeyFileProblem::Write(_) => failure.hint("does its directory exist, and is it yours?"),
            KeyFileProblem::Read(_) => failure.hint(
                "`storm key new` makes the key of a cluster, `storm key client` that of a user",
            ),
            KeyFileProblem::NotAFile
            | KeyFileProblem::Exposed { .. }
            | KeyFileProblem::Owner { .. }
            | KeyFileProblem::TooLong
            | KeyFileProblem::NotAKey(_)
            | KeyFileProblem::Exists => failure,
        }
    }
}
