//! What a daemon lets go of while there is nothing to do: text that the start or a job needed, and
//! what is free of the heap.

use super::program_text;
use nix::time::ClockId;
use procfs::process::Process;
use std::time::Duration;

/// When a daemon has served for so long, its start is over.
const SETTLED: Duration = Duration::from_secs(1);
/// One that took more of a processor within a second is at work: what it lets go of comes back at
/// once, and to look for it costs more than a launch has to spare.
const AT_WORK: Duration = Duration::from_millis(5);
/// So often it may be found at work before that does not count any more.
const LOOKS: u32 = 60;
/// Between two looks at one that has settled.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Less than this is not worth the faults by which some of it comes back.
const WORTH_BYTES: u64 = 512 << 10;

/// Has `let_go` done when the start is over, and from then on when jobs have brought back what it
/// gives, there are none (`has_jobs`) and little else is done. Runs for as long as it is polled, within a
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

/// Gives back what is free of the heap, and the text that is not in use, which comes back when it is.
pub(super) fn let_go_of_all() {
    storm_pl::give_back_heap();
    let_go_of_text();
}

/// Gives back the text that is not in use; what is comes back from the page cache.
pub fn let_go_of_text() {
    let bytes = program_text::let_go();
    tracing::debug!(bytes, "text that is not in use is let go of");
}

/// Whether this process does little for so long.
async fn rests_for(period: Duration) -> bool {
    let before = processor_time();
    tokio::time::sleep(period).await;
    processor_time().saturating_sub(before) < AT_WORK.mul_f64(period.as_secs_f64())
}

/// What this process has had of the processors; nothing where the system does not say.
fn processor_time() -> Duration {
    let clock = ClockId::CLOCK_PROCESS_CPUTIME_ID;
    nix::time::clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// What it has in memory; nothing where the system does not say.
fn resident_bytes() -> u64 {
    let statm = Process::myself().and_then(|process| process.statm());
    statm.map_or(0, |statm| statm.resident * procfs::page_size())
}
