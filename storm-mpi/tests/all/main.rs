//! The wire of PMI-1, and whole jobs of real processes on simulated nodes of this host. `messages`
//! is a program of its own: an emulated machine runs it, too.

mod collectives;
mod communicators;
mod in_place;
mod pmi_wire;
