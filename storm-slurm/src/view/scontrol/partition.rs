//! `scontrol show partition`.

use super::record::{NULL, Record};
use crate::view::{PartitionFacts, time_text};

/// The record of a partition.
pub fn partition(partition: &PartitionFacts, one_line: bool) -> String {
    let mut record = Record::default();
    let yes = |yes: bool| if yes { "YES" } else { "NO" };
    let (least, most) = partition.job_nodes;
    let most = most.map_or_else(|| "UNLIMITED".to_owned(), |most| most.to_string());
    let default = partition.default_time_s.map_or_else(|| "NONE".to_owned(), time_text::full);
    let longest = time_text::limit(partition.max_time_s, time_text::full);
    let memory = partition.memory_mib.map_or_else(String::new, |mib| format!("mem={mib}M,"));
    record
        .line(format!("PartitionName={}", partition.name))
        .line(format!(
            "AllowGroups={} AllowAccounts={} AllowQos=ALL",
            PartitionFacts::all_or(&partition.groups, "ALL"),
            PartitionFacts::all_or(&partition.accounts, "ALL")
        ))
        .line(format!("AllocNodes=ALL Default={} QoS=N/A", yes(partition.default)))
        .line(format!(
            "DefaultTime={default} DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO"
        ))
        .line(format!(
            "MaxNodes={most} MaxTime={longest} MinNodes={least} LLN=NO MaxCPUsPerNode=UNLIMITED"
        ))
        .line(format!("Nodes={}", partition.node_list))
        .line(format!(
            "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe={}",
            partition.oversubscribe()
        ))
        .line(format!("OverTimeLimit=NONE PreemptMode={}", partition.preempt_mode()))
        .line(format!(
            "State={} TotalCPUs={} TotalNodes={} SelectTypeParameters=NONE",
            if partition.up { "UP" } else { "DOWN" },
            partition.cpus,
            partition.nodes
        ))
        .line(format!("JobDefaults={NULL}"))
        .line("DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED")
        .line(format!(
            "TRES=cpu={0},{memory}node={1},billing={0}",
            partition.cpus, partition.nodes
        ));
    record.text(one_line)
}
