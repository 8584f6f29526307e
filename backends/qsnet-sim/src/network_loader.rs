//! The sending program of section 4.2.2. Every processor runs a process that exchanges messages
//! with a partner on another node. One message is always on its way in each direction.
//!
//! The daemons are slower for three reasons.
//!
//! - A NIC carries out the transfers of its node one after the other. A daemon's transfer, even a
//!   small one, waits for a message of every process; the first of these messages is partly sent.
//!   It also waits for earlier transfers of daemons.
//! - A node's I/O bus carries incoming and outgoing data, in turns of a packet. A message gets half
//!   of the bus, because another message is arriving.
//! - A packet of a multicast needs its turn on the source's bus. As the network is
//!   circuit-switched, it then needs turns on the buses of all its destinations. The destination
//!   with the most incoming messages is the last.
//!
//! Not modelled: switches, which are faster than the buses, and the pairing of partners.

use crate::host_model::time_at;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use storm_primitives::sim::Random;
use storm_primitives::{Instant, NodeId};

/// Outgoing and incoming data: each gets half of the bus.
const DIRECTIONS: f64 = 2.0;

/// The sending processes of all nodes, and the queues of their NICs.
#[derive(Debug)]
pub struct NetworkLoader {
    /// Processes of a node.
    processes: u32,
    /// How long a NIC needs for one message.
    message: Duration,
    /// A packet's turn on a bus.
    turn: Duration,
    /// Transfers of the daemons that each NIC has not finished: start and end.
    nics: RefCell<HashMap<NodeId, VecDeque<(Instant, Instant)>>>,
}

impl NetworkLoader {
    /// Makes a load of `processes` processes on each node with messages of `message_bytes`. A
    /// host's bus carries `bus_mib_s` in packets of `packet_bytes`.
    pub fn new(
        processes: u32,
        message_bytes: u64,
        bus_mib_s: f64,
        packet_bytes: u64,
    ) -> NetworkLoader {
        NetworkLoader {
            processes: processes.max(1),
            message: time_at(Some(bus_mib_s / DIRECTIONS), message_bytes),
            turn: time_at(Some(bus_mib_s), packet_bytes),
            nics: RefCell::default(),
        }
    }

    /// The time when the NIC of a node begins a transfer that is ordered now and takes `takes`.
    pub fn begins(
        &self,
        node: NodeId,
        now: Instant,
        takes: Duration,
        random: &Random<'_>,
    ) -> Instant {
        let mut nics = self.nics.borrow_mut();
        let ordered = nics.entry(node).or_default();
        while ordered.front().is_some_and(|(_, until)| *until <= now) {
            ordered.pop_front();
        }
        let daemons: Duration = ordered.iter().map(|(from, until)| *until - (*from).max(now)).sum();
        let messages = self.message.mul_f64(f64::from(self.processes) - random.unit());
        let last = ordered.back().map_or(now, |(_, until)| *until);
        let begin = (now + messages + daemons).max(last);
        ordered.push_back((begin, begin + takes));
        begin
    }

    /// The time from one packet to the next of a transfer to `nodes` nodes.
    pub fn packet_gap(&self, nodes: u32) -> Duration {
        let at_source = 1.0 + self.most_coming(1);
        let leaving = 1.0;
        let at_destination = 1.0 + leaving + self.most_coming(nodes);
        self.turn.mul_f64(at_source + at_destination)
    }

    /// The mean, over time, of the largest number of incoming messages at any of `nodes` nodes.
    /// Each of a node's n processes has one partner. The partner's NIC sends to it for 1/n of the
    /// time.
    fn most_coming(&self, nodes: u32) -> f64 {
        if nodes == 1 {
            return 1.0;
        }
        let (partners, part) = (self.processes, 1.0 / f64::from(self.processes));
        let exactly = |count: u32| {
            let ways = (0..count)
                .fold(1.0, |ways, taken| ways * f64::from(partners - taken) / f64::from(taken + 1));
            ways * part.powf(f64::from(count)) * (1.0 - part).powf(f64::from(partners - count))
        };
        let mut up_to = 0.0;
        let mut mean = 0.0;
        for count in 0..partners {
            up_to += exactly(count);
            // The largest number is at least one more than at this node, unless no node has more.
            mean += 1.0 - up_to.min(1.0).powf(f64::from(nodes));
        }
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_primitives::sim::Simulation;

    const MIB: u64 = 1 << 20;

    fn loader() -> NetworkLoader {
        NetworkLoader::new(4, MIB, 200.0, 320)
    }

    #[test]
    fn a_transfer_waits_for_a_message_of_every_process_and_for_earlier_transfers() {
        let (loader, runtime) = (loader(), Simulation::new(1).runtime());
        let (node, now, takes) = (NodeId(1), Instant::ORIGIN, Duration::from_millis(7));
        // A MiB takes 10 ms at half of the bus.
        let first = loader.begins(node, now, takes, &runtime.random()) - now;
        assert!(Duration::from_millis(30) <= first && first <= Duration::from_millis(40));
        let second = loader.begins(node, now, takes, &runtime.random()) - now;
        assert!(Duration::from_millis(37) <= second && second <= Duration::from_millis(47));
        assert!(second >= first + takes, "in order");
        let other = loader.begins(NodeId(2), now, takes, &runtime.random()) - now;
        assert!(other <= Duration::from_millis(40), "another NIC");
        let later = now + Duration::from_secs(1);
        let again = loader.begins(node, later, takes, &runtime.random()) - later;
        assert!(again <= Duration::from_millis(40), "what is done holds up nobody");
    }

    #[test]
    fn more_destinations_make_packets_slower_up_to_a_limit() {
        let loader = loader();
        let gaps: Vec<Duration> = [1, 2, 64, 1 << 16].map(|n| loader.packet_gap(n)).into();
        assert!(gaps.is_sorted(), "{gaps:?}");
        // Four incoming messages and one outgoing use every bus.
        let most = loader.turn.mul_f64(2.0 + 2.0 + 4.0);
        assert!(gaps[3] <= most && gaps[3] > most.mul_f64(0.99), "{gaps:?} {most:?}");
    }
}
