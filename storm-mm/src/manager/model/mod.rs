//! The core against a model of its surroundings: random histories with the
//! invariants checked after each step, and tables of what may happen when.

mod early_edges;
mod held_bytes;
mod invariants;
mod needs;
mod ordered_slices;
mod preempting;
mod random;
mod reservations;
mod resources;
mod service;
mod tables;
mod world;

/// Some job that could be submitted.
pub(crate) fn model_spec() -> storm_rm::JobSpec {
    world::spec(1, false, false)
}
