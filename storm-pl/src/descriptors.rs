//! The number of descriptors that this process may have open, and the reserve that launches do not
//! use.
//!
//! The kernel gives a new descriptor the lowest free number. The number is therefore a lower bound
//! for the number of open descriptors, without a further call.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::ids::{Errno, ProcessId};

/// How many descriptors are reserved for the daemon.
const RESERVE: u64 = 48;
/// With a low limit, one of this many descriptors is reserved.
const RESERVED_PART: u64 = 8;

/// The soft limit that this process began with.
static BEFORE: OnceLock<u64> = OnceLock::new();

/// How many descriptors this process may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit(pub u64);

impl DescriptorLimit {
    /// The soft limit of this process now.
    #[must_use]
    pub fn of_this_process() -> Self {
        // The call does not fail for a resource that the kernel knows.
        Self(getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft))
    }

    /// The soft limit of another process; `None` if it is gone or belongs to another user.
    pub(crate) fn of(process: ProcessId) -> Option<Self> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let new = std::ptr::null();
        // SAFETY: the pointer to the result is valid for the whole call, and no limit is set.
        let done = unsafe { libc::prlimit(process.0, libc::RLIMIT_NOFILE, new, &raw mut limit) };
        (done == 0).then_some(Self(limit.rlim_cur))
    }

    /// Raises the soft limit to the hard one.
    ///
    /// # Errors
    /// The kernel refuses. The limit stays as it was.
    pub fn raise() -> Result<Self, Errno> {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
        BEFORE.get_or_init(|| soft);
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        }
        Ok(Self(hard))
    }

    /// Puts the soft limit back to its value before [`DescriptorLimit::raise`], for a program that
    /// this process becomes or starts.
    pub fn restore() {
        if let (Some(&before), Ok((_, hard))) = (BEFORE.get(), getrlimit(Resource::RLIMIT_NOFILE)) {
            // If the call fails, the program has a higher limit, which does no harm.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, before.min(hard), hard);
        }
    }

    /// How many descriptors launches and clients may use. The rest are for the daemon's files and
    /// links.
    #[must_use]
    pub fn usable(self) -> u64 {
        self.0 - RESERVE.min(self.0 / RESERVED_PART)
    }

    /// Whether a launch may keep this descriptor.
    pub(crate) fn admits(self, descriptor: impl AsFd) -> bool {
        number(descriptor) < self.usable()
    }

    /// Whether plenty of descriptors are free while this descriptor is open.
    pub(crate) fn is_far_from(self, descriptor: impl AsFd) -> bool {
        self.is_far_beyond(descriptor, 0)
    }

    /// Whether plenty are free even if `more` are open than the number of this descriptor shows.
    pub(crate) fn is_far_beyond(self, descriptor: impl AsFd, more: u32) -> bool {
        number(descriptor).saturating_add(more.into()) < self.0 / 2
    }
}

fn number(descriptor: impl AsFd) -> u64 {
    // An open descriptor is not negative.
    u64::try_from(descriptor.as_fd().as_raw_fd()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::DescriptorLimit;
    use std::io;

    #[test]
    fn launches_leave_a_part_of_any_limit() {
        for limit in [0, 7, 8, 64, 1024, 524_288, u64::MAX] {
            let left = limit - DescriptorLimit(limit).usable();
            assert!(left <= 48 && left <= limit / 8, "{limit}: {left}");
        }
        assert_eq!(DescriptorLimit(1024).usable(), 976);
    }

    #[test]
    fn the_number_of_a_descriptor_tells_how_many_are_open() {
        let (reader, _writer) = io::pipe().expect("a pipe");
        assert!(DescriptorLimit(u64::MAX).admits(&reader));
        assert!(DescriptorLimit(u64::MAX).is_far_from(&reader));
        assert!(!DescriptorLimit(2).admits(&reader) && !DescriptorLimit(4).is_far_from(&reader));
    }
}
