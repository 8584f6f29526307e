//! The policies that partitions of this program can have: those that it was built with.
//!
//! They are the process's own, set once, before anything is parsed.

use std::sync::OnceLock;
use storm_sched::Registry;

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
