//! A partition as the listing commands see it.

/// Facts about a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionFacts {
    /// Its name.
    pub name: String,
    /// Whether jobs that name none go there.
    pub default: bool,
    /// Whether it takes jobs.
    pub up: bool,
    /// Its nodes, folded.
    pub node_list: String,
    /// The number of its nodes.
    pub nodes: u32,
    /// Its processing elements.
    pub cpus: u32,
    /// Memory that jobs may have on its nodes, in MiB.
    pub memory_mib: Option<u64>,
    /// The longest time limit.
    pub max_time_s: Option<u64>,
    /// The time limit of a job without one.
    pub default_time_s: Option<u64>,
    /// The least and the most nodes of a job.
    pub job_nodes: (u32, Option<u32>),
    /// How many jobs may have the same processing elements.
    pub rows: u32,
    /// Whether these jobs take turns.
    pub slices: bool,
    /// The accounts whose jobs it takes; empty is all.
    pub accounts: Vec<String>,
    /// The groups whose jobs it takes; empty is all.
    pub groups: Vec<String>,
}

impl PartitionFacts {
    /// `NO`, or how many jobs may have the same processing elements: `FORCE:4`.
    pub fn oversubscribe(&self) -> String {
        match self.rows {
            0 | 1 => "NO".to_owned(),
            rows => format!("FORCE:{rows}"),
        }
    }

    /// How jobs give way to others.
    pub fn preempt_mode(&self) -> &'static str {
        if self.slices { "GANG" } else { "OFF" }
    }

    /// `ALL`, or names.
    pub(super) fn all_or(names: &[String], all: &str) -> String {
        if names.is_empty() { all.to_owned() } else { names.join(",") }
    }
}
