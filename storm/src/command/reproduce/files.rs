//! The files of `--output`, each of which is complete or absent.

use super::{Reproduced, comma_separated, plot, report};
use crate::failure::Failure;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::Builder;

/// Mode of the files before the umask: all users read and write.
const FILE_MODE: u32 = 0o666;

/// A directory that can be written to.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    /// Makes the directory if needed, and tries to write to it.
    pub(super) fn open(path: &Path) -> Result<Directory, Failure> {
        std::fs::create_dir_all(path)
            .and_then(|()| tempfile::tempfile_in(path).map(drop))
            .map_err(|error| unwritable(path, &error))?;
        Ok(Directory(path.to_owned()))
    }

    /// Writes a file, and replaces one of the same name.
    fn put(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let path = self.0.join(name);
        let put = || -> io::Result<()> {
            // A temporary file is the user's alone, so the usual mode is set.
            let readable = Permissions::from_mode(FILE_MODE);
            let mut file = Builder::new().permissions(readable).tempfile_in(&self.0)?;
            file.write_all(content)?;
            file.persist(&path).map(drop).map_err(|error| error.error)
        };
        put().map_err(|error| unwritable(&path, &error))
    }
}

/// Writes numbers, plots, and the report with all of them.
pub(super) fn write(directory: &Directory, reproduced: &[Reproduced]) -> Result<(), Failure> {
    let mut plots = Vec::with_capacity(reproduced.len());
    for one in reproduced {
        let name = one.what.exhibit.name();
        let rows = comma_separated::rows(one).map_err(|error| Failure::of("file", &error))?;
        directory.put(&format!("{name}.csv"), &rows)?;
        let svg = one.what.chart.as_ref().map(|chart| plot::svg(one.what.title, chart));
        let svg = svg.transpose().map_err(|error| Failure::of("plot", &error))?;
        if let Some(svg) = &svg {
            directory.put(&format!("{name}.svg"), svg.as_bytes())?;
        }
        plots.push(svg);
    }
    let bounds = comma_separated::bounds(reproduced).map_err(|e| Failure::of("file", &e))?;
    directory.put("bounds.csv", &bounds)?;
    directory.put("report.html", report::html(reproduced, &plots).as_bytes())
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let mut failure = Failure::new("file", format!("{} cannot be written", path.display()));
    failure.causes.push(error.to_string());
    failure.hint("give --output a directory that is yours, or the name of a new one")
}
