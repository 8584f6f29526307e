//! The policies that partitions of this program can have: those that it was built with.
//!
//! They are the process's own, set once, before anything is parsed.

use std::sync::OnceLock;
use storm_sched::{Coscheduling, Machine, PolicyParams, Registry};

static POLICIES: OnceLock<Registry> = OnceLock::new();

/// Sets the policies, unless they are set or were asked for.
pub(crate) fn offer(policies: Registry) {
    // Whoever came first has been told of others already.
    let _ = POLICIES.set(policies);
}

/// The policies; those of `storm-sched` where no others were set.
pub(crate) fn policies() -> &'static Registry {
    POLICIES.get_or_init(Registry::standard)
}

/// Settings that a policy has no use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle {
    /// The length of a slice: it has none.
    pub(crate) quantum: bool,
    /// The most rows: it has one.
    pub(crate) mpl_limit: bool,
}

impl Idle {
    /// Of the policy of this name, if there is one.
    pub(crate) fn under(sched: &str) -> Option<Idle> {
        let machine = Machine::uniform(1, 1).ok()?;
        let policy = policies().make(sched, machine, &PolicyParams::default()).ok()?;
        let quantum = policy.quantum().is_none();
        let shares_time = !quantum || policy.coscheduling() != Coscheduling::default();
        Some(Idle { quantum, mpl_limit: !shares_time })
    }
}

#[cfg(test)]
mod tests {
    use super::Idle;

    #[test]
    fn who_has_no_slices_or_rows_has_no_use_for_their_settings() {
        let idle =
            |sched| Idle::under(sched).map(|Idle { quantum, mpl_limit }| (quantum, mpl_limit));
        assert_eq!(idle("fcfs"), Some((true, true)));
        assert_eq!(idle("easy"), Some((true, true)));
        assert_eq!(idle("gang"), Some((false, false)));
        assert_eq!(idle("local"), Some((true, false)));
        assert_eq!(idle("lottery"), None);
    }
}
