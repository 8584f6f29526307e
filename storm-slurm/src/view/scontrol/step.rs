//! `scontrol show step`.

use super::record::{NULL, Record};
use crate::view::{Show, StepFacts};

/// The record of a step.
pub fn step(step: &StepFacts, show: &Show, one_line: bool) -> String {
    let mut record = Record::default();
    let start = step.start.map_or_else(|| "Unknown".to_owned(), |time| show.time(time));
    let is_batch = step.id == "batch";
    let tres = match is_batch {
        true => NULL.to_owned(),
        false => format!("cpu={},mem=0,node={}", step.cpus, step.nodes),
    };
    record
        .line(format!(
            "StepId={}.{} UserId={} StartTime={start} TimeLimit=UNLIMITED",
            step.job.job_id(show),
            step.id,
            step.job.uid
        ))
        .line(format!(
            "State={} Partition={} NodeList={}",
            step.state, step.job.partition, step.node_list
        ))
        .line(format!(
            "Nodes={} CPUs={} Tasks={} Name={} Network={NULL}",
            step.nodes,
            if is_batch { 0 } else { step.cpus },
            step.tasks,
            step.name
        ))
        .line(format!("TRES={tres}"))
        .line(format!("ResvPorts={NULL}"))
        .line(if is_batch { "CPUFreqReq=Default" } else { "CPUFreqReq=Default Dist=Block" })
        .line(format!("SrunHost:Pid={NULL}:0"));
    record.text(one_line)
}
