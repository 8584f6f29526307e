//! `storm slurm links DIR`: the names of Slurm's commands, as symbolic links to this program.

use crate::cli::LinksOptions;
use crate::command::print;
use crate::failure::Failure;
use crate::output::{Output, Sheet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use storm_slurm::Verb;

/// The file at the place of a link.
enum Found {
    Nothing,
    /// A link of ours.
    Ours {
        is_right: bool,
    },
}

/// Makes the links. If a file is in the way that is no link of ours, makes none.
pub(super) fn make(options: &LinksOptions, output: &dyn Output) -> Result<u8, Failure> {
    let target = match &options.target {
        Some(target) => target.clone(),
        None => std::env::current_exe().map_err(|error| {
            Failure::of("program", &error).hint("--target PATH names the program of the links")
        })?,
    };
    let mut places = Vec::new();
    for verb in Verb::ALL {
        let place = options.directory.join(verb.name());
        places.push((found(&place, &target)?, place));
    }
    for (found, place) in &places {
        if let Found::Ours { is_right: true } = found {
            continue;
        }
        let made = match found {
            Found::Nothing => symlink(&target, place),
            Found::Ours { .. } => replaced(&target, place),
        };
        made.map_err(|error| {
            let text = format!("the link {} cannot be made", place.display());
            let mut failure = Failure::new("links", text);
            failure.causes.push(error.to_string());
            failure.hint("DIR has to exist, and be yours to write to")
        })?;
    }
    let places: Vec<String> = places.iter().map(|(_, place)| place.display().to_string()).collect();
    let rows = places.iter().map(|place| vec![place.clone(), target.display().to_string()]);
    print(
        &output.sheet(&Sheet::new(&places).table(["LINK", "PROGRAM"], rows.collect::<Vec<_>>())),
    )?;
    Ok(0)
}

fn found(place: &Path, target: &Path) -> Result<Found, Failure> {
    let in_the_way = || {
        let text =
            format!("{} is there, and is no link to storm: no link is made", place.display());
        Failure::new("links", text)
            .hint("name another directory, or remove the package of Slurm's commands first")
    };
    match fs::read_link(place) {
        Ok(old) => {
            let is_ours = old == target || old.file_name() == Some(OsStr::new("storm"));
            let is_right = old == target;
            is_ours.then_some(Found::Ours { is_right }).ok_or_else(in_the_way)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
        // Not a link.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(in_the_way()),
        Err(error) => Err(Failure::of("links", &error)),
    }
}

/// Puts a link in the place of another at once, so that the name is never missing.
fn replaced(target: &Path, place: &Path) -> io::Result<()> {
    let mut new = place.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    symlink(target, &new)?;
    fs::rename(&new, place).inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::QuietOutput;

    fn links(directory: &Path, target: &str) -> Result<u8, Failure> {
        let directory = directory.to_owned();
        make(&LinksOptions { directory, target: Some(target.into()) }, &QuietOutput)
    }

    #[test]
    fn links_are_made_and_renewed_and_nothing_else_is_overwritten() {
        let directory = tempfile::tempdir().expect("a directory");
        let squeue = directory.path().join("squeue");
        assert_eq!(links(directory.path(), "/old/bin/storm"), Ok(0));
        assert_eq!(links(directory.path(), "/new/bin/storm"), Ok(0));
        assert_eq!(fs::read_link(&squeue).expect("a link"), Path::new("/new/bin/storm"));
        assert_eq!(fs::read_dir(directory.path()).expect("read").count(), Verb::ALL.len());
        fs::remove_file(&squeue).expect("removed");
        fs::write(&squeue, "theirs").expect("written");
        fs::remove_file(directory.path().join("sacct")).expect("removed");
        let refused = links(directory.path(), "/other/storm").expect_err("it is in the way");
        assert!(refused.message.contains("squeue"), "{refused:?}");
        assert!(!directory.path().join("sacct").exists(), "not one link is made");
        assert_eq!(fs::read_to_string(&squeue).expect("read"), "theirs");
        let other = directory.path().join("sbatch");
        fs::remove_file(&squeue).expect("removed");
        fs::remove_file(&other).expect("removed");
        symlink("/usr/lib/slurm/sbatch", &other).expect("linked");
        assert!(links(directory.path(), "/new/bin/storm").is_err());
    }
}
