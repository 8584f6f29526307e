//! The core of the node manager on modelled hosts, in virtual time.

mod core_properties;
mod inherited_output;
mod jobs;
mod leases;
mod lives;
mod steps;
mod streams_and_files;
mod support;
mod switching;
mod takeover;
mod turns;
