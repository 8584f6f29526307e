//! A launch on a cluster with all nodes as processes of one host.

use super::launch::gathered;
use super::{Launch, Part, Question};
use crate::equations::eq1_launch_ms;
use crate::{Limit, SharedHost};

pub(super) fn launch(network: &SharedHost, question: &Question) -> Launch {
    let messages_ms = network.messages_ms(question.nodes);
    let bytes_ms = network.bytes_ms(question.nodes, question.size);
    let manager_ms = network.manager_ms(question.size);
    let transfer_ms = messages_ms + manager_ms + bytes_ms;
    let exec_ms = network.exec_ms(question.processes());
    // The check whether the nodes have the program counts as neither reading nor writing.
    let sent_ms = if question.size.get() > 0.0 { transfer_ms } else { 0.0 };
    let read_ms = sent_ms * network.read_share.value;
    let write_ms = sent_ms * network.write_share.value;
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
            Part { limit: Limit::Latency, time_ms: messages_ms },
            Part { limit: Limit::Read, time_ms: manager_ms },
            Part { limit: Limit::Processors, time_ms: bytes_ms },
            Part { limit: Limit::Exec, time_ms: exec_ms },
        ]),
    }
}
