//! The policies by name. A new policy is one file in [`crate::policies`] and
//! one line here.

use crate::policies::{Fcfs, Gang, fcfs, gang};
use crate::{Machine, Policy, PolicyParams};

/// Makes a policy on an idle machine.
pub type Constructor = fn(Machine, &PolicyParams) -> Box<dyn Policy>;

/// Every policy.
pub const POLICIES: &[(&str, Constructor)] =
    &[(fcfs::NAME, Fcfs::boxed), (gang::NAME, Gang::boxed)];

/// A name that no policy has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no scheduling policy named {name:?}: use one of {}", known())]
pub struct UnknownPolicy {
    /// The name that was asked for.
    pub name: String,
}

/// The policy of that name on an idle machine.
///
/// # Errors
/// [`UnknownPolicy`], which lists the names.
pub fn by_name(
    name: &str,
    machine: Machine,
    params: &PolicyParams,
) -> Result<Box<dyn Policy>, UnknownPolicy> {
    let found = POLICIES.iter().find(|(known, _)| *known == name);
    let (_, constructor) = found.ok_or_else(|| UnknownPolicy { name: name.to_owned() })?;
    Ok(constructor(machine, params))
}

/// The names of all policies.
pub fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|(name, _)| *name)
}

fn known() -> String {
    names().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_under_the_name_it_gives_itself() {
        for (name, _) in POLICIES {
            let machine = Machine::uniform(2, 2).expect("a machine");
            let policy = by_name(name, machine, &PolicyParams::default()).expect("a policy");
            assert_eq!(policy.name(), *name);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let machine = Machine::uniform(2, 2).expect("a machine");
        let error = by_name("gnag", machine, &PolicyParams::default()).err().expect("unknown");
        assert_eq!(
            error.to_string(),
            "there is no scheduling policy named \"gnag\": use one of fcfs, gang"
        );
    }
}
