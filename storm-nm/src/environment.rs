//! What STORM adds to the environment of a rank.

use crate::JobTask;
use std::ffi::{OsStr, OsString};
use storm_primitives::NodeId;
use storm_rm::Rank;

/// What a node is called, by its id and by its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeNames {
    /// The id: `STORM_NODE_ID`.
    pub node: NodeId,
    /// The name: `%n` in output files.
    pub name: String,
    /// The address that ranks of other nodes reach this one by.
    pub address: String,
}

/// The variables of one rank, to be added to those of the job. A later entry
/// wins over the submitter's variable of that name.
pub fn rank_environment(
    task: &JobTask,
    rank: Rank,
    names: &NodeNames,
    job_directory: &OsStr,
) -> Vec<(OsString, OsString)> {
    let launch = &task.launch;
    let number = |value: u64| OsString::from(value.to_string());
    let size = u64::from(launch.spec.procs);
    let rank_number = u64::from(rank.0);
    let variables = [
        ("STORM_JOB_ID", number(launch.job.0)),
        ("STORM_RANK", number(rank_number)),
        ("STORM_SIZE", number(size)),
        ("STORM_LOCAL_RANK", number(u64::from(rank.0.saturating_sub(task.first.0)))),
        ("STORM_NODE_ID", number(u64::from(names.node.0))),
        ("STORM_NODELIST", OsString::from(&launch.node_list)),
        ("STORM_NODE_ADDR", OsString::from(&names.address)),
        ("STORM_JOB_DIR", job_directory.to_owned()),
        ("PMI_RANK", number(rank_number)),
        ("PMI_SIZE", number(size)),
    ];
    variables.into_iter().map(|(name, value)| (OsString::from(name), value)).collect()
}
