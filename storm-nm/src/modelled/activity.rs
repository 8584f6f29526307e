//! Activities that take time on a modelled node beyond its fixed times: noise of the operating
//! system, load, contention.

/// An activity that takes time on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The node manager takes up a heartbeat.
    Attend,
    /// The processors change hands, from the stop of a row to the start of the next.
    Switch,
    /// A chunk of a file is written.
    Write {
        /// Its length.
        bytes: u64,
    },
    /// A process is forked and executed.
    Exec,
    /// A process ends and its parent notices.
    Exit,
    /// The time from a process's arrival on a shared processor to the next end of a turn there.
    /// Different nodes have independent times.
    Tick,
}
