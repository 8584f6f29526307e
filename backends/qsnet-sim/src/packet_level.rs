//! A transfer on QsNet packet by packet, switch by switch (paper, section 4.4.2).
//!
//! The source injects a packet. Its header runs up to the top of the tree and down every branch.
//! Each destination sends the acknowledgement token as soon as it has seen the header. Each switch
//! passes the token on when all of its branches have returned theirs. The source injects the next
//! packet when it has sent this packet completely and the token is back.
//!
//! The walk costs a step for every switch and packet. [`Broadcast`](crate::Broadcast) computes the
//! same times with a formula; tests compare the results.

use crate::FatTree;
use crate::fat_tree::ARITY;

/// The times of a transfer that started at 0, in ps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The number of packets.
    pub packets: u64,
    /// When the source can inject another transfer's packets.
    pub source_free_ps: u64,
    /// When the last byte is at the last node.
    pub last_arrival_ps: u64,
}

/// The walk of one transfer after the other.
#[derive(Clone, Debug)]
pub struct PacketLevel {
    tree: FatTree,
    /// The cable of each hop of the longest path, from the source on, in ps.
    hops_ps: Vec<u64>,
}

impl PacketLevel {
    /// The transfers on this tree, from a source at its edge to all of its nodes.
    pub fn new(tree: FatTree) -> PacketLevel {
        let hops = u64::from(tree.switches()) + 1;
        let (share, rest) = (tree.cable_ps() / hops, tree.cable_ps() % hops);
        let hops_ps = (0..hops).map(|hop| share + u64::from(hop < rest)).collect();
        PacketLevel { tree, hops_ps }
    }

    /// Sends `bytes`. Zero bytes are a signal.
    pub fn send(&self, bytes: u64) -> Delivery {
        let (mut left, mut at_ps, mut packets, mut last_arrival_ps) = (bytes, 0, 0, 0);
        loop {
            let (arrival_ps, token_ps) = self.packet(at_ps);
            packets += 1;
            last_arrival_ps = arrival_ps.max(last_arrival_ps);
            let next_ps = token_ps.max(at_ps + self.tree.packet_ps());
            left = left.saturating_sub(self.tree.packet_bytes());
            if left == 0 {
                return Delivery { packets, source_free_ps: next_ps, last_arrival_ps };
            }
            at_ps = next_ps;
        }
    }

    /// Walks one packet that leaves at `at_ps`. Returns when its last byte is at the last node, and
    /// when the token is back at the source.
    fn packet(&self, at_ps: u64) -> (u64, u64) {
        let climb = self.tree.stages() as usize;
        let up_ps: u64 = self.hops_ps[..climb].iter().sum();
        let switches_up = climb as u64 - 1;
        let top_ps = at_ps + up_ps + switches_up * self.tree.switch_forward_ps();
        let mut last_header_ps = 0;
        let first = 0..self.tree.nodes();
        let token_ps = self.branch(climb, top_ps, first, &mut last_header_ps);
        let back_ps = up_ps + switches_up * self.tree.switch_back_ps();
        (last_header_ps + self.tree.packet_ps(), token_ps + back_ps)
    }

    /// Walks a header from the input of a switch of a level, above a range of nodes. Returns when
    /// the token of all of them leaves the switch upwards.
    fn branch(
        &self,
        level: usize,
        at_ps: u64,
        nodes: std::ops::Range<u64>,
        last_header_ps: &mut u64,
    ) -> u64 {
        let out_ps = at_ps + self.tree.switch_forward_ps();
        let hop_ps = self.hops_ps[self.hops_ps.len() - level];
        let width = ARITY.pow(level as u32 - 1) as usize;
        let mut token_ps = 0;
        for start in nodes.clone().step_by(width) {
            let below = start..nodes.end.min(start + width as u64);
            let header_ps = out_ps + hop_ps;
            let token_leaves_ps = if level == 1 {
                *last_header_ps = header_ps.max(*last_header_ps);
                header_ps + self.tree.base_ps()
            } else {
                self.branch(level - 1, header_ps, below, last_header_ps)
            };
            token_ps = token_ps.max(token_leaves_ps + hop_ps);
        }
        token_ps + self.tree.switch_back_ps()
    }
}
