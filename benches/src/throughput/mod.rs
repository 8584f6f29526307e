//! One-process jobs per second from submission to end, for each way of a system to submit them.

mod hydra_jobs;
mod job_system;
mod slurm_jobs;
mod storm_jobs;
mod way;

pub use hydra_jobs::HydraJobs;
pub use job_system::JobSystem;
pub use slurm_jobs::SlurmJobs;
pub use storm_jobs::StormJobs;
pub use way::{CLIENTS, Sample, Way};
