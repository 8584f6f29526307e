//! Tests of the simulated machine in virtual time. They are one program, because each program
//! links the whole machine.

mod any_profile;
mod away;
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
