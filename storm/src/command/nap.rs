//! `nap`: the job of a live replay. It does nothing for so long, and does not
//! count the time in which it was stopped: under gang scheduling others ran
//! then.

use crate::cli::NapOptions;
use crate::failure::Failure;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::time::{Duration, Instant};

/// Between two looks at the clock: what a stop may count at most is twice that.
const TICK: Duration = Duration::from_millis(2);

/// `nap`.
pub(super) fn run(options: &NapOptions) -> Result<u8, Failure> {
    let mut left = options.time;
    while !left.is_zero() {
        let tick = left.min(TICK);
        let before = Instant::now();
        let flags = ClockNanosleepFlags::empty();
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &TimeSpec::from_duration(tick)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(Failure::of("nap", &error)),
        }
        left = left.saturating_sub(before.elapsed().min(2 * tick));
    }
    Ok(0)
}
