//! Puts the NM's strobe thread on SCHED_FIFO, or reports why the kernel refuses.
//!
//! Other threads are not changed. The policy is reset on fork, so no job ever inherits it.

use nix::sys::resource::{Resource, getrlimit};
use thiserror::Error;

use crate::ids::Errno;

/// A default above ordinary real-time work and below the kernel's own threads (50 and up).
pub const DEFAULT_PRIORITY: u8 = 40;

/// The reason why a thread did not become a real-time thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RealtimeRefused {
    /// The thread is not root, and has neither CAP_SYS_NICE nor a sufficient limit.
    #[error(
        "not permitted: needs CAP_SYS_NICE, or RLIMIT_RTPRIO of at least {wanted} (it is {limit})"
    )]
    NotPermitted {
        /// The requested priority.
        wanted: u8,
        /// The highest priority that the limit allows.
        limit: u64,
    },
    /// The cgroup of the daemon has no real-time budget (`cpu.rt_runtime_us` is 0), or the kernel
    /// refused for another reason.
    #[error("refused by the kernel: {0} (a control group without real-time budget?)")]
    Kernel(Errno),
}

/// Puts the calling thread on SCHED_FIFO, and makes its timers exact.
///
/// # Errors
/// The kernel refuses. The thread continues as before.
pub fn become_realtime(priority: u8) -> Result<(), RealtimeRefused> {
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)?;
    // If the call fails, timers that were armed as an ordinary thread are up to 50 us late.
    // SAFETY: PR_SET_TIMERSLACK takes one integer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
    Ok(())
}

/// Whether [`become_realtime`] would be allowed. Leaves the thread as it was.
///
/// # Errors
/// The errors of [`become_realtime`].
pub fn probe_realtime(priority: u8) -> Result<(), RealtimeRefused> {
    // A separate thread, so that the caller's policy is never changed.
    std::thread::scope(|scope| {
        scope
            .spawn(|| set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority))
            .join()
            .unwrap_or(Err(RealtimeRefused::Kernel(Errno(libc::EAGAIN))))
    })
}

fn set_policy(policy: i32, priority: u8) -> Result<(), RealtimeRefused> {
    let parameter = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: `parameter` is valid for the whole call; 0 names the calling thread.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } == 0 {
        return Ok(());
    }
    let errno = Errno::last();
    let limit = getrlimit(Resource::RLIMIT_RTPRIO).map_or(0, |(soft, _)| soft);
    if errno.0 == libc::EPERM && limit < u64::from(priority) {
        Err(RealtimeRefused::NotPermitted { wanted: priority, limit })
    } else {
        Err(RealtimeRefused::Kernel(errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> i32 {
        // SAFETY: takes one integer; 0 names the calling thread.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_refusal_has_a_reason_and_success_stays_in_one_thread() {
        assert_eq!(policy(), libc::SCHED_OTHER);
        let probed = probe_realtime(DEFAULT_PRIORITY);
        assert_eq!(policy(), libc::SCHED_OTHER);
        let (result, inside, child) = std::thread::spawn(|| {
            let result = become_realtime(DEFAULT_PRIORITY);
            // A new thread, like a new process, does not have the policy.
            (result, policy(), std::thread::spawn(policy).join().unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(result, probed);
        assert_eq!(child, libc::SCHED_OTHER);
        let expected = match result {
            Ok(()) => libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            Err(_) => libc::SCHED_OTHER,
        };
        assert_eq!(inside, expected);
    }
}
