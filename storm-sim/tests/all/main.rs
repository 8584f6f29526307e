//! The simulated machine, in virtual time: one program, as each of its own would be linked
//! with the whole machine once more.

mod any_profile;
mod campaign;
mod coscheduling;
mod edits;
mod figures;
mod flexible;
mod mutants;
mod own_policy;
mod scenarios;
mod several_rows;
mod takeover;
mod trees;
