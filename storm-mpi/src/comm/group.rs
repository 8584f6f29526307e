//! Ordered sets of processes (MPI-4.1, section 7.3).

use crate::rank::Rank;
use std::rc::Rc;

/// Processes in an order, each at most once, named by their rank in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    members: Rc<[Rank]>,
}

/// The result of comparing two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same members in the same order (`MPI_IDENT`).
    Identical,
    /// The same members in another order (`MPI_SIMILAR`).
    Similar,
    /// Different members (`MPI_UNEQUAL`).
    Unequal,
}

impl Group {
    /// The group of these members, which must all differ.
    pub fn new(members: impl IntoIterator<Item = Rank>) -> Self {
        Group { members: members.into_iter().collect() }
    }

    /// The members, in order.
    pub fn members(&self) -> &[Rank] {
        &self.members
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The place of a rank of the job.
    pub fn position(&self, rank: Rank) -> Option<usize> {
        // Most groups are all ranks or begin with them.
        match self.members.get(rank.index()) {
            Some(&here) if here == rank => Some(rank.index()),
            _ => self.members.iter().position(|&member| member == rank),
        }
    }

    /// The members at these places, in this order; `None` when a place does not exist or occurs
    /// twice.
    pub fn including(&self, places: &[usize]) -> Option<Group> {
        let mut seen = vec![false; self.size()];
        let pick = |&place: &usize| {
            let first = !std::mem::replace(seen.get_mut(place)?, true);
            first.then(|| self.members[place])
        };
        Some(Group { members: places.iter().map(pick).collect::<Option<Vec<_>>>()?.into() })
    }

    /// The members except those at these places; `None` as in [`Group::including`].
    pub fn excluding(&self, places: &[usize]) -> Option<Group> {
        let out = self.including(places)?;
        Some(self.difference(&out))
    }

    /// The members of this group, then those of the other that are not in it.
    pub fn union(&self, other: &Group) -> Group {
        let rest = other.members.iter().filter(|&&member| self.position(member).is_none());
        Group::new(self.members.iter().chain(rest).copied())
    }

    /// The members that are in the other group too.
    pub fn intersection(&self, other: &Group) -> Group {
        Group::new(self.members.iter().copied().filter(|&m| other.position(m).is_some()))
    }

    /// The members that are not in the other group.
    pub fn difference(&self, other: &Group) -> Group {
        Group::new(self.members.iter().copied().filter(|&m| other.position(m).is_none()))
    }

    /// Compares two groups.
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.members == other.members {
            return Comparison::Identical;
        }
        let mut sets = [self.members.to_vec(), other.members.to_vec()];
        sets.iter_mut().for_each(|set| set.sort_unstable());
        if sets[0] == sets[1] { Comparison::Similar } else { Comparison::Unequal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(members: &[u32]) -> Group {
        Group::new(members.iter().map(|&m| Rank(m)))
    }

    #[test]
    fn members_keep_their_order() {
        let all = group(&[4, 2, 9, 0]);
        assert_eq!(all.including(&[3, 1]), Some(group(&[0, 2])));
        assert_eq!(all.excluding(&[0, 3]), Some(group(&[2, 9])));
        assert_eq!(all.including(&[4]), None, "no such place");
        assert_eq!(all.including(&[1, 1]), None, "twice");
        let other = group(&[9, 7, 4]);
        assert_eq!(all.union(&other), group(&[4, 2, 9, 0, 7]));
        assert_eq!(all.intersection(&other), group(&[4, 9]));
        assert_eq!(all.difference(&other), group(&[2, 0]));
        assert_eq!(all.position(Rank(9)), Some(2));
        assert_eq!(all.position(Rank(7)), None);
    }

    #[test]
    fn comparisons() {
        let all = group(&[1, 2, 3]);
        assert_eq!(all.compare(&group(&[1, 2, 3])), Comparison::Identical);
        assert_eq!(all.compare(&group(&[3, 2, 1])), Comparison::Similar);
        assert_eq!(all.compare(&group(&[1, 2])), Comparison::Unequal);
    }
}
