//! The product as a user meets it: the program `storm`, its daemons and jobs as real
//! processes. Each test has a place of its own (`scratch`).

#[path = "../scratch/mod.rs"]
mod scratch;

mod bcs;
mod client;
mod dependencies;
mod exit_status;
mod faults;
mod flexible;
mod kept_cluster;
mod kernels;
mod main_job;
mod manager_restart;
mod model;
mod mpi;
mod namespaces;
mod needs;
mod preemption;
mod priorities;
mod quantum;
mod replay;
mod reproduce;
mod reservations;
mod resources;
mod robustness;
mod sim;
mod surroundings;
mod tour;
mod trust;
