//! `scontrol show node`.

use super::record::{NULL, Record};
use crate::view::{NodeFacts, Show};

/// The record of a node.
pub fn node(node: &NodeFacts, show: &Show, one_line: bool) -> String {
    let mut record = Record::default();
    let features = match node.features.is_empty() {
        true => NULL.to_owned(),
        false => node.features.join(","),
    };
    let load = node.load_percent.map_or_else(
        || "N/A".to_owned(),
        |percent| format!("{}.{:02}", percent / 100, percent % 100),
    );
    let number = |number: Option<u64>| number.map_or_else(|| "N/A".to_owned(), |n| n.to_string());
    let version = node.version.as_ref().map_or_else(String::new, |v| format!(" Version={v}"));
    record
        .line(format!("NodeName={} CoresPerSocket=1 ", node.name))
        .line(format!(
            "CPUAlloc={} CPUEfctv={1} CPUTot={1} CPULoad={load}",
            node.cpus_used, node.cpus
        ))
        .line(format!("AvailableFeatures={features}"))
        .line(format!("ActiveFeatures={features}"))
        .line(format!("Gres={}", node.gres.as_deref().unwrap_or(NULL)))
        .line(format!(
            "NodeAddr={} NodeHostName={}{version}",
            node.address.as_deref().unwrap_or(&node.name),
            node.hostname.as_deref().unwrap_or(&node.name)
        ))
        .line(format!(
            "RealMemory={} AllocMem={} FreeMem={} Sockets={} Boards=1",
            node.memory_mib.unwrap_or(1),
            node.memory_held_mib,
            number(node.free_mib),
            node.cpus
        ))
        .line(format!(
            "State={} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
            node.state_complete().to_uppercase()
        ))
        .line(format!("Partitions={} ", node.partitions.join(",")))
        .line("BootTime=None SlurmdStartTime=None")
        .line("LastBusyTime=Unknown")
        .line(format!(
            "CfgTRES=cpu={0},mem={1}M,billing={0}",
            node.cpus,
            node.memory_mib.unwrap_or(1)
        ))
        .line(format!("AllocTRES={}", allocated(node)))
        .line("CapWatts=n/a")
        .line("CurrentWatts=0 AveWatts=0")
        .line("ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s");
    if let Some(reason) = &node.reason {
        let by = node.reason_by.as_ref();
        let by = by.map(|(user, _, at)| format!(" [{user}@{}]", show.time(*at)));
        record.line(format!("Reason={reason}{}", by.unwrap_or_default()));
    }
    record.text(one_line)
}

fn allocated(node: &NodeFacts) -> String {
    match (node.cpus_used, node.memory_held_mib) {
        (0, 0) => String::new(),
        (cpus, 0) => format!("cpu={cpus}"),
        (cpus, mib) => format!("cpu={cpus},mem={mib}M"),
    }
}
