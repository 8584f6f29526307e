//! The nodes as users see them.

use super::Core;
use super::node_table::Going;
use super::node_table::NodeEntry;
use crate::api::{NodeState, NodeView};
use storm_primitives::{Instant, NodeId};
use storm_rm::{JobId, Memory, Resources};

/// The part of a node that jobs hold.
struct HeldPart {
    /// All jobs with ranks there.
    jobs: Vec<JobId>,
    /// Elements of the jobs that are not suspended.
    pes: u32,
    memory_bytes: u64,
}

impl Core {
    /// All nodes in order of their number.
    pub fn list_nodes(&self, now: Instant) -> Vec<NodeView> {
        self.nodes.iter().map(|(id, entry)| self.node_view(now, id, entry)).collect()
    }

    fn node_view(&self, now: Instant, id: NodeId, entry: &NodeEntry) -> NodeView {
        let held = self.held_part(id, entry);
        let reservation = self.reservation_on(now, &entry.name);
        let (state, reason) = match self.nodes.up().contains(id) {
            true => self.state_of_present(id, entry, &held, reservation.as_deref()),
            false => self.state_of_absent(id, entry, &held.jobs),
        };
        let members = self.partitions.iter().filter(|partition| partition.nodes().contains(id));
        let info = entry.info.as_ref();
        NodeView {
            id,
            name: entry.name.clone(),
            state,
            reason,
            reservation,
            partitions: members.map(|partition| partition.name().to_owned()).collect(),
            pes: entry.pes,
            pes_used: held.pes,
            features: entry.features.clone(),
            memory_bytes: entry.memory_bytes,
            memory_held_bytes: held.memory_bytes,
            jobs: held.jobs,
            hostname: info.map(|info| info.hostname.clone()),
            address: info.map(|info| info.address.clone()),
            memory_mib: info.map(|info| info.memory_mib),
            memory_available_mib: entry.status.as_ref().map(|s| s.memory_available_mib),
            load_percent: entry.status.as_ref().map(|status| status.load_percent),
            version: info.map(|info| info.version.clone()),
            capabilities: info.map_or_else(Vec::new, |info| info.capabilities.clone()),
        }
    }

    fn held_part(&self, id: NodeId, entry: &NodeEntry) -> HeldPart {
        let on_node = |job: &JobId| {
            let record = self.jobs.get(job)?;
            let share = record.ranks.iter().find(|share| share.node == id)?;
            Some((&record.spec.resources, share.count))
        };
        let jobs: Vec<JobId> =
            self.live.iter().map(|(job, _)| job).filter(|j| on_node(j).is_some()).collect();
        let pes_of = |(asked, ranks): (&Resources, u32)| match asked.exclusive {
            true => entry.pes,
            false => ranks.saturating_mul(asked.cpus_per_task),
        };
        // Suspended jobs keep only their memory.
        let at_work = jobs.iter().filter(|job| !self.is_suspended(**job)).filter_map(on_node);
        let pes = at_work.map(pes_of).fold(0, u32::saturating_add).min(entry.pes);
        let bytes_of = |(asked, ranks): (&Resources, u32)| match asked.memory {
            Memory::WholeNode => entry.memory_bytes.unwrap_or(0),
            Memory::Unstated | Memory::PerNode(_) | Memory::PerCpu(_) => {
                asked.memory_limit_bytes(ranks).unwrap_or(0)
            }
        };
        let bytes = jobs.iter().filter_map(on_node).map(bytes_of);
        let memory_bytes = bytes.fold(0, u64::saturating_add);
        HeldPart { jobs, pes, memory_bytes }
    }

    /// The state of a node that is up, and the reason for that state.
    fn state_of_present(
        &self,
        id: NodeId,
        entry: &NodeEntry,
        held: &HeldPart,
        reservation: Option<&str>,
    ) -> (NodeState, Option<String>) {
        let closed = self.why_closed(id);
        let state = match closed.is_some() {
            true if held.jobs.is_empty() => NodeState::Drained,
            true => NodeState::Draining,
            false if held.pes == 0 && reservation.is_some() => NodeState::Reserved,
            false if held.pes == 0 => NodeState::Idle,
            false if held.pes < entry.pes => NodeState::Mixed,
            false => NodeState::Allocated,
        };
        let reserved = || Some(format!("reserved for {}", reservation?));
        (state, closed.or_else(reserved))
    }

    /// The state of a node that is not up, and the reason for that state.
    fn state_of_absent(
        &self,
        id: NodeId,
        entry: &NodeEntry,
        jobs: &[JobId],
    ) -> (NodeState, Option<String>) {
        let awaited = |job: &JobId| {
            self.live
                .get(*job)
                .is_some_and(|live| live.is_recovering() && live.unheard().contains(id))
        };
        let (state, why) = match (entry.seen, entry.going) {
            (false, _) => (NodeState::Unknown, "it has not joined yet"),
            (true, Going::ProcessEnded) if jobs.iter().any(awaited) => {
                (NodeState::Down, "its Node Manager has ended, and its jobs wait for the next one")
            }
            (true, Going::ProcessEnded) => (NodeState::Down, "its Node Manager has ended"),
            (true, Going::Lost | Going::LinkClosed) => (NodeState::Down, "it died or was cut off"),
        };
        let absent = || absent(why, entry.drained.as_ref());
        (state, Some(entry.refused.clone().unwrap_or_else(absent)))
    }
}

/// Why a node is not up, and why it will take no job when it is.
fn absent(why: &str, drained: Option<&String>) -> String {
    match drained {
        Some(reason) => format!("{why}; drained: {reason}"),
        None => why.to_owned(),
    }
}
