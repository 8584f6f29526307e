//! The acts of a modelled node, for observers of a simulation.

use crate::JobKey;
use std::fmt;
use storm_rm::message::Strobe;
use storm_rm::{Destination, Rank, RankClass, RowSet};

/// An act of a modelled node. Printed, it is in the words of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAct {
    /// A strobe was carried out; the stops and resumes that follow belong to it.
    Strobe(Strobe),
    /// The ranks of a job here were ordered to start, or with `stopped` to wait.
    Launch {
        /// The job.
        job: JobKey,
        /// Number of ranks here.
        ranks: u32,
        /// The rows in the launch message.
        rows: RowSet,
        /// Whether they execute nothing until the job is resumed.
        stopped: bool,
    },
    /// The start of a job could not be prepared, so none of its ranks is started here.
    Refuse(JobKey),
    /// A process has ended.
    Exit {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
    },
    /// The rows of a job have changed.
    Rows {
        /// The job.
        job: JobKey,
        /// Its new rows.
        rows: RowSet,
    },
    /// The context switch stopped a job.
    Stop(JobKey),
    /// The context switch resumed a job.
    Resume(JobKey),
    /// The class of some ranks of a job has changed.
    Classified {
        /// The job.
        job: JobKey,
        /// The ranks here, with their classes.
        ranks: Vec<RankClass>,
    },
    /// A signal was sent to every rank of a job.
    Signal {
        /// The job.
        job: JobKey,
        /// Signal number.
        signal: i32,
    },
    /// Every process of a job was killed.
    Destroy(JobKey),
    /// The keeper killed every process of a job, as the node manager had not renewed its lease in
    /// time.
    LeaseOver(JobKey),
    /// The keeper ended all jobs of the node, as no node manager claimed them in time.
    KeeperEnded,
    /// The processes that the ranks of a job left behind were killed.
    End(JobKey),
    /// A job was forgotten.
    Forget(JobKey),
    /// Content was copied to its place.
    Place(Destination),
    /// The PMI connection of a rank was closed.
    ClosePmi {
        /// The job.
        job: JobKey,
        /// The rank.
        rank: Rank,
    },
    /// The node manager has left.
    Left,
}

impl fmt::Display for HostAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostAct::Strobe(Strobe { partition, row, number, .. }) => {
                write!(f, "strobe {number} of partition {} to row {}", partition.0, row.0)
            }
            HostAct::Launch { job, rows, stopped, .. } => {
                write!(f, "launch {job} stopped={stopped} in rows {:#b}", rows.0)
            }
            HostAct::Refuse(job) => write!(f, "refuse {job}"),
            HostAct::Exit { job, rank } => write!(f, "exit {job} {rank}"),
            HostAct::Rows { job, rows } => write!(f, "rows of {job}: {:#b}", rows.0),
            HostAct::Stop(job) => write!(f, "stop {job}"),
            HostAct::Resume(job) => write!(f, "resume {job}"),
            HostAct::Classified { job, ranks } => {
                write!(f, "classes of {job}:")?;
                ranks.iter().try_for_each(|rank| write!(f, " {} {}", rank.rank, rank.class))
            }
            HostAct::Signal { job, signal } => write!(f, "signal {job} {signal}"),
            HostAct::Destroy(job) => write!(f, "destroy {job}"),
            HostAct::LeaseOver(job) => write!(f, "the lease of {job} is over"),
            HostAct::KeeperEnded => f.write_str("no node manager came, the keeper ended all jobs"),
            HostAct::End(job) => write!(f, "end {job}"),
            HostAct::Forget(job) => write!(f, "forget {job}"),
            HostAct::Place(destination) => write!(f, "placed {destination:?}"),
            HostAct::ClosePmi { job, rank } => write!(f, "close PMI {job} {rank}"),
            HostAct::Left => f.write_str("left"),
        }
    }
}
