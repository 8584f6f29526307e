//! The tests of buffered coscheduling, one program.

mod checkpoints;
mod collectives;
mod endings;
mod lockstep;
mod messages;
mod rank_collectives;
mod ranks;
mod replaced;
mod resting;
mod sockets;
mod timing;
