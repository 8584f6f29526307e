//! Graphs of processes (MPI-4.1, section 8.5.4): the senders and receivers of each process. Weights
//! are only kept for the program, because ranks are never reordered.

/// An edge of one member: the member at its other end, and its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The other member's place.
    pub member: usize,
    /// The weight that the program gave the edge; 1 without one.
    pub weight: i32,
}

/// The edges of one member, each in the order in which the program named them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Members that this member receives from.
    pub sources: Vec<Link>,
    /// Members that this member sends to.
    pub destinations: Vec<Link>,
    /// Whether the program gave weights.
    pub is_weighted: bool,
}

/// An edge that some member has named. The edge may be another member's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The place of the member that sends.
    pub from: u32,
    /// The place of the member that receives.
    pub to: u32,
    /// Weight as in [`Link`].
    pub weight: i32,
}

impl Edge {
    /// Bytes of [`Edge::encode`].
    pub const BYTES: usize = 12;

    /// The edge in the form that other members get: from, to, weight.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.from.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.to.to_le_bytes());
        bytes[8..].copy_from_slice(&self.weight.to_le_bytes());
        bytes
    }

    /// The edge whose [`Edge::encode`] gave these bytes.
    pub fn decode(bytes: [u8; Self::BYTES]) -> Self {
        let [f0, f1, f2, f3, t0, t1, t2, t3, weight @ ..] = bytes;
        let from = u32::from_le_bytes([f0, f1, f2, f3]);
        let to = u32::from_le_bytes([t0, t1, t2, t3]);
        Edge { from, to, weight: i32::from_le_bytes(weight) }
    }
}

impl Graph {
    /// The edges of one member among those of all, in this order.
    pub fn of_edges(edges: &[Edge], me: usize, is_weighted: bool) -> Self {
        let mut graph = Graph { is_weighted, ..Graph::default() };
        for &Edge { from, to, weight } in edges {
            let (from, to) = (from as usize, to as usize);
            if to == me {
                graph.sources.push(Link { member: from, weight });
            }
            if from == me {
                graph.destinations.push(Link { member: to, weight });
            }
        }
        graph
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_the_edges_that_end_or_begin_there() {
        let edge = |from, to, weight| Edge { from, to, weight };
        let edges =
            [edge(0, 1, 5), edge(2, 1, -3), edge(1, 1, 7), edge(0, 1, 6), edge(1, 0, i32::MIN)];
        for edge in edges {
            assert_eq!(Edge::decode(edge.encode()), edge);
        }
        let link = |member, weight| Link { member, weight };
        let graph = Graph::of_edges(&edges, 1, true);
        assert_eq!(graph.sources, [link(0, 5), link(2, -3), link(1, 7), link(0, 6)]);
        assert_eq!(graph.destinations, [link(1, 7), link(0, i32::MIN)]);
        assert_eq!(Graph::of_edges(&edges, 3, false), Graph::default());
    }
}
