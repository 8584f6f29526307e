//! Abilities of a driver beyond starting jobs and switching rows. A driver declares its abilities.
//! A policy that needs another ability is refused when it is made, not when it decides.

use crate::Policy;

/// An ability that not every driver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// The driver can carry out [`crate::Action::Migrate`]: it moves running processes to other
    /// PEs. The simulated and the replayed machine can. Linux cannot migrate processes, so the live
    /// Machine Manager cannot.
    Migration,
}

/// A policy needs an ability that its driver lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The policy moves running processes.
    #[error(
        "policy {policy} with `repack = true` moves running processes to other processing \
         elements, which a real machine cannot do: leave `repack` out, and use \
         `alternative-scheduling` and `unification` instead; repacking works in replay \
         and simulation"
    )]
    Migration {
        /// The policy.
        policy: &'static str,
    },
}

impl Capability {
    /// Checks that a driver with these capabilities can carry out a policy's decisions.
    ///
    /// # Errors
    /// The first ability that the policy requires and the driver lacks.
    pub fn check(policy: &dyn Policy, driver: &[Self]) -> Result<(), Unsupported> {
        let lacking = policy.requires().iter().find(|required| !driver.contains(required));
        match lacking {
            None => Ok(()),
            Some(Self::Migration) => Err(Unsupported::Migration { policy: policy.name() }),
        }
    }
}
