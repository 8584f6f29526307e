//! The limits and the umask that processes inherit from the submitting shell.

use crate::failure::Failure;
use nix::sys::resource::{Resource, getrlimit};
use procfs::ProcError;
use procfs::process::Process;
use std::ffi::OsString;
use std::path::PathBuf;
use storm_rm::ResourceLimit;

/// The limits that a job inherits. Limits on the node's resources (pending signals, message queues,
/// real-time priority) stay those of the node.
const INHERITED: &[Resource] = &[
    Resource::RLIMIT_AS,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_RSS,
    Resource::RLIMIT_STACK,
];

/// The soft limits of this process.
pub(super) fn limits() -> Vec<ResourceLimit> {
    INHERITED
        .iter()
        .filter_map(|&resource| {
            let (soft, _) = getrlimit(resource).ok()?;
            Some(ResourceLimit { resource: resource as u32, soft })
        })
        .collect()
}

/// The file mode creation mask: `umask(2)` cannot read it without setting it.
pub(super) fn umask() -> Result<u32, Failure> {
    let status = Process::myself().and_then(|own| own.status());
    let status = status.map_err(unreadable)?;
    let untold = || Failure::new("proc", "/proc/self/status does not tell the umask");
    status.umask.ok_or_else(untold)
}

/// The failure to read a file of `/proc`.
fn unreadable(error: ProcError) -> Failure {
    let failure = match error {
        ProcError::Io(source, path) => {
            let path = path.unwrap_or_else(|| PathBuf::from("/proc/self"));
            let message = format!("{} cannot be read", path.display());
            let hint = Failure::of("proc", &source).hint;
            Failure { causes: vec![source.to_string()], hint, ..Failure::new("proc", message) }
        }
        other => Failure::of("proc", &other),
    };
    failure.or_hint("is /proc mounted?")
}

/// The name of the user.
pub(super) fn user() -> Option<String> {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    user.map(|user| user.name)
}

/// The variables that tell a batch script where it was submitted, and by whom.
pub(super) fn of_submission() -> Vec<(OsString, OsString)> {
    let directory = std::env::current_dir().ok().map(PathBuf::into_os_string);
    let host = nix::unistd::gethostname().ok();
    let variables = [
        ("STORM_SUBMIT_DIR", directory.clone()),
        ("SLURM_SUBMIT_DIR", directory),
        ("STORM_SUBMIT_HOST", host.clone()),
        ("SLURM_SUBMIT_HOST", host),
        ("SLURM_JOB_USER", user().map(OsString::from)),
    ];
    variables.into_iter().filter_map(|(name, value)| Some((name.into(), value?))).collect()
}

/// The variables of a login, for a batch script that does not get the whole environment: without
/// `HOME` and `PATH` few scripts run. Slurm reads the user's profile for the purpose; here the
/// shell's `PATH` and the user's entry in the database of users have to do.
pub(super) fn of_login() -> Vec<(OsString, OsString)> {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    let (name, home, shell) = match user {
        Some(user) => (Some(OsString::from(user.name)), Some(user.dir), Some(user.shell)),
        None => (None, None, None),
    };
    let own = |variable: &str| std::env::var_os(variable);
    let variables = [
        ("HOME", home.map(PathBuf::into_os_string)),
        ("LOGNAME", name.clone()),
        ("PATH", own("PATH")),
        ("SHELL", shell.map(PathBuf::into_os_string)),
        ("USER", name),
    ];
    let set = |(variable, value): (&str, Option<OsString>)| {
        Some((OsString::from(variable), value.or_else(|| own(variable))?))
    };
    variables.into_iter().filter_map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: under `ulimit -n 10` the hint was to mount `/proc`.
    #[test]
    fn the_hint_about_proc_depends_on_the_cause() {
        let of = |errno: i32| {
            let source = std::io::Error::from_raw_os_error(errno);
            unreadable(ProcError::Io(source, Some("/proc/self/status".into())))
        };
        let failure = of(nix::libc::EMFILE);
        assert_eq!(failure.message, "/proc/self/status cannot be read");
        assert!(failure.causes[0].contains("Too many open files"), "{failure:?}");
        assert!(failure.hint.is_some_and(|hint| hint.contains("ulimit -n")));
        let hint = of(nix::libc::ENOENT).hint;
        assert_eq!(hint.as_deref(), Some("is /proc mounted?"));
    }

    #[test]
    fn the_kernel_tells_both() {
        assert!(umask().expect("it does") <= 0o777);
        let limits = limits();
        assert_eq!(limits.len(), INHERITED.len());
        let files = limits.iter().find(|limit| limit.resource == Resource::RLIMIT_NOFILE as u32);
        assert!(files.is_some_and(|limit| limit.soft > 0));
    }
}
