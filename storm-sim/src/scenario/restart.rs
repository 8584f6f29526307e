//! A restart of a node manager, drawn at random.

use super::rates::random;
use crate::{Machine, NodeManagerEnd};
use std::time::Duration;
use storm_primitives::{NodeId, Runtime};

/// The pause between two checks whether the last node manager has ended. When it has, the next one
/// starts, as under systemd.
const LOOK_PAUSE: Duration = Duration::from_millis(1);
/// The most checks. Even a node manager that tries to find a manager ends sooner after the request
/// to end.
const LOOKS_MAX: u32 = 20;

/// Ends the node manager of a random node, in one of the three ways. The next one starts within
/// `absence`.
pub(super) fn restart_node_manager(machine: &Machine, absence: Duration) {
    let nodes = machine.config().all_nodes();
    let node = NodeId(1 + machine.random_below(nodes.into()) as u32);
    let ends = [NodeManagerEnd::Killed, NodeManagerEnd::Reset, NodeManagerEnd::Asked];
    let how = ends[machine.random_below(ends.len() as u64) as usize];
    machine.end_node_manager(node, how);
    let (timer, this) = (machine.runtime().sleep(random(machine, absence)), machine.clone());
    let task = machine.runtime().spawn(async move {
        timer.await;
        for _ in 0..LOOKS_MAX {
            if !this.has_node_manager(node) {
                return this.start_node_manager(node);
            }
            this.runtime().sleep(LOOK_PAUSE).await;
        }
    });
    task.detach();
}
