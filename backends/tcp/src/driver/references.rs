//! Whether this member takes references to memory of its host, or receives all data over the link.
//!
//! A reference can fail for two reasons. Either no reference of the parent can ever work (another
//! user's process, no `/proc`), or this reference came too late, while the tree was changing. A
//! refusal ends with the next parent. It also ends after a while with the same parent, because its
//! cause may pass: a host may have run out of descriptors.

use crate::shared_memory::Outlook;
use std::cell::Cell;
use std::time::Duration;
use storm_primitives::{Incarnation, NodeId};

/// How long the first refusal of references lasts: a shortage on a host may be brief.
const FIRST_REFUSAL: Duration = Duration::from_secs(60);
/// Refusals double up to this, because each failed retry costs the cluster a view.
const MAX_REFUSAL: Duration = Duration::from_secs(3600);
/// This many late references in a row are not a coincidence.
const MAX_OUTDATED: u32 = 4;

/// An incarnation of a parent.
pub(crate) type Lender = (NodeId, Incarnation);

/// The state of references from this member's parents.
#[derive(Debug)]
pub(crate) struct References {
    /// Whether references are enabled at all.
    wanted: bool,
    /// The parent whose references do not work.
    refused: Cell<Option<Lender>>,
    /// The number of refusals so far. A retry names its refusal by this number.
    refusals: Cell<u64>,
    /// How long the next refusal lasts.
    next_refusal: Cell<Duration>,
    /// References in a row that came too late.
    outdated: Cell<u32>,
}

/// A refusal of references, starting now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    number: u64,
    /// How long to refuse before a retry.
    pub(crate) lasts: Duration,
}

impl References {
    pub(crate) fn new(wanted: bool) -> References {
        References {
            wanted,
            refused: Cell::new(None),
            refusals: Cell::new(0),
            next_refusal: Cell::new(FIRST_REFUSAL),
            outdated: Cell::new(0),
        }
    }

    /// Whether the next link to a parent may carry references.
    pub(crate) fn are_taken(&self) -> bool {
        self.wanted && self.refused.get().is_none()
    }

    /// A reference worked.
    pub(crate) fn opened(&self) {
        self.next_refusal.set(FIRST_REFUSAL);
        self.outdated.set(0);
    }

    /// A reference of `lender` failed. Returns the refusal that follows, if any.
    pub(crate) fn failed(&self, lender: Lender, outlook: Outlook) -> Option<Refusal> {
        if !self.are_taken() {
            return None;
        }
        match outlook {
            // The tree is about to change, and another parent follows.
            Outlook::OwnerGone => return None,
            Outlook::Outdated => {
                self.outdated.set(self.outdated.get() + 1);
                if self.outdated.get() < MAX_OUTDATED {
                    return None;
                }
            }
            Outlook::Closed => {}
        }
        self.outdated.set(0);
        self.refused.set(Some(lender));
        let number = self.refusals.get() + 1;
        self.refusals.set(number);
        let lasts = self.next_refusal.get();
        self.next_refusal.set((lasts * 2).min(MAX_REFUSAL));
        Some(Refusal { number, lasts })
    }

    /// The next link leads to `parent`. Returns whether the change of parent ends a refusal.
    pub(crate) fn follow(&self, parent: Lender) -> bool {
        let other = self.refused.get().is_some_and(|lender| lender != parent);
        if other {
            self.refused.set(None);
        }
        other
    }

    /// The time of `refusal` is over. Returns whether it ends: a later refusal has its own time.
    pub(crate) fn retry(&self, refusal: Refusal) -> bool {
        let ends = self.refused.get().is_some() && refusal.number == self.refusals.get();
        if ends {
            self.refused.set(None);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: Lender = (NodeId(1), Incarnation(1));

    #[test]
    fn outdated_references_are_no_reason_to_refuse() {
        let references = References::new(true);
        for _ in 1..MAX_OUTDATED {
            assert_eq!(references.failed(PARENT, Outlook::Outdated), None);
            assert_eq!(references.failed(PARENT, Outlook::OwnerGone), None);
        }
        references.opened();
        assert_eq!(references.failed(PARENT, Outlook::Outdated), None);
        assert!(references.are_taken());
        // Unless nothing else comes.
        let more = (2..=MAX_OUTDATED).map(|_| references.failed(PARENT, Outlook::Outdated));
        assert_eq!(more.flatten().count(), 1);
        assert!(!references.are_taken());
    }

    #[test]
    fn another_parent_or_another_life_of_it_may_lend_again() {
        for next in [(NodeId(2), Incarnation(1)), (NodeId(1), Incarnation(2))] {
            let references = References::new(true);
            let refusal = references.failed(PARENT, Outlook::Closed).expect("a reason");
            assert!(!references.follow(PARENT) && !references.are_taken());
            assert!(references.follow(next) && references.are_taken());
            // The end of the old refusal's time no longer has an effect.
            let later = references.failed(next, Outlook::Closed).expect("a reason");
            assert!(!references.retry(refusal) && !references.are_taken());
            assert!(references.retry(later) && references.are_taken());
        }
    }

    #[test]
    fn a_refusal_ends_and_the_next_one_lasts_longer_unless_one_was_opened() {
        let references = References::new(true);
        let mut lasted = Vec::new();
        for round in 0..8 {
            let refusal = references.failed(PARENT, Outlook::Closed).expect("a reason");
            assert_eq!(references.failed(PARENT, Outlook::Closed), None, "refused already");
            lasted.push(refusal.lasts.as_secs());
            assert!(references.retry(refusal));
            if round == 6 {
                references.opened();
            }
        }
        assert_eq!(lasted, [60, 120, 240, 480, 960, 1920, 3600, 60]);
    }

    #[test]
    fn a_node_without_references_takes_none() {
        let references = References::new(false);
        assert!(!references.are_taken() && !references.follow(PARENT));
        assert_eq!(references.failed(PARENT, Outlook::Closed), None);
    }
}
