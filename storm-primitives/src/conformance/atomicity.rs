//! Checks that an operation happened on all survivors of its set or on none, and that its status
//! agrees (paper, section 2.4.1, point 2).

use super::Failure;
use super::failure::differs;
use crate::{NodeId, NodeSet, PrimitiveError};
use std::collections::BTreeMap;

/// The status that the initiator got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InitiatorStatus {
    /// The operation happened.
    Success,
    /// The operation did not happen, for this reason.
    Failure(PrimitiveError),
    /// The initiator died, or the answer leaves it open.
    Nothing,
}

/// The value that survivors of the set hold after the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The value from before.
    Old,
    /// The value that the operation wrote, whole.
    New,
    /// Something else.
    Torn,
}

/// Whether the operation happened.
///
/// # Errors
/// [`Failure`] if the survivors disagree with each other or with the status.
pub(crate) fn all_or_nothing(
    status: &InitiatorStatus,
    held: &BTreeMap<NodeId, Held>,
) -> Result<bool, Failure> {
    let of = |what| held.iter().filter(|(_, h)| **h == what).map(|(n, _)| *n).collect::<NodeSet>();
    let (old, new, torn) = (of(Held::Old), of(Held::New), of(Held::Torn));
    let seen = format!("new on {new}, old on {old}, torn on {torn}");
    if !torn.is_empty() || (!old.is_empty() && !new.is_empty()) {
        return differs("what survivors hold", "the same on all, old or new", seen);
    }
    match status {
        InitiatorStatus::Success if !old.is_empty() => differs("after success", "new on all", seen),
        InitiatorStatus::Failure(error) if !new.is_empty() => {
            differs(format!("after failure ({error})"), "old on all", seen)
        }
        InitiatorStatus::Success | InitiatorStatus::Failure(_) | InitiatorStatus::Nothing => {
            Ok(old.is_empty())
        }
    }
}

/// Checks that an operation on `set` may fail with `error` if exactly `dead` had died.
///
/// # Errors
/// [`Failure`] if the error blames a survivor, or has no reason.
pub(crate) fn is_true_blame(
    error: &PrimitiveError,
    set: &NodeSet,
    dead: &NodeSet,
) -> Result<(), Failure> {
    let dead_in_set = set.intersection(dead);
    let is_true = match error {
        PrimitiveError::NodesDead { nodes } => !nodes.is_empty() && nodes.is_subset(&dead_in_set),
        PrimitiveError::TimedOut { nodes } => !dead_in_set.is_empty() && nodes == set,
        PrimitiveError::Disconnected
        | PrimitiveError::OutOfBounds(_)
        | PrimitiveError::Misaligned { .. }
        | PrimitiveError::UnknownEvent { .. } => false,
    };
    if is_true {
        return Ok(());
    }
    let expected = format!("success, or a failure that names only {dead_in_set}");
    differs(format!("status of an operation on {set}"), expected, format!("{error:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(values: &[Held]) -> BTreeMap<NodeId, Held> {
        (1..).map(NodeId).zip(values.iter().copied()).collect()
    }

    fn dead(id: u32) -> PrimitiveError {
        PrimitiveError::NodesDead { nodes: NodeSet::single(NodeId(id)) }
    }

    #[test]
    fn half_an_operation_is_caught() {
        for status in
            [InitiatorStatus::Success, InitiatorStatus::Failure(dead(3)), InitiatorStatus::Nothing]
        {
            assert!(all_or_nothing(&status, &held(&[Held::Old, Held::New])).is_err());
            assert!(all_or_nothing(&status, &held(&[Held::New, Held::Torn])).is_err());
        }
    }

    #[test]
    fn a_lying_status_is_caught() {
        let (old, new) = (held(&[Held::Old, Held::Old]), held(&[Held::New, Held::New]));
        assert!(all_or_nothing(&InitiatorStatus::Success, &old).is_err());
        assert!(all_or_nothing(&InitiatorStatus::Failure(dead(3)), &new).is_err());
        assert!(all_or_nothing(&InitiatorStatus::Success, &new).is_ok_and(|happened| happened));
        assert!(all_or_nothing(&InitiatorStatus::Nothing, &new).is_ok_and(|happened| happened));
        assert!(
            all_or_nothing(&InitiatorStatus::Failure(dead(3)), &old)
                .is_ok_and(|happened| !happened)
        );
    }

    #[test]
    fn blaming_a_survivor_is_caught() {
        let set = NodeSet::compute(4);
        let gone = NodeSet::single(NodeId(2));
        assert!(is_true_blame(&dead(2), &set, &gone).is_ok());
        assert!(is_true_blame(&dead(3), &set, &gone).is_err());
        assert!(is_true_blame(&dead(2), &NodeSet::compute(1), &gone).is_err());
        let timeout = PrimitiveError::TimedOut { nodes: set.clone() };
        assert!(is_true_blame(&timeout, &set, &gone).is_ok());
        assert!(is_true_blame(&timeout, &set, &NodeSet::new()).is_err());
        assert!(is_true_blame(&PrimitiveError::Disconnected, &set, &gone).is_err());
    }
}
