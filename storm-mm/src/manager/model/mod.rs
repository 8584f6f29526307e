//! The core against a model of its surroundings. Random histories run with the invariants checked
//! after each step. Tables list the effects of events in each phase.

mod absences;
mod changing;
mod choosing;
mod cut_launches;
mod early_edges;
mod early_signals;
mod estimates;
mod finishing;
mod following;
mod further_steps;
mod handed_over;
mod happening;
mod held_bytes;
mod history;
mod invariants;
mod lost_parts;
mod needs;
mod ordered_slices;
mod policy_changes;
mod preempting;
mod random;
mod reservations;
mod resources;
mod script_over;
mod scripts;
mod service;
mod settings;
mod step_bounds;
mod step_clients;
mod step_faults;
mod step_signals;
mod step_world;
mod steps;
mod tables;
mod time_limits;
mod unmet;
mod world;

/// A configuration with room for `history_limit` ended jobs.
pub(crate) fn model_config(history_limit: usize) -> crate::CoreConfig {
    crate::CoreConfig { history_limit, ..world::config("fcfs", 4) }
}

/// A specification that can be submitted.
pub(crate) fn model_spec() -> storm_rm::JobSpec {
    world::spec(1, false, false)
}
