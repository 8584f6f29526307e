//! The product as users see it: the program `storm`, with daemons and jobs as real processes. Each
//! test has directories of its own (`scratch`).

#[path = "../scratch/mod.rs"]
mod scratch;

mod accounting;
mod architecture;
mod asks;
mod away;
mod batch;
mod bcs;
mod client;
mod dependencies;
mod descriptors;
mod edited_configuration;
mod edits;
mod exit_status;
mod faults;
mod flexible;
mod kept_cluster;
mod kernels;
mod limits;
mod login_host;
mod main_job;
mod manager_restart;
mod model;
mod mpi;
mod namespaces;
mod needs;
mod outputs;
mod own_cluster;
mod preemption;
mod priorities;
mod quantum;
mod relay;
mod replay;
mod reproduce;
mod reservations;
mod resources;
mod robustness;
mod sim;
mod slurm;
mod slurm_clients;
mod slurm_listings;
mod slurm_scripts;
mod slurm_steps;
mod step_deaths;
mod steps;
mod surroundings;
mod takeover;
mod takeover_launches;
mod takeover_parts;
mod terminal;
mod tour;
mod trust;
