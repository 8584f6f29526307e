//! Which descriptors come along with a launch message. They have one order, so that a byte says it.

use std::os::fd::OwnedFd;

/// A descriptor that a launch message may carry, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// The reading end of standard input.
    Stdin,
    /// The writing end of standard output.
    Stdout,
    /// The writing end of standard error.
    Stderr,
    /// The rank's end of its PMI connection.
    Pmi,
    /// The memory file with the part that all ranks share.
    Spec,
}

/// The most that one message carries.
pub(crate) const CARRIED_MAX: usize = 5;

const ORDER: [Carried; CARRIED_MAX] =
    [Carried::Stdin, Carried::Stdout, Carried::Stderr, Carried::Pmi, Carried::Spec];

/// Some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CarriedSet(u8);

impl CarriedSet {
    /// As it is in a message.
    pub(crate) fn byte(self) -> u8 {
        self.0
    }

    /// From a message; `None` for what no sender says.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        (byte < 1 << CARRIED_MAX).then_some(Self(byte))
    }

    pub(crate) fn insert(&mut self, one: Carried) {
        self.0 |= 1 << one as u8;
    }

    pub(crate) fn contains(self, one: Carried) -> bool {
        self.0 & 1 << one as u8 != 0
    }

    /// What it has, in order.
    pub(crate) fn names(self) -> impl Iterator<Item = Carried> + Clone {
        ORDER.into_iter().filter(move |one| self.contains(*one))
    }

    /// Says of each descriptor what it is; `None` when they are not as many as the set has.
    pub(crate) fn name(self, descriptors: Vec<OwnedFd>) -> Option<Vec<(Carried, OwnedFd)>> {
        let enough = self.names().count() == descriptors.len();
        enough.then(|| self.names().zip(descriptors).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_named_in_their_order_or_not_at_all() {
        let mut set = CarriedSet::default();
        set.insert(Carried::Pmi);
        set.insert(Carried::Stdout);
        assert_eq!(CarriedSet::from_byte(set.byte()), Some(set));
        assert_eq!(CarriedSet::from_byte(1 << 5), None);
        let open = |count: usize| {
            (0..count).map(|_| std::io::pipe().expect("a pipe").0.into()).collect::<Vec<OwnedFd>>()
        };
        let named = set.name(open(2)).expect("as many");
        let names: Vec<Carried> = named.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [Carried::Stdout, Carried::Pmi]);
        assert!(set.name(open(1)).is_none() && set.name(open(3)).is_none());
    }
}
