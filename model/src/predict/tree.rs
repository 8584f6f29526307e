//! A launch over a k-ary tree of messages: a pipeline of chunks.
//!
//! The first chunk is read, passes through all levels and is written. Each further chunk follows
//! after the time of the slowest stage. Every node sends a chunk once to each of its children and
//! receives while it sends.

use super::launch::gathered;
use super::{Launch, Part, Question};
use crate::equations::eq1_launch_ms;
use crate::profile::bandwidth;
use crate::{FanOut, Limit, Mib, Profile, Sourced, Tree, tree_depth};

/// The manager's questions about free slots per round of slots
/// (`docs/decisions/0002-remote-queue.md`).
const QUESTIONS_PER_ROUND: f64 = 4.0;

/// The cost of one chunk, in ms.
struct ChunkTimes {
    read: f64,
    /// Sending to all children, which is also a level of the tree.
    forward: f64,
    /// The part of `forward` that does not depend on the length.
    messages: f64,
    write: f64,
    /// The time until the master knows that all nodes have the chunk.
    round: f64,
}

pub(super) fn launch(
    profile: &Profile,
    network: &Tree,
    question: &Question,
    fan_out: FanOut,
) -> Launch {
    let (host, nodes) = (&profile.host, question.nodes);
    let mut parts = Vec::new();
    let (mut send_ms, mut transfer_ms) = (0.0, 0.0);
    let conditional_ms = network.conditional_us(nodes, fan_out) / 1e3;
    if question.size.get() > 0.0 {
        let chunk = Mib::from_bytes(1).get() * question.chunk_bytes_on(profile);
        let first = Mib(chunk.min(question.size.get()));
        let first_times = ChunkTimes::of(profile, network, question, fan_out, first);
        let times = ChunkTimes::of(profile, network, question, fan_out, Mib(chunk));
        let levels = tree_depth(nodes, fan_out) as f64;
        let further = (question.size.get() / chunk - 1.0).max(0.0);
        let (slowest, period_ms) = times.slowest(profile);
        let steady_ms = further * period_ms;
        send_ms = levels * first_times.forward + steady_ms;
        transfer_ms = first_times.read + send_ms + first_times.write + conditional_ms;
        let bytes_ms = levels * (first_times.forward - first_times.messages);
        parts.extend([
            Part { limit: Limit::Read, time_ms: first_times.read },
            Part { limit: Limit::Latency, time_ms: levels * first_times.messages + conditional_ms },
            Part { limit: Limit::Bandwidth, time_ms: bytes_ms },
            Part { limit: slowest, time_ms: steady_ms },
            Part { limit: Limit::Write, time_ms: first_times.write },
        ]);
    }
    // LAUNCH-JOB is sent down, and the reports that all ranks execute are sent up.
    let messages_ms = network.sweep_us(nodes, fan_out) / 1e3 + conditional_ms;
    let spawn_ms = f64::from(question.processes_per_node) * host.spawn_us.value / 1e3;
    let start_ms = host.exec_ms.value + spawn_ms;
    let slice_ms = host.timeslice_ms.value;
    parts.extend([
        Part { limit: Limit::Latency, time_ms: messages_ms },
        Part { limit: Limit::Exec, time_ms: start_ms },
        Part { limit: Limit::Slice, time_ms: slice_ms },
    ]);
    let exec_ms = messages_ms + start_ms;
    Launch {
        read_ms: time_ms(&host.read_mib_s, question.size),
        send_ms,
        write_ms: time_ms(&host.write_mib_s, question.size),
        transfer_ms,
        exec_ms,
        slice_ms,
        total_ms: eq1_launch_ms(transfer_ms, exec_ms, slice_ms),
        parts: gathered(parts),
    }
}

impl ChunkTimes {
    fn of(
        profile: &Profile,
        network: &Tree,
        question: &Question,
        fan_out: FanOut,
        chunk: Mib,
    ) -> ChunkTimes {
        let nodes = question.nodes;
        let wire_ms = network.bandwidth().time_ms(chunk);
        let forward = network.forward_us(nodes, fan_out, wire_ms) / 1e3 + network.hop_us() / 1e3;
        let messages = network.forward_us(nodes, fan_out, 0.0) / 1e3 + network.hop_us() / 1e3;
        let write = time_ms(&profile.host.write_mib_s, chunk);
        let levels = tree_depth(nodes, fan_out) as f64;
        let conditional_ms = network.conditional_us(nodes, fan_out) / 1e3;
        ChunkTimes {
            read: time_ms(&profile.host.read_mib_s, chunk),
            forward,
            messages,
            write,
            round: levels * forward + conditional_ms,
        }
    }

    /// The stage that limits the pipeline, and its time per chunk in ms.
    fn slowest(&self, profile: &Profile) -> (Limit, f64) {
        let send = if self.messages > self.forward - self.messages {
            Limit::Latency
        } else {
            Limit::Bandwidth
        };
        // The master asks four times in each round of slots whether chunks have arrived. The
        // questions travel behind chunks, and never concern the newest ones.
        let all = profile.protocol.chunk_slots.value;
        let fresh = (all / QUESTIONS_PER_ROUND).floor().max(1.0);
        let slots = (self.round + (fresh - 1.0) * self.forward) / (all - fresh).max(1.0);
        let others = [(Limit::Read, self.read), (Limit::Write, self.write), (Limit::Slots, slots)];
        others.into_iter().fold((send, self.forward), |slowest, stage| {
            if stage.1 > slowest.1 { stage } else { slowest }
        })
    }
}

fn time_ms(rate: &Option<Sourced>, size: Mib) -> f64 {
    rate.as_ref().map_or(0.0, |rate| bandwidth(rate).time_ms(size))
}
