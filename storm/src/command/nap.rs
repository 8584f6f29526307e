//! `nap`: the job of a live replay. A nap does nothing for the given time. Time in which it was
//! stopped does not count, because under gang scheduling other jobs ran then. A nap ends as if it
//! had started as planned, so delays of launches don't add up along chains of jobs.

use crate::cli::NapOptions;
use crate::failure::Failure;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Pause between two readings of the clock. A stop counts for at most twice this time.
const TICK: Duration = Duration::from_millis(2);
/// Longest delay of a launch and of the report of an end. A job that starts later than this was
/// rescheduled, and runs for its whole time.
const LAUNCH_MAX: Duration = Duration::from_millis(250);

pub(super) fn run(options: &NapOptions) -> Result<u8, Failure> {
    let mut left = options.time.saturating_sub(options.planned.map_or(Duration::ZERO, late_by));
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

/// The delay of the start, or zero if launching cannot explain it.
fn late_by(planned_unix_us: i64) -> Duration {
    let planned = UNIX_EPOCH + Duration::from_micros(planned_unix_us.unsigned_abs());
    let late = SystemTime::now().duration_since(planned);
    late.ok().filter(|late| *late <= LAUNCH_MAX).unwrap_or_default()
}
