//! The trace of a simulated machine in the JSON format of Chrome and Perfetto. Each group of nodes
//! has a track with the rows as slices. Each job has a track with its stages as slices. Faults are
//! instants.
//!
//! The same run gives the same bytes.

use crate::Fact;
use crate::record::strobe_fact;
use std::collections::BTreeMap;
use std::fmt::Write;
use storm_mm::job::JobEventKind;
use storm_nm::modelled::HostAct;
use storm_primitives::{Instant, NodeId};
use storm_rm::JobId;

/// The most tracks of nodes. With more nodes, several share a track.
const GROUPS: u32 = 32;
/// The most events kept: no viewer opens a larger trace.
const EVENTS: usize = 2_000_000;
/// The process ids of the tracks of jobs and of the tracks of nodes.
const JOBS_PID: u32 = 1;
const NODES_PID: u32 = 2;

/// A trace that grows with the run.
#[derive(Clone, Debug)]
pub struct ChromeTrace {
    nodes: u32,
    group_size: u32,
    /// JSON objects, to be joined by commas.
    events: Vec<String>,
    rows: BTreeMap<u32, (u64, String, Instant)>,
    stages: BTreeMap<JobId, (&'static str, Instant)>,
}

impl ChromeTrace {
    /// An empty trace of a machine of `nodes` nodes.
    pub(crate) fn new(nodes: u32) -> ChromeTrace {
        let group_size = nodes.div_ceil(GROUPS).max(1);
        let mut trace = ChromeTrace {
            nodes,
            group_size,
            events: Vec::new(),
            rows: BTreeMap::new(),
            stages: BTreeMap::new(),
        };
        trace.name("process_name", JOBS_PID, 0, "jobs");
        trace.name("process_name", NODES_PID, 0, "nodes");
        for group in 0..nodes.div_ceil(group_size) {
            let (first, last) = (group * group_size + 1, ((group + 1) * group_size).min(nodes));
            let name =
                if first == last { format!("n{first}") } else { format!("n[{first}-{last}]") };
            trace.name("thread_name", NODES_PID, group, &name);
        }
        trace
    }

    pub(crate) fn note(&mut self, now: Instant, fact: &Fact<'_>) {
        if let Some((node, strobe)) = strobe_fact(fact) {
            let name = format!("row {}", strobe.row.0);
            return self.row(now, node, strobe.number, name);
        }
        match fact {
            Fact::Journal(job, kind) => self.job(now, *job, kind),
            Fact::NodeDown(node) => self.instant(now, *node, "down"),
            Fact::NodeUp(node) => self.instant(now, *node, "up"),
            Fact::NodeBack(node) => self.instant(now, *node, "back"),
            Fact::Inflicted(node, fault) => self.instant(now, *node, &format!("{fault:?}")),
            Fact::NodeManagerDown(node) => self.instant(now, *node, "node manager down"),
            Fact::NodeManagerLate(node) => self.instant(now, *node, "node manager late"),
            Fact::Configured(_) => self.instant(now, NodeId::MM, "configuration edited"),
            Fact::ManagerDown => self.instant(now, NodeId::MM, "manager down"),
            Fact::ManagerUp => self.instant(now, NodeId::MM, "manager up"),
            Fact::Over => self.close(now),
            Fact::Host(node, HostAct::KeeperEnded) => self.instant(now, *node, "keeper ended"),
            Fact::Acknowledged(_) | Fact::Host(..) | Fact::Terminated(_) | Fact::Compared(_) => {}
        }
    }

    /// The whole trace as JSON.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
        json.push_str(&self.events.join(",\n"));
        json.push_str("\n]}\n");
        json
    }

    fn group(&self, node: NodeId) -> u32 {
        node.0.saturating_sub(1).min(self.nodes.saturating_sub(1)) / self.group_size
    }

    /// The first node of a group that obeys a strobe changes the group's row.
    fn row(&mut self, now: Instant, node: NodeId, number: u64, name: String) {
        let group = self.group(node);
        match self.rows.get(&group) {
            Some((known, _, _)) if *known >= number => return,
            _ => {}
        }
        if let Some((_, name, since)) = self.rows.insert(group, (number, name, now)) {
            self.slice(NODES_PID, group.into(), &name, since, now);
        }
    }

