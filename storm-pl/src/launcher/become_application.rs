//! Turns the PL into the application in place, step by step; each step that can fail has a name.
//!
//! The order matters: limits and affinity need the daemon's privileges; everything that touches
//! the user's files comes after they are dropped; the parent-death signal is set last of the
//! two because a change of user clears it.

use std::os::fd::RawFd;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Pid, chdir, geteuid};

use crate::ids::{Errno, ProcessId};
use crate::launch_failure::{LaunchFailure, LaunchStep};
use crate::launch_spec::{RankHead, ResourceLimit, SpecHead};
use crate::launcher::execute::execute;
use crate::launcher::request::Request;
use crate::launcher::stdio::redirect;
use crate::launcher::wait_for_launch::{PMI_DESCRIPTOR, follow_keeper};

/// Returns only if a step failed.
pub(super) fn become_application(request: &Request<'_>, keeper: ProcessId) -> LaunchFailure {
    match prepare(request, keeper) {
        Ok(()) => execute(request),
        Err(failure) => failure,
    }
}

fn prepare(request: &Request<'_>, keeper: ProcessId) -> Result<(), LaunchFailure> {
    let at = |step| move |errno: Errno| LaunchFailure::new(step, errno);
    set_limits(&request.head.limits).map_err(at(LaunchStep::Limits))?;
    bind_to_cpus(&request.rank).map_err(at(LaunchStep::Affinity))?;
    change_user(&request.head)?;
    follow_keeper(keeper).map_err(at(LaunchStep::Keeper))?;
    chdir(request.cwd).map_err(|errno| at(LaunchStep::WorkingDirectory)(errno.into()))?;
    umask(Mode::from_bits_truncate(request.head.umask));
    redirect(request)?;
    if !request.head.pmi {
        close(PMI_DESCRIPTOR);
    }
    Ok(())
}

fn set_limits(limits: &[ResourceLimit]) -> Result<(), Errno> {
    for limit in limits {
        let raw = libc::rlimit { rlim_cur: limit.soft, rlim_max: limit.hard };
        // SAFETY: `raw` is a valid rlimit for the whole call.
        if unsafe { libc::setrlimit(limit.resource as _, &raw const raw) } == -1 {
            return Err(Errno::last());
        }
    }
    Ok(())
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

fn change_user(head: &SpecHead) -> Result<(), LaunchFailure> {
    let wanted = &head.credentials;
    if !geteuid().is_root() {
        return if wanted.uid == geteuid().as_raw() {
            Ok(())
        } else {
            Err(LaunchFailure::new(LaunchStep::OtherUser, Errno(libc::EPERM)))
        };
    }
    let failed = |step| LaunchFailure::new(step, Errno::last());
    // SAFETY: `groups` is an array of that many gids.
    let set = unsafe { libc::setgroups(wanted.groups.len(), wanted.groups.as_ptr()) };
    if set == -1 && !wanted.has_groups() {
        return Err(failed(LaunchStep::Groups));
    }
    // SAFETY: takes integers only. This process has one thread, so changing it changes all.
    if unsafe { libc::setresgid(wanted.gid, wanted.gid, wanted.gid) } == -1 {
        return Err(failed(LaunchStep::Group));
    }
    // SAFETY: as above.
    if unsafe { libc::setresuid(wanted.uid, wanted.uid, wanted.uid) } == -1 {
        return Err(failed(LaunchStep::User));
    }
    Ok(())
}

fn close(descriptor: RawFd) {
    // Everything above is the command socket, which `execve` closes, or not open at all.
    // SAFETY: `settle` has put something there and no object owns it.
    unsafe { libc::close(descriptor) };
}
