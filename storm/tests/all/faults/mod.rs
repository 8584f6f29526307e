//! Faults of a running cluster. Node Managers are killed, frozen or cut off in each phase of a job;
//! disks are full; clients vanish; and nodes come late or don't belong. Daemons and processes are
//! real. Nothing may hang, and nothing may be left (`docs/robustness.md`).

mod clients;
mod cut_off;
mod disk;
mod leases;
mod network;
mod nodes;
pub(crate) mod phase;
mod strangers;
mod work_dir;
