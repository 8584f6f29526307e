//! Settings of a node manager that hold on any host.

use std::time::Duration;

/// What an operator may change. Every default gives its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NmConfig {
    /// Time between two status reports: often enough for people, too seldom to
    /// disturb jobs.
    pub status_interval: Duration,
    /// Longest time a report that nobody waits for is kept back, to travel with
    /// others: short beside the life of any job.
    pub coalesce: Duration,
    /// Output of ranks held for the network, in bytes, over all jobs. When it is
    /// full the ranks' pipes are not read, so that the ranks wait, not the node.
    /// Two items of the report queue are enough to keep it busy.
    pub output_backlog_bytes: usize,
    /// How long a stopped job is resumed to act on a signal: its handlers need a
    /// few milliseconds, its rivals should not notice.
    pub signal_grace: Duration,
    /// How long the end of all processes is awaited before leaving. What is not
    /// dead by then hangs in the kernel and nothing would end it.
    pub leave_timeout: Duration,
    /// How long the jobs are kept without a Machine Manager, and the way back to it is
    /// looked for; zero: not at all. Longer than its restart or the repair of a switch
    /// takes, shorter than an operator sleeps.
    pub manager_lost: Duration,
    /// How long those of them are kept that asked to be queued again when their node is
    /// lost: the Machine Manager runs them elsewhere soon after. Longer than it takes to
    /// restart it.
    pub requeue_fence: Duration,
    /// How long they may go on at most after this node manager has last said so, should it be stopped or
    /// get no processor: the keeper ends them then. Longer than the Machine Manager takes to find a
    /// node manager dead that is stopped; zero: for ever.
    pub lease: Duration,
    /// How long jobs go on without this node manager, once it has ended, and may be taken over by the
    /// next one of this node; zero: not at all. Longer than it takes to install another version
    /// and to start it, and as long as the other nodes of a job can be let wait.
    pub node_return: Duration,
    /// Switches remembered one by one; older ones live on in the histograms.
    pub switch_records: usize,
}

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
            switch_records: 4096,
        }
    }
}