    fn job(&mut self, now: Instant, job: JobId, kind: &JobEventKind) {
        let next = match kind {
            JobEventKind::Submitted { spec, .. } => {
                let name = format!("job {job}: {}, {} ranks", spec.name, spec.procs);
                self.name("thread_name", JOBS_PID, job.0 as u32, &name);
                Some("waits")
            }
            JobEventKind::Placed { .. } => Some("is launched"),
            JobEventKind::Started { .. } => Some("runs"),
            JobEventKind::Suspended { .. } => Some("is suspended"),
            JobEventKind::Resumed { .. } => Some("runs"),
            JobEventKind::Ending { .. } => Some("is ended"),
            JobEventKind::Requeued { .. } => Some("waits"),
            JobEventKind::Ended { .. } => None,
            JobEventKind::Ran { .. }
            | JobEventKind::ArraySubmitted { .. }
            | JobEventKind::Held { .. }
            | JobEventKind::Released { .. }
            | JobEventKind::DependencyEnded { .. }
            | JobEventKind::DependencyNoted { .. }
            | JobEventKind::Moved { .. }
            | JobEventKind::OnElements { .. }
            | JobEventKind::PartOver { .. }
            | JobEventKind::FirstOver { .. }
            | JobEventKind::SignalledEarly { .. }
            | JobEventKind::StoppedBy { .. }
            | JobEventKind::ContinuedBy { .. }
            | JobEventKind::Changed { .. }
            | JobEventKind::Step { .. }
            | JobEventKind::UnderPolicy { .. }
            | JobEventKind::InReservation { .. } => return,
        };
        let before = match next {
            Some(stage) => self.stages.insert(job, (stage, now)),
            None => self.stages.remove(&job),
        };
        if let Some((stage, since)) = before {
            self.slice(JOBS_PID, job.0, stage, since, now);
        }
    }

    /// Ends every open slice at `now`.
    pub(crate) fn close(&mut self, now: Instant) {
        for (job, (stage, since)) in std::mem::take(&mut self.stages) {
            self.slice(JOBS_PID, job.0, stage, since, now);
        }
        for (group, (_, name, since)) in std::mem::take(&mut self.rows) {
            self.slice(NODES_PID, group.into(), &name, since, now);
        }
    }

    fn slice(&mut self, pid: u32, tid: u64, name: &str, from: Instant, to: Instant) {
        let (ts, dur) = (micros(from.as_nanos()), micros((to - from).as_nanos() as u64));
        let name = quoted(name);
        self.push(format!(
            "{{\"name\":{name},\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur}}}"
        ));
    }

    fn instant(&mut self, now: Instant, node: NodeId, what: &str) {
        let (tid, ts) = (self.group(node), micros(now.as_nanos()));
        let name = quoted(&format!("n{} {what}", node.0));
        self.push(format!(
            "{{\"name\":{name},\"ph\":\"i\",\"s\":\"t\",\"pid\":{NODES_PID},\"tid\":{tid},\"ts\":{ts}}}"
        ));
    }

    fn name(&mut self, kind: &str, pid: u32, tid: u32, name: &str) {
        let name = quoted(name);
        self.push(format!(
            "{{\"name\":\"{kind}\",\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":{name}}}}}"
        ));
    }

    fn push(&mut self, event: String) {
        if self.events.len() < EVENTS {
            self.events.push(event);
        }
    }
}

/// Microseconds, with the nanoseconds as decimals.
fn micros(ns: u64) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(text, "{}.{:03}", ns / 1000, ns % 1000);
    text
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_nm::modelled::HostAct;
    use storm_rm::message::Strobe;
    use storm_rm::{PartitionId, Row};

    #[test]
    fn rows_become_slices_of_the_group_and_the_json_is_json() {
        let mut trace = ChromeTrace::new(64);
        for (number, row, at) in [(1, 0, 1_000), (2, 1, 3_500)] {
            let strobe = Strobe { partition: PartitionId(0), row: Row(row), number, issued_ns: 0 };
            let act = HostAct::Strobe(strobe);
            trace.note(Instant::from_nanos(at), &Fact::Host(NodeId(3), &act));
            trace.note(Instant::from_nanos(at + 10), &Fact::Host(NodeId(4), &act));
        }
        trace.note(Instant::from_nanos(9_000), &Fact::Over);
        let json: serde_json::Value = serde_json::from_str(&trace.to_json()).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        let slices: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(slices.len(), 2);
        assert_eq!(slices[0]["name"], "row 0");
        assert_eq!((slices[0]["ts"].as_f64(), slices[0]["dur"].as_f64()), (Some(1.0), Some(2.5)));
        assert_eq!(slices[1]["dur"].as_f64(), Some(5.5));
    }
}
