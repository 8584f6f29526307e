//! A launch on a cluster whose nodes are processes of one host.

use super::launch::gathered;
use super::{Launch, Part, Question};
use crate::equations::eq1_launch_ms;
use crate::{Limit, SharedHost};

pub(super) fn launch(network: &SharedHost, question: &Question) -> Launch {
    let sends = question.size.get() > 0.0;
    let (manager_ms, nodes_ms) = if sends {
        let nodes_ms = network.nodes_ms(question.nodes, question.size);
        (network.manager_ms(question.size), nodes_ms)
    } else {
        (0.0, 0.0)
    };
    let transfer_ms = manager_ms + nodes_ms;
    let exec_ms = network.exec_ms(question.processes());
    let read_ms = transfer_ms * network.read_share.value;
    let write_ms = transfer_ms * network.write_share.value;
    Launch {
        read_ms,
        send_ms: transfer_ms - read_ms - write_ms,
        write_ms,
        transfer_ms,
        exec_ms,
        // A slice begins at once while no row is shared.
        slice_ms: 0.0,
        total_ms: eq1_launch_ms(transfer_ms, exec_ms, 0.0),
        parts: gathered([
            Part { limit: Limit::Read, time_ms: manager_ms },
            Part { limit: Limit::Processors, time_ms: nodes_ms },
            Part { limit: Limit::Exec, time_ms: exec_ms },
        ]),
    }
}
