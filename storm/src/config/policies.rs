//! The policies that this program was built with: the choices for a partition.
//!
//! The registry belongs to the process and is set once, before anything is parsed.

use std::sync::OnceLock;
use storm_sched::{Coscheduling, Machine, PolicyParams, Registry};

static POLICIES: OnceLock<Registry> = OnceLock::new();

/// Sets the policies. Does nothing if they were set or asked for before.
pub(crate) fn offer(policies: Registry) {
    // A second call must not change the value that callers of `policies()` already have.
    let _ = POLICIES.set(policies);
}

/// The policies: those that were offered, else those of `storm-sched`.
pub(crate) fn policies() -> &'static Registry {
    POLICIES.get_or_init(Registry::standard)
}

/// The settings that a policy does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle {
    /// The length of a slice, as the policy has no slices.
    pub(crate) quantum: bool,
    /// The most rows, as the policy has one row.
    pub(crate) mpl_limit: bool,
    /// The length of a slice of communication, as the policy has no such slices.
    pub(crate) slice: bool,
}

impl Idle {
    /// The unused settings of the policy of this name; `None` if there is no such policy.
    pub(crate) fn under(sched: &str) -> Option<Idle> {
        let machine = Machine::uniform(1, 1).ok()?;
        let policy = policies().make(sched, machine, &PolicyParams::default()).ok()?;
        let quantum = policy.quantum().is_none();
        let shares_time = !quantum || policy.coscheduling() != Coscheduling::default();
        let slice = policy.communication_slice().is_none();
        Some(Idle { quantum, mpl_limit: !shares_time, slice })
    }

    /// Whether the policy does not use the setting of this name.
    pub(crate) fn means_nothing(self, name: &str) -> bool {
        match name {
            "quantum-us" => self.quantum,
            "slice-us" => self.slice,
            "mpl-limit" | "packing" | "queue" | "unification" => self.mpl_limit,
            // If all rows run at once, no job runs in further rows.
            "alternative-scheduling" | "repack" => self.quantum,
            // Policies that share time never guess how long a job runs.
            "default-estimate-s" => !self.mpl_limit,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Idle;

    #[test]
    fn policies_without_slices_or_rows_ignore_their_settings() {
        let idle = |sched| Idle::under(sched).map(|idle| (idle.quantum, idle.mpl_limit));
        assert_eq!(idle("fcfs"), Some((true, true)));
        assert_eq!(idle("easy"), Some((true, true)));
        assert_eq!(idle("gang"), Some((false, false)));
        assert_eq!(idle("local"), Some((true, false)));
        assert_eq!(idle("lottery"), None);
        let in_vain = |sched, name| Idle::under(sched).map(|idle| idle.means_nothing(name));
        assert_eq!(in_vain("fcfs", "packing"), Some(true));
        assert_eq!(in_vain("gang", "packing"), Some(false));
        assert_eq!(in_vain("gang", "slice-us"), Some(true));
        assert_eq!(in_vain("bcs", "slice-us"), Some(false));
        assert_eq!(in_vain("easy", "default-estimate-s"), Some(false));
    }
}
