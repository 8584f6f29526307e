//! Replays in virtual time: published digits, laws of generated workloads, packing.

mod lublin_laws;
mod packing;
mod published;
mod time_sharing;
