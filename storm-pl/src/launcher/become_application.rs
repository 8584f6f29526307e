//! Turns the PL into the application in place. Each step that can fail has a name.
//!
//! The order matters. Limits and affinity need the daemon's privileges. Steps that touch the user's
//! files follow the drop of privileges. The parent-death signal is set after the change of user,
//! which clears it.

use std::os::fd::RawFd;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Pid, chdir, geteuid};

use crate::credentials::Credentials;
use crate::ids::{Errno, ProcessId};
use crate::launch_failure::{LaunchFailure, LaunchStep, RefusedLimit};
use crate::launch_spec::{RankHead, ResourceLimit, StreamKind};
use crate::launcher::application_state::{PMI_DESCRIPTOR, follow_keeper};
use crate::launcher::execute::execute;
use crate::launcher::request::Request;
use crate::launcher::stdio::redirect;

/// Returns only if a step failed.
pub(super) fn become_application(request: &Request<'_>, keeper: ProcessId) -> LaunchFailure {
    match prepare(request, keeper) {
        Ok(()) => execute(request),
        Err(failure) => failure,
    }
}

fn prepare(request: &Request<'_>, keeper: ProcessId) -> Result<(), LaunchFailure> {
    let at = |step| move |errno: Errno| LaunchFailure::new(step, errno);
    request.head.limits.iter().try_for_each(set_limit)?;
    bind_to_cpus(&request.rank).map_err(at(LaunchStep::Affinity))?;
    change_user(request)?;
    follow_keeper(keeper).map_err(at(LaunchStep::Keeper))?;
    chdir(request.cwd).map_err(|errno| at(LaunchStep::WorkingDirectory)(errno.into()))?;
    umask(Mode::from_bits_truncate(request.head.umask));
    redirect(request)?;
    if !request.head.pmi {
        close(PMI_DESCRIPTOR);
    }
    Ok(())
}

/// Sets a limit, or as much of it as this process may have. In containers root may lack
/// CAP_SYS_RESOURCE, and no process may have more descriptors than fs.nr_open.
fn set_limit(limit: &ResourceLimit) -> Result<(), LaunchFailure> {
    let ResourceLimit { resource, soft, hard } = *limit;
    let Err(errno) = set(resource, soft, hard) else { return Ok(()) };
    let mut own = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `own` is a valid rlimit for the whole call. If the call fails, `own` is unchanged.
    unsafe { libc::getrlimit(resource as _, &raw mut own) };
    let permitted = own.rlim_max;
    if errno == Errno(libc::EPERM) && set(resource, soft.min(permitted), permitted).is_ok() {
        return Ok(());
    }
    let refused = RefusedLimit { resource, wanted: soft, permitted };
    Err(LaunchFailure::new(LaunchStep::Limit(refused), errno))
}

fn set(resource: u32, soft: u64, hard: u64) -> Result<(), Errno> {
    let raw = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `raw` is a valid rlimit for the whole call.
    let result = unsafe { libc::setrlimit(resource as _, &raw const raw) };
    if result == -1 { Err(Errno::last()) } else { Ok(()) }
}

fn bind_to_cpus(rank: &RankHead) -> Result<(), Errno> {
    if rank.cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &cpu in &rank.cpus {
        set.set(usize::from(cpu))?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

fn change_user(request: &Request<'_>) -> Result<(), LaunchFailure> {
    let wanted = &request.head.credentials;
    if !geteuid().is_root() {
        return if wanted.uid == geteuid().as_raw() {
            Ok(())
        } else {
            Err(LaunchFailure::new(LaunchStep::OtherUser, Errno(libc::EPERM)))
        };
    }
    give_pipes(&request.rank, wanted);
    let failed = |step| LaunchFailure::new(step, Errno::last());
    // SAFETY: `groups` is an array of that many gids.
    let set = unsafe { libc::setgroups(wanted.groups.len(), wanted.groups.as_ptr()) };
    if set == -1 && !wanted.has_groups() {
        return Err(failed(LaunchStep::Groups));
    }
    // SAFETY: the call takes integers only. The process has one thread, so all of it changes.
    if unsafe { libc::setresgid(wanted.gid, wanted.gid, wanted.gid) } == -1 {
        return Err(failed(LaunchStep::Group));
    }
    // SAFETY: as above.
    if unsafe { libc::setresuid(wanted.uid, wanted.uid, wanted.uid) } == -1 {
        return Err(failed(LaunchStep::User));
    }
    Ok(())
}

/// Gives the user the pipes that root has made. Otherwise the user could not open them as
/// `/dev/stderr`.
fn give_pipes(rank: &RankHead, user: &Credentials) {
    let streams = [rank.stdin, rank.stdout, rank.stderr];
    for (descriptor, kind) in (0..).zip(streams) {
        if matches!(kind, StreamKind::Pipe | StreamKind::Lines) {
            // If the call fails, the stream itself can still be used.
            // SAFETY: fchown takes integers; the descriptor is a standard stream of this process.
            unsafe { libc::fchown(descriptor, user.uid, user.gid) };
        }
    }
}

fn close(descriptor: RawFd) {
    // The only higher descriptor is the command socket, which `execve` closes.
    // SAFETY: `settle` has put a descriptor there, and no object owns it.
    unsafe { libc::close(descriptor) };
}
