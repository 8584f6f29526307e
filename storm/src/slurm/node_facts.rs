//! Nodes, partitions and reservations of the client API as the facts that Slurm's commands print.

use storm_mm::api::{NodeState, NodeView, PartitionView, ReservationView};
use storm_slurm::view::scontrol::ReservationFacts;
use storm_slurm::view::{NodeBase, NodeFacts, PartitionFacts};

const MEBIBYTE: u64 = 1 << 20;

pub(super) fn node_facts(view: &NodeView) -> NodeFacts {
    let busy = match (view.pes_used, view.pes) {
        (0, _) => NodeBase::Idle,
        (used, all) if used < all => NodeBase::Mixed,
        _ => NodeBase::Allocated,
    };
    let base = match view.state {
        NodeState::Idle | NodeState::Reserved | NodeState::Drained => NodeBase::Idle,
        NodeState::Mixed => NodeBase::Mixed,
        NodeState::Allocated => NodeBase::Allocated,
        NodeState::Draining => busy,
        NodeState::Down => NodeBase::Down,
        NodeState::Unknown => NodeBase::Unknown,
    };
    let responds = !matches!(view.state, NodeState::Down | NodeState::Unknown);
    let closed = matches!(view.state, NodeState::Draining | NodeState::Drained);
    NodeFacts {
        name: view.name.clone(),
        address: view.address.clone(),
        hostname: view.hostname.clone(),
        partitions: view.partitions.clone(),
        base,
        drained: closed,
        reserved: view.state == NodeState::Reserved,
        responds,
        // The reason of a node that takes jobs is that of its reservation, which Slurm tells apart.
        reason: view.reason.clone().filter(|_| closed || !responds),
        reason_by: None,
        cpus: view.pes,
        cpus_used: view.pes_used,
        memory_mib: view.memory_bytes.map(|bytes| bytes / MEBIBYTE).or(view.memory_mib),
        memory_held_mib: view.memory_held_bytes / MEBIBYTE,
        free_mib: view.memory_available_mib,
        load_percent: view.load_percent,
        features: view.features.clone(),
        gres: None,
        version: view.version.clone(),
    }
}

pub(super) fn partition_facts(view: &PartitionView, nodes: &[NodeView]) -> PartitionFacts {
    let members = nodes.iter().filter(|node| node.partitions.contains(&view.name));
    let memory = members.map(|node| node_facts(node).memory_mib).sum::<Option<u64>>();
    let slices = view.quantum_us.is_some();
    PartitionFacts {
        name: view.name.clone(),
        default: view.default,
        up: true,
        node_list: view.node_list.clone(),
        nodes: view.nodes,
        cpus: view.pes,
        memory_mib: memory,
        max_time_s: None,
        default_time_s: None,
        job_nodes: (0, None),
        rows: if slices { view.rows_max } else { 1 },
        slices,
        accounts: Vec::new(),
        groups: Vec::new(),
    }
}

pub(super) fn reservation_facts(view: &ReservationView) -> ReservationFacts {
    ReservationFacts {
        name: view.name.clone(),
        start: view.start,
        end: view.end,
        node_list: view.node_list.clone(),
        nodes: view.nodes,
        cpus: view.pes,
        partition: Some(view.partition.clone()),
        users: view.users.clone(),
        active: view.active,
    }
}
