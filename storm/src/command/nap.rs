//! `nap`: the job of a live replay. It does nothing for so long, and does not
//! count the time in which it was stopped: under gang scheduling others ran
//! then. What its launch took it makes up for by ending as if it had started when it was
//! planned to, so that late starts do not add up along chains of jobs.

use crate::cli::NapOptions;
use crate::failure::Failure;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two looks at the clock: what a stop may count at most is twice that.
const TICK: Duration = Duration::from_millis(2);
/// A launch, and word of an end, take no longer: whoever starts later than that was planned
/// otherwise, and has its whole time.
const LAUNCH_MAX: Duration = Duration::from_millis(250);

/// `nap`.
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

/// How much later than planned it is, if that is what launching takes.
fn late_by(planned_unix_us: i64) -> Duration {
    let planned = UNIX_EPOCH + Duration::from_micros(planned_unix_us.unsigned_abs());
    let late = SystemTime::now().duration_since(planned);
    late.ok().filter(|late| *late <= LAUNCH_MAX).unwrap_or_default()
}
