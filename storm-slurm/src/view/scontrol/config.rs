//! `scontrol show config`: the settings of Slurm's that have a meaning here.

use crate::view::Show;
use jiff::Timestamp;
use std::fmt::Write;

/// Facts about the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFacts {
    /// When the manager started.
    pub started: Timestamp,
    /// The host of the manager, if it is known.
    pub manager: Option<String>,
    /// How long an ended job is listed by squeue, in seconds.
    pub min_job_age_s: u64,
    /// The most jobs of an array.
    pub max_array_size: u32,
    /// How long processes have to end after a request, in seconds.
    pub kill_wait_s: u64,
    /// The quantum of the default partition in seconds, if its jobs take turns.
    pub quantum_s: u64,
    /// The number of nodes.
    pub nodes: u32,
    /// The number of the next job.
    pub next_job: u64,
    /// The version, as Slurm's commands print theirs.
    pub version: String,
}

/// The text of the configuration.
pub fn config(facts: &ConfigFacts, show: &Show) -> String {
    let now = show.time(show.now);
    let mut text = format!("Configuration data as of {now}\n");
    let manager = facts.manager.as_deref().unwrap_or("localhost");
    let rows: &[(&str, String)] = &[
        ("AccountingStorageType", "accounting_storage/slurmdbd".to_owned()),
        ("AuthType", "auth/storm".to_owned()),
        ("BOOT_TIME", show.time(facts.started)),
        ("ClusterName", show.cluster.clone()),
        ("FirstJobId", "1".to_owned()),
        ("InactiveLimit", "0 sec".to_owned()),
        ("JobRequeue", "0".to_owned()),
        ("KillWait", format!("{} sec", facts.kill_wait_s)),
        ("MaxArraySize", facts.max_array_size.to_string()),
        ("MaxNodeCount", facts.nodes.to_string()),
        ("MinJobAge", format!("{} sec", facts.min_job_age_s)),
        ("MpiDefault", "pmix".to_owned()),
        ("NEXT_JOB_ID", facts.next_job.to_string()),
        ("PreemptMode", "GANG".to_owned()),
        ("PriorityType", "priority/multifactor".to_owned()),
        ("SchedulerTimeSlice", format!("{} sec", facts.quantum_s)),
        ("SelectType", "select/cons_tres".to_owned()),
        ("SlurmctldHost[0]", manager.to_owned()),
        ("SLURM_VERSION", facts.version.clone()),
        ("TrackWCKey", "No".to_owned()),
    ];
    for (key, value) in rows {
        let _ = writeln!(text, "{key:<23} = {value}");
    }
    let _ = writeln!(text, "\nSlurmctld(primary) at {manager} is UP");
    text
}
