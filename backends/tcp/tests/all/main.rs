//! Clusters with all nodes on one thread, with and without real connections. Tests that start
//! processes (`conformance_processes`) or change a limit of their own process (`strangers`) are
//! separate programs.

mod cluster;
mod conformance_local;
mod conformance_sealed;
mod engine;
mod engine_world;
mod hostile;
mod local_cluster;
mod marks;
mod own_stores;
mod references;
