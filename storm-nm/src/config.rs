//! Settings of a node manager that hold on any host.

use std::time::Duration;

/// The settings that an operator may change. Each default has its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NmConfig {
    /// Time between two status reports: often enough for people, and too rare to disturb jobs.
    pub status_interval: Duration,
    /// Longest time for which a report that nobody waits for is held back, to travel with others.
    /// The default is short compared with the life of any job.
    pub coalesce: Duration,
    /// Most output of ranks that is held for the network, in bytes, over all jobs. When the limit
    /// is reached, the ranks' pipes are not read, so that the ranks wait and not the node. Two
    /// items of the report queue are enough to keep it busy.
    pub output_backlog_bytes: usize,
    /// How long a stopped job is resumed to act on a signal. The job's handlers need a few
    /// milliseconds, and rival jobs should not notice.
    pub signal_grace: Duration,
    /// How long to wait for the end of all processes before leaving. A process that is alive after
    /// it hangs in the kernel, and nothing would end it.
    pub leave_timeout: Duration,
    /// How long the node keeps its jobs and tries to rejoin without a Machine Manager. Zero: not at
    /// all. The default is longer than a restart or the repair of a switch, and shorter than an
    /// operator sleeps.
    pub manager_lost: Duration,
    /// How long jobs that requested requeueing are kept without a Machine Manager. The manager runs
    /// them elsewhere soon after. The default is longer than a restart of the manager.
    pub requeue_fence: Duration,
    /// Most time for which these jobs continue after the last renewal by this node manager, if it
    /// is stopped or gets no processor. Then the keeper ends the jobs. The default is longer than
    /// the Machine Manager takes to find a stopped node manager dead; zero: for ever.
    pub lease: Duration,
    /// How long jobs continue after this node manager has ended, for the next node manager of this
    /// node to take over; zero: not at all. The default is long enough to install and start another
    /// version. The other nodes of a job can wait as long.
    pub node_return: Duration,
    /// How long this node manager, asked to end, waits until the slices in which it moves messages
    /// stand. The default is thousands of slices, and shorter than a service manager waits.
    pub hand_over: Duration,
    /// Number of switches that are remembered one by one; histograms hold the older ones.
    pub switch_records: usize,
}

/// The time between two boosts of processes that wait for a message which has arrived, unless
/// configured otherwise. Nagar et al. (SPAA 1999) use no period below 1 ms.
pub const DEFAULT_BOOST_PERIOD: Duration = Duration::from_millis(10);

impl Default for NmConfig {
    fn default() -> NmConfig {
        NmConfig {
            status_interval: Duration::from_secs(10),
            coalesce: Duration::from_millis(1),
            output_backlog_bytes: 32 * 1024,
            signal_grace: Duration::from_millis(10),
            leave_timeout: Duration::from_secs(5),
            manager_lost: Duration::from_secs(600),
            requeue_fence: Duration::from_secs(5),
            lease: Duration::from_secs(5),
            node_return: Duration::ZERO,
            hand_over: Duration::from_secs(2),
            switch_records: 4096,
        }
    }
}
