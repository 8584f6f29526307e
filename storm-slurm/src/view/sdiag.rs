//! `sdiag`: counters of the manager, in the lines that exporters read.

use super::Show;
use jiff::Timestamp;

/// Facts about the manager's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagFacts {
    /// Since when it counts.
    pub since: Timestamp,
    /// Jobs submitted.
    pub submitted: usize,
    /// Jobs started.
    pub started: usize,
    /// Jobs that ended `COMPLETED`.
    pub completed: usize,
    /// Jobs that ended `CANCELLED`.
    pub cancelled: usize,
    /// Jobs that ended otherwise.
    pub failed: usize,
    /// Jobs that wait.
    pub pending: u32,
    /// Jobs that run.
    pub running: u32,
}

/// The text. Figures of parts that do not exist here, such as agents and a database, are 0.
pub fn text(facts: &DiagFacts, show: &Show) -> String {
    let date = |time: Timestamp| {
        let zoned = time.to_zoned(show.zone.clone());
        format!("{} ({})", zoned.strftime("%a %b %e %H:%M:%S %Y"), time.as_second())
    };
    let (now, since) = (date(show.now), date(facts.since));
    let DiagFacts { submitted, started, completed, cancelled, failed, pending, running, .. } =
        facts;
    let stars = "*".repeat(55);
    format!(
        "{stars}\nsdiag output at {now}\nData since      {since}\n{stars}\n\
         Server thread count:  1\nAgent queue size:     0\nAgent count:          0\n\
         Agent thread count:   0\nDBD Agent queue size: 0\n\n\
         Jobs submitted: {submitted}\nJobs started:   {started}\nJobs completed: {completed}\n\
         Jobs canceled:  {cancelled}\nJobs failed:    {failed}\n\n\
         Job states ts:  {now}\nJobs pending:   {pending}\nJobs running:   {running}\n\n\
         Main schedule statistics (microseconds):\n\
         \tLast cycle:   0\n\tMax cycle:    0\n\tTotal cycles: 0\n\tMean cycle:   0\n\
         \tMean depth cycle:  0\n\tCycles per minute: 0\n\tLast queue length: {pending}\n\n\
         Backfilling stats\n\
         \tTotal backfilled jobs (since last slurm start): 0\n\
         \tTotal backfilled jobs (since last stats cycle start): 0\n\
         \tTotal backfilled heterogeneous job components: 0\n\
         \tTotal cycles: 0\n\tLast cycle when: N/A\n\tLast cycle: 0\n\tMax cycle:  0\n\
         \tMean cycle: 0\n\tLast depth cycle: 0\n\tLast depth cycle (try sched): 0\n\
         \tDepth Mean: 0\n\tDepth Mean (try depth): 0\n\tLast queue length: {pending}\n\
         \tQueue length mean: 0\n\tLast table size: 0\n\tMean table size: 0\n\n\
         Latency for 1000 calls to gettimeofday(): 0 microseconds\n\n\
         Remote Procedure Call statistics by message type\n\n\
         Remote Procedure Call statistics by user\n\n\
         Pending RPC statistics\n\tNo pending RPCs\n"
    )
}
