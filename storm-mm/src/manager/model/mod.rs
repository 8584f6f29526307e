//! The core against a model of its surroundings: random histories with the
//! invariants checked after each step, and tables of what may happen when.

mod invariants;
mod needs;
mod random;
mod tables;
mod world;
