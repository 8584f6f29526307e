//! The manager's driver at work: with node managers on modelled hosts and clients
//! in one simulated world, for several seeds.

mod client;
mod cluster;
mod contents;
mod seeds;

mod attached;
mod deaths;
mod durability;
mod endings;
mod launches;
mod queues;
mod restart;
