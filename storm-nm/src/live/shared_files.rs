//! The files that several ranks of a job write to: their paths, and how the output ended
//! (`docs/decisions/0140-ranks-that-share-a-file.md`).

use super::launch_plan::output_path;
use super::live_job::LiveJob;
use crate::JobTask;
use crate::environment::NodeNames;
use nix::sys::resource::Resource;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use storm_pl::{
    Credentials, FileFailure, FilesEnd, KeeperHandle, LineEnds, Output, RankSpec, ResourceLimit,
    SharedFilesSpec,
};
use storm_rm::{OsBytes, OutputSpec};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The shared files of one job on this node.
pub(super) struct SharedFiles {
    files: Rc<storm_pl::SharedFiles>,
    /// Absolute paths, in the order of the files' numbers.
    paths: Vec<PathBuf>,
    /// How the files are opened; `None` for a job that was taken over.
    spec: Option<SharedFilesSpec>,
}

impl SharedFiles {
    /// Prepares the shared files of a job that is about to be launched, if its ranks share any
    /// here.
    ///
    /// # Errors
    /// The kernel refuses a descriptor.
    pub(super) fn make(
        task: &JobTask,
        names: &NodeNames,
        (credentials, limits): (&Credentials, &[ResourceLimit]),
    ) -> io::Result<Option<Rc<SharedFiles>>> {
        if !task.shares_files() {
            return Ok(None);
        }
        let paths = paths(task, names);
        let is_of_size = |limit: &&ResourceLimit| limit.resource == Resource::RLIMIT_FSIZE as u32;
        let spec = SharedFilesSpec {
            credentials: credentials.clone(),
            umask: task.spec().step.umask,
            file_size: limits.iter().find(is_of_size).copied(),
            files: paths.clone(),
        };
        let files = Rc::new(storm_pl::SharedFiles::make()?);
        Ok(Some(Rc::new(SharedFiles { files, paths, spec: Some(spec) })))
    }

    /// Takes over the files of a former node manager's job.
    pub(super) fn take_over(task: &JobTask, names: &NodeNames, socket: OwnedFd) -> SharedFiles {
        let files = Rc::new(storm_pl::SharedFiles::take_over(socket));
        SharedFiles { files, paths: paths(task, names), spec: None }
    }

    /// The descriptor that the next node manager needs.
    pub(super) fn socket(&self) -> &storm_pl::SharedFiles {
        &self.files
    }

    /// Sends the lines of a rank, launched with this specification, to its files.
    pub(super) fn add(&self, cwd: &Path, rank: &RankSpec, lines: LineEnds) {
        for (output, end) in [(&rank.stdout, lines.stdout), (&rank.stderr, lines.stderr)] {
            let (Output::Lines { path }, Some(end)) = (output, end) else { continue };
            let path = cwd.join(path);
            let number = self.paths.iter().position(|known| *known == path);
            // The ranks of a node have the same files.
            if let Some(number) = number.and_then(|number| u8::try_from(number).ok()) {
                self.files.add(number, end);
            }
        }
    }

    /// Starts the output, once all ranks have been launched.
    pub(super) fn begin(&self, keeper: &KeeperHandle) {
        if let Some(spec) = &self.spec {
            self.files.begin(keeper, spec);
        }
    }

    /// Waits until all output is in the files, or cannot be.
    ///
    /// # Errors
    /// The reason for the user why output is missing.
    pub(super) async fn written(&self) -> Result<(), String> {
        let end = self.end().await.map_err(|error| {
            format!("what becomes of its output files cannot be heard: {error}")
        })?;
        match end {
            FilesEnd::Written => Ok(()),
            FilesEnd::Failed(failure) => Err(self.explain(failure)),
        }
    }

    async fn end(&self) -> io::Result<FilesEnd> {
        let is_not_yet = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        match self.files.end() {
            Err(error) if is_not_yet(&error) => {}
            end => return end,
        }
        // SAFETY: the descriptor stays the same and open as long as the registered value exists.
        let socket =
            unsafe { AsyncFd::register_with_interest(self.files.clone(), Interest::READABLE) }?;
        loop {
            let mut readable = socket.readable().await?;
            if let Ok(end) = readable.try_io(|files| files.get_ref().end()) {
                return end;
            }
        }
    }

    fn explain(&self, FileFailure { step, file, errno }: FileFailure) -> String {
        let path = self.paths.get(usize::from(file)).filter(|_| step.is_of_a_file());
        let path = path.map(|path| format!(" {}", path.display())).unwrap_or_default();
        match errno.0 {
            0 => format!("{step}{path}"),
            _ => format!("{step}{path}: {errno}"),
        }
    }
}

/// The absolute paths of the files, each once.
fn paths(task: &JobTask, names: &NodeNames) -> Vec<PathBuf> {
    let OutputSpec::Files { stdout, stderr } = &task.spec().step.output else { return Vec::new() };
    let cwd = Path::new(task.spec().step.cwd.as_os_str());
    let shared = [Some(stdout), stderr.as_ref()].into_iter().flatten();
    let shared = shared.filter(|pattern| task.shares_file(pattern));
    let path = |pattern: &OsBytes| cwd.join(output_path(task, task.first, names, pattern));
    let mut paths: Vec<PathBuf> = shared.map(path).collect();
    paths.dedup();
    paths
}

impl LiveJob {
    /// Waits until the output of the job's ranks is in the files that they share.
    pub(super) async fn files_written(self: Rc<Self>) -> Result<(), String> {
        match self.shared_files.clone() {
            Some(files) => files.written().await,
            None => Ok(()),
        }
    }
}
