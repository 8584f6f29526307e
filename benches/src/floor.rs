//! The least time that this machine needs for a launch, without any resource manager. It is the
//! time to write every node's copy to memory, and to spawn and reap every process. Nothing is sent,
//! so this floor does not cover the transfer.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Writers of copies at once, as on the machine on which the tables were measured.
const WRITERS: u32 = 2;
/// The tmpfs of every Linux.
const TMPFS: &str = "/dev/shm";

/// Time to write `copies` copies of `program` to tmpfs by two threads.
///
/// # Errors
/// An error of the file system: the copies must fit.
pub fn write_copies(program: &Path, copies: u32) -> Result<Duration> {
    let content = fs::read(program)?;
    let dir = tempfile::Builder::new().prefix("storm-floor-").tempdir_in(TMPFS)?;
    let since = Instant::now();
    thread::scope(|scope| {
        let writer = |first: u32| {
            let (dir, content) = (dir.path(), &content);
            move || {
                (first..copies)
                    .step_by(WRITERS as usize)
                    .try_for_each(|copy| fs::write(dir.join(copy.to_string()), content))
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|first| scope.spawn(writer(first))).collect();
        writers.into_iter().try_for_each(|writer| {
            writer.join().unwrap_or_else(|_| Err(std::io::Error::other("a writer panicked")))
        })
    })
    .context("cannot write the copies to /dev/shm")?;
    Ok(since.elapsed())
}

/// Time to spawn `processes` of `program` one after the other and then reap all of them (`std` uses
/// `posix_spawn` for such a plain command).
///
/// # Errors
/// A process could not be started or failed.
pub fn spawn_and_reap(program: &Path, processes: u32) -> Result<Duration> {
    let since = Instant::now();
    let children: Vec<Child> = (0..processes)
        .map(|_| Command::new(program).stdin(Stdio::null()).spawn())
        .collect::<std::io::Result<_>>()
        .with_context(|| format!("cannot spawn {}", program.display()))?;
    for mut child in children {
        let status = child.wait()?;
        ensure!(status.success(), "{} failed: {status}", program.display());
    }
    Ok(since.elapsed())
}
