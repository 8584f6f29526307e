//! Real processes: each test has a keeper of its own.

mod descriptors;
mod freeze;
mod launch;
mod leases;
mod lifetime;
mod memory;
mod pads;
mod place;
mod shared_files;
mod start;
mod support;
mod takeover;
mod usage;
