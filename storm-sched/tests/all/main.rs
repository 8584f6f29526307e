//! Policies in virtual time: invariants, oracles, golden traces, and mutants that the checks must
//! catch.

mod backfilling;
mod brute_force;
mod fair_share;
mod feasibility;
mod gang_fairness;
mod gang_preemption;
mod gang_queue;
mod golden_gang;
mod golden_space_sharing;
mod matrix;
mod node_choice;
mod out_of_tree;
mod overdue;
mod passes;
mod placement;
mod preemption;
mod preemption_mutants;
mod priorities;
mod reasons;
mod reservation_mutants;
mod reservations;
mod restore;
mod suite;
mod suite_mutants;
mod virtual_time;
