//! The manager's driver at work, with Node Managers on modelled hosts and clients in one simulated
//! world, for several seeds.

mod client;
mod cluster;
mod contents;
mod seeds;
mod waiting;
mod workload;

mod attached;
mod deaths;
mod durability;
mod edits;
mod endings;
mod kill_points;
mod launches;
mod leases;
mod lives;
mod ordered_slices;
mod queues;
mod restart;
mod slices;
mod steps;
