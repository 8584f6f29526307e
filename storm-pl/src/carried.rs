//! The descriptors sent with a launch message. The order of the descriptors is fixed, so one byte
//! names them.

use std::os::fd::OwnedFd;

/// A descriptor that a launch message may carry. The variants are in the order of sending.
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

/// A set of carried descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CarriedSet(u8);

impl CarriedSet {
    /// The set as a byte of a message.
    pub(crate) fn byte(self) -> u8 {
        self.0
    }

    /// The set of a byte from a message; `None` for a byte that no sender uses.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        (byte < 1 << CARRIED_MAX).then_some(Self(byte))
    }

    pub(crate) fn insert(&mut self, one: Carried) {
        self.0 |= 1 << one as u8;
    }

    pub(crate) fn contains(self, one: Carried) -> bool {
        self.0 & 1 << one as u8 != 0
    }

    /// The members of the set, in order.
    pub(crate) fn names(self) -> impl Iterator<Item = Carried> + Clone {
        ORDER.into_iter().filter(move |one| self.contains(*one))
    }

    /// Names each descriptor; `None` if their number differs from the size of the set.
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
