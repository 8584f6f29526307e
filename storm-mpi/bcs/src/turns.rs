//! Turns of ranks on one processing element that several jobs share.
//!
//! Ranks that wait for communication give up their slice: at each edge, the element is given to the
//! next rank in order that does not wait. There is no switch in the middle of a slice, so a rank
//! that begins to wait idles for the rest of its slice.

use crate::Member;

/// The ranks of one processing element.
#[derive(Debug, Default)]
pub struct Turns {
    ranks: Vec<(Member, bool)>,
    current: Option<usize>,
}

impl Turns {
    /// Adds a rank, which does not wait.
    pub fn add(&mut self, member: Member) {
        self.ranks.push((member, false));
    }

    /// Takes a rank away.
    pub fn remove(&mut self, member: Member) {
        let Some(place) = self.ranks.iter().position(|(rank, _)| *rank == member) else { return };
        self.ranks.remove(place);
        self.current = match self.current {
            Some(current) if current == place => None,
            Some(current) if current > place => Some(current - 1),
            other => other,
        };
    }

    /// Sets whether a rank waits for communication.
    pub fn set_waiting(&mut self, member: Member, waits: bool) {
        if let Some((_, waiting)) = self.ranks.iter_mut().find(|(rank, _)| *rank == member) {
            *waiting = waits;
        }
    }

    /// The rank whose slice it is.
    pub fn current(&self) -> Option<Member> {
        self.current.and_then(|place| self.ranks.get(place)).map(|(member, _)| *member)
    }

    /// Whether another rank would get the next slice if it began.
    pub fn waits_for_edge(&self) -> bool {
        let others =
            self.ranks.iter().enumerate().filter(|(place, _)| Some(*place) != self.current);
        others.into_iter().any(|(_, (_, waits))| !waits)
    }

    /// Begins a slice: the next rank that does not wait gets it.
    pub fn edge(&mut self) {
        let count = self.ranks.len();
        let first = self.current.map_or(0, |current| current + 1);
        let order = (0..count).map(|step| (first + step) % count);
        self.current = order.into_iter().find(|place| !self.ranks[*place].1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobKey;
    use storm_mpi::Rank;

    fn member(job: u64) -> Member {
        Member { job: JobKey(job), rank: Rank(0) }
    }

    #[test]
    fn slices_go_round_and_pass_over_those_that_wait() {
        let mut turns = Turns::default();
        (1..=3).for_each(|job| turns.add(member(job)));
        let next = |turns: &mut Turns| {
            turns.edge();
            turns.current().map(|member| member.job.0)
        };
        assert_eq!([next(&mut turns), next(&mut turns)], [Some(1), Some(2)]);
        turns.set_waiting(member(3), true);
        assert_eq!([next(&mut turns), next(&mut turns)], [Some(1), Some(2)]);
        turns.set_waiting(member(1), true);
        assert_eq!([next(&mut turns), next(&mut turns)], [Some(2), Some(2)]);
        assert!(!turns.waits_for_edge());
        turns.set_waiting(member(2), true);
        assert_eq!(next(&mut turns), None);
        assert!(!turns.waits_for_edge());
        turns.set_waiting(member(3), false);
        assert!(turns.waits_for_edge());
        assert_eq!(next(&mut turns), Some(3));
        assert!(!turns.waits_for_edge());
        turns.remove(member(3));
        assert_eq!(turns.current(), None);
    }
}
