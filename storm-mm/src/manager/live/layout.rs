//! Where in its place a step's processes run: a pure function of the room on the nodes.

use std::cmp::Reverse;
use storm_primitives::{NodeId, NodeSet};
use storm_rm::StepSize;

/// A [`StepLayout`](storm_rm::StepLayout) with nodes of the place in the place of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::manager) struct Layout {
    pub(in crate::manager) per_node: Option<u32>,
    pub(in crate::manager) overcommit: bool,
    pub(in crate::manager) required: NodeSet,
    pub(in crate::manager) excluded: NodeSet,
}

/// A node of the place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seats {
    /// Its index in the place.
    pub(super) at: usize,
    pub(super) node: NodeId,
    /// The most processes that have elements and memory of their own.
    pub(super) room: u32,
    /// The most processes that the node starts, if they share elements.
    pub(super) most: u32,
}

/// A node that takes part, with its processes so far.
struct Share {
    seats: Seats,
    required: bool,
    count: u32,
}

impl Layout {
    /// How many processes each node gets, by its index. Nodes are filled in the order of the place.
    /// A step that asks for a number of nodes gets the required and then the roomiest ones, and is
    /// spread evenly over them, as Slurm does. `None` if the step does not fit.
    pub(super) fn distribution(
        &self,
        size: &StepSize,
        seats: impl Iterator<Item = Seats>,
    ) -> Option<Vec<(usize, u32)>> {
        let mut shares = self.candidates(seats);
        let required = shares.iter().filter(|share| share.required).count();
        if required < self.required.len() {
            return None;
        }
        if let Some(nodes) = size.nodes {
            let nodes = nodes as usize;
            if shares.len() < nodes || required > nodes {
                return None;
            }
            let of = |share: &Share| (!share.required, Reverse(share.seats.room), share.seats.at);
            shares.sort_by_key(of);
            shares.truncate(nodes);
            shares.sort_by_key(|share| share.seats.at);
        }
        let mut left = size.procs;
        for share in shares.iter_mut().filter(|share| size.nodes.is_some() || share.required) {
            share.count = 1;
            left = left.checked_sub(1)?;
        }
        if size.nodes.is_some() {
            left = spread(&mut shares, left, |seats| seats.room);
        }
        for share in &mut shares {
            let more = left.min(share.seats.room.saturating_sub(share.count));
            share.count += more;
            left -= more;
        }
        if self.overcommit {
            left = spread(&mut shares, left, |seats| seats.most);
        }
        let counts = shares.iter().filter(|share| share.count > 0);
        (left == 0).then(|| counts.map(|share| (share.seats.at, share.count)).collect())
    }

    /// The nodes that can have a process.
    fn candidates(&self, seats: impl Iterator<Item = Seats>) -> Vec<Share> {
        let cap = self.per_node.unwrap_or(u32::MAX);
        let allowed = seats.filter(|seats| !self.excluded.contains(seats.node));
        let capped = allowed.map(|seats| {
            let (room, most) = (seats.room.min(cap), seats.most.min(cap));
            let required = self.required.contains(seats.node);
            Share { seats: Seats { room, most, ..seats }, required, count: 0 }
        });
        capped.filter(|share| share.seats.room > 0).collect()
    }
}

/// Spreads further processes evenly over the nodes, of which each takes at most `most`. Returns how
/// many find no place.
fn spread(shares: &mut [Share], mut left: u32, most: impl Fn(&Seats) -> u32) -> u32 {
    loop {
        let open = shares.iter().filter(|share| share.count < most(&share.seats)).count();
        let Some(each) = u32::try_from(open).ok().and_then(|open| left.checked_div(open)) else {
            return left;
        };
        for share in shares.iter_mut() {
            let free = most(&share.seats).saturating_sub(share.count);
            let more = each.max(1).min(free).min(left);
            share.count += more;
            left -= more;
        }
        if left == 0 {
            return 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(layout: &Layout, size: StepSize, rooms: &[(u32, u32)]) -> Option<Vec<u32>> {
        let seats = rooms.iter().enumerate().map(|(at, (room, most))| Seats {
            at,
            node: NodeId(at as u32 + 1),
            room: *room,
            most: *most,
        });
        let distribution = layout.distribution(&size, seats)?;
        let of = |at| distribution.iter().find(|(other, _)| *other == at).map_or(0, |(_, n)| *n);
        Some((0..rooms.len()).map(of).collect())
    }

    fn set(nodes: &[u32]) -> NodeSet {
        nodes.iter().map(|node| NodeId(*node)).collect()
    }

    /// The counts are those of Slurm 22.05 on nodes of 4, 1 and 1 elements.
    #[test]
    fn required_nodes_come_first_and_a_node_has_at_most_so_many() {
        let rooms = [(4, 4), (1, 4), (1, 4)];
        let on = |nodes, procs| StepSize { nodes, ..StepSize::of_procs(procs) };
        let plain = Layout::default();
        assert_eq!(counts(&plain, on(Some(3), 5), &rooms), Some(vec![3, 1, 1]));
        assert_eq!(counts(&plain, on(Some(2), 3), &rooms), Some(vec![2, 1, 0]));
        assert_eq!(counts(&plain, on(Some(2), 5), &[(4, 4), (4, 4)]), Some(vec![3, 2]));
        assert_eq!(counts(&plain, on(None, 5), &[(4, 4), (4, 4)]), Some(vec![4, 1]));
        let last = Layout { required: set(&[3]), ..Layout::default() };
        assert_eq!(counts(&last, on(Some(1), 1), &rooms), Some(vec![0, 0, 1]));
        assert_eq!(counts(&last, on(Some(1), 2), &rooms), None);
        assert_eq!(counts(&last, on(None, 3), &rooms), Some(vec![2, 0, 1]));
        let two = Layout { required: set(&[2, 3]), ..Layout::default() };
        assert_eq!(counts(&two, on(Some(1), 2), &rooms), None);
        let without = Layout { excluded: set(&[1]), ..Layout::default() };
        assert_eq!(counts(&without, on(Some(1), 1), &rooms), Some(vec![0, 1, 0]));
        let capped = Layout { per_node: Some(1), ..Layout::default() };
        assert_eq!(counts(&capped, on(Some(3), 3), &rooms), Some(vec![1, 1, 1]));
        assert_eq!(counts(&capped, on(Some(3), 4), &rooms), None);
    }

    /// The counts of 8 processes are those of Slurm 22.05.
    #[test]
    fn processes_beyond_the_elements_share_them() {
        let shared = Layout { overcommit: true, ..Layout::default() };
        let of = |procs, rooms: &[(u32, u32)]| {
            counts(&shared, StepSize { nodes: Some(3), ..StepSize::of_procs(procs) }, rooms)
        };
        assert_eq!(of(8, &[(4, 8), (1, 8), (1, 8)]), Some(vec![5, 2, 1]));
        assert_eq!(of(9, &[(4, 4), (1, 4), (1, 4)]), Some(vec![4, 3, 2]));
        assert_eq!(of(13, &[(4, 4), (1, 4), (1, 4)]), None);
        let most = StepSize::of_procs(u32::MAX);
        assert_eq!(counts(&shared, most, &[(1, u32::MAX)]), Some(vec![u32::MAX]));
    }
}
