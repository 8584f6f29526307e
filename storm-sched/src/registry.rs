//! The policies by name. A new policy of this crate is one file in [`crate::policies`] and one line
//! here. The driver registers policies of other crates ([`Registry::register`]).

use std::fmt;
use std::sync::LazyLock;

use crate::policies::{
    Bcs, Conservative, Easy, EasySjbf, Fcfs, Gang, Sjf, bcs, conservative, easy, easy_sjbf, fcfs,
    fcs, gang, ics, local, pb, sjf,
};
use crate::{Machine, Policy, PolicyParams};

/// A function that makes a policy on an idle machine.
pub type Constructor = fn(Machine, &PolicyParams) -> Box<dyn Policy>;

/// Every policy of this crate.
const POLICIES: &[(&str, Constructor)] = &[
    (fcfs::NAME, Fcfs::boxed),
    (easy::NAME, Easy::boxed),
    (easy_sjbf::NAME, EasySjbf::boxed),
    (conservative::NAME, Conservative::boxed),
    (sjf::NAME, Sjf::boxed),
    (gang::NAME, Gang::boxed),
    (bcs::NAME, Bcs::boxed),
    (fcs::NAME, fcs::boxed),
    (ics::NAME, ics::boxed),
    (local::NAME, local::boxed),
    (pb::NAME, pb::boxed),
];

/// The name of the policy for a partition or machine that names none.
pub const DEFAULT_POLICY: &str = gang::NAME;

/// Second names, each with the policy's own name.
const ALIASES: &[(&str, &str)] = &[("easy", easy::NAME)];

/// The registry of this crate's policies, made once.
static STANDARD: LazyLock<Registry> = LazyLock::new(Registry::standard);

/// Policies by name, in the order of their registration.
#[derive(Clone, Default)]
pub struct Registry {
    policies: Vec<(&'static str, Constructor)>,
    aliases: Vec<(&'static str, &'static str)>,
}

/// No policy has the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no scheduling policy named {name:?}: use one of {known}")]
pub struct UnknownPolicy {
    /// The name that was asked for.
    pub name: String,
    /// The known names, with commas between them.
    pub known: String,
}

/// A policy already has the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is a scheduling policy named {name:?} already: register this one by another name")]
pub struct NameTaken {
    /// The name.
    pub name: &'static str,
}

impl Registry {
    /// Returns a registry without policies.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the registry of this crate's policies.
    #[must_use]
    pub fn standard() -> Self {
        Self { policies: POLICIES.to_vec(), aliases: ALIASES.to_vec() }
    }

    /// Adds a policy.
    ///
    /// # Errors
    /// [`NameTaken`]; nothing is added then.
    pub fn register(
        &mut self,
        name: &'static str,
        constructor: Constructor,
    ) -> Result<(), NameTaken> {
        if self.canonical(name).is_some() {
            return Err(NameTaken { name });
        }
        self.policies.push((name, constructor));
        Ok(())
    }

    /// The policy's own name, given that name or a second name.
    #[must_use]
    pub fn canonical(&self, name: &str) -> Option<&'static str> {
        let alias = self.aliases.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, name)| *name);
        self.policies.iter().map(|(known, _)| *known).find(|known| *known == name)
    }

    /// Makes the policy of that name on an idle machine.
    ///
    /// # Errors
    /// [`UnknownPolicy`], which lists the names.
    pub fn make(
        &self,
        name: &str,
        machine: Machine,
        params: &PolicyParams,
    ) -> Result<Box<dyn Policy>, UnknownPolicy> {
        let canonical = self.canonical(name);
        let found = self.policies.iter().find(|(known, _)| Some(*known) == canonical);
        let (_, constructor) =
            found.ok_or_else(|| UnknownPolicy { name: name.to_owned(), known: self.listing() })?;
        Ok(constructor(machine, params))
    }

    /// The names of all policies, without second names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.policies.iter().map(|(name, _)| *name)
    }

    /// The names for users, with commas between them. The second names of a policy are behind its
    /// name, in parentheses.
    #[must_use]
    pub fn listing(&self) -> String {
        let listed = |name: &'static str| {
            let second =
                |(alias, of): &(&'static str, &'static str)| (*of == name).then_some(*alias);
            let second: Vec<&str> = self.aliases.iter().filter_map(second).collect();
            match second.is_empty() {
                true => name.to_owned(),
                false => format!("{name} ({})", second.join(", ")),
            }
        };
        self.names().map(listed).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Makes the policy of this crate of that name on an idle machine.
///
/// # Errors
/// [`UnknownPolicy`], which lists the names.
pub fn by_name(
    name: &str,
    machine: Machine,
    params: &PolicyParams,
) -> Result<Box<dyn Policy>, UnknownPolicy> {
    STANDARD.make(name, machine, params)
}

/// The names of all policies of this crate, without second names.
pub fn names() -> impl Iterator<Item = &'static str> {
    STANDARD.names()
}

/// The primary name of a policy of this crate, for its primary or second name.
#[must_use]
pub fn canonical(name: &str) -> Option<&'static str> {
    STANDARD.canonical(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_registered_under_its_own_name() {
        for (name, _) in POLICIES {
            let machine = Machine::uniform(2, 2).expect("a machine");
            let policy = by_name(name, machine, &PolicyParams::default()).expect("a policy");
            assert_eq!(policy.name(), *name);
        }
    }

    #[test]
    fn a_second_name_leads_to_the_same_policy() {
        let machine = Machine::uniform(2, 2).expect("a machine");
        let policy = by_name("easy", machine, &PolicyParams::default()).expect("a policy");
        assert_eq!(policy.name(), "backfill");
        assert_eq!(canonical("easy"), Some("backfill"));
        assert!(!names().any(|name| name == "easy"));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let machine = Machine::uniform(2, 2).expect("a machine");
        let error = by_name("gnag", machine, &PolicyParams::default()).err().expect("unknown");
        assert_eq!(
            error.to_string(),
            "there is no scheduling policy named \"gnag\": use one of fcfs, backfill (easy), easy-sjbf, \
             conservative, sjf, gang, bcs, fcs, ics, local, pb"
        );
    }

    #[test]
    fn a_name_cannot_be_registered_twice() {
        let mut registry = Registry::standard();
        for name in ["gang", "easy"] {
            assert_eq!(registry.register(name, Fcfs::boxed), Err(NameTaken { name }));
        }
        registry.register("mine", Fcfs::boxed).unwrap();
        assert_eq!(registry.names().last(), Some("mine"));
    }
}
