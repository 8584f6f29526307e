//! What a modelled node spends time on beyond its fixed times: the noise of its
//! operating system, load, contention.

/// Something that takes time on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The node manager takes up a heartbeat.
    Attend,
    /// The processors change hands: from the stop of a row to the start of the
    /// next one.
    Switch,
    /// A chunk of a file is written.
    Write {
        /// Its length.
        bytes: u64,
    },
    /// A process is forked and executes.
    Exec,
    /// A process ends and its parent learns of it.
    Exit,
    /// From when a process comes to share a processor with others to the next end of a turn
    /// there: those of different nodes have nothing to do with each other.
    Tick,
}
