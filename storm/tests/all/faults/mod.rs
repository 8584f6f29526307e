//! Faults of a running cluster: Node Managers that are killed, frozen or cut off in each
//! phase of a job, a full disk, clients that vanish, nodes that come late or do not
//! belong. Real daemons, real processes; nothing hangs, and nothing is left
//! (`docs/robustness.md`).

mod clients;
mod cut_off;
mod disk;
mod leases;
mod network;
mod nodes;
mod phase;
mod strangers;
mod work_dir;
