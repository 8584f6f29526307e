//! Clusters whose nodes share a thread, over real connections and none. What starts
//! processes (`conformance_processes`) or changes a limit of its own (`strangers`) is a
//! program apart.

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
