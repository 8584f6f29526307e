//! Gives back, while a daemon is idle, text that the start or a job needed and free heap.

use super::program_text;
use nix::time::ClockId;
use procfs::process::Process;
use std::time::Duration;

/// How long a daemon must be idle before its start counts as over.
const SETTLED: Duration = Duration::from_secs(1);
/// A daemon that uses more of a processor within a second is at work. Such a daemon would need its
/// text again at once, and the search for text costs more time than a launch can spare.
const AT_WORK: Duration = Duration::from_millis(5);
/// Number of checks that may find the daemon at work before its start counts as over anyway.
const LOOKS: u32 = 60;
/// The time between two checks after the start.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Giving back less than this is not worth the page faults that reload some of it.
const WORTH_BYTES: u64 = 512 << 10;

/// Calls `let_go` when the start is over. Calls it again whenever the memory has grown since, there
/// are no jobs (`has_jobs`) and the daemon does little. Runs for as long as it is polled, within a
/// tokio runtime with time enabled.
pub async fn let_go_at_rest(has_jobs: impl Fn() -> bool, let_go: impl Fn()) {
    for _ in 0..LOOKS {
        if rests_for(SETTLED).await {
            break;
        }
    }
    let_go();
    let mut least = resident_bytes();
    loop {
        let rests = rests_for(LOOK_EVERY).await;
        let resident = resident_bytes();
        if rests && !has_jobs() && resident >= least + WORTH_BYTES {
            let_go();
            least = resident_bytes();
        }
        least = least.min(resident);
    }
}

/// Gives back the free heap and unused text. The kernel reloads text when it is used.
pub(super) fn let_go_of_all() {
    storm_pl::give_back_heap();
    let_go_of_text();
}

/// Gives back program text. Text in use is reloaded from the page cache.
pub fn let_go_of_text() {
    let bytes = program_text::let_go();
    tracing::debug!(bytes, "text that is not in use is let go of");
}

/// Whether this process does little for the whole period.
async fn rests_for(period: Duration) -> bool {
    let before = processor_time();
    tokio::time::sleep(period).await;
    processor_time().saturating_sub(before) < AT_WORK.mul_f64(period.as_secs_f64())
}

/// The processor time of this process; 0 if the system does not report it.
fn processor_time() -> Duration {
    let clock = ClockId::CLOCK_PROCESS_CPUTIME_ID;
    nix::time::clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// The resident memory of this process; 0 if the system does not report it.
fn resident_bytes() -> u64 {
    let statm = Process::myself().and_then(|process| process.statm());
    statm.map_or(0, |statm| statm.resident * procfs::page_size())
}
