//! `scontrol show`: records of `Key=Value`, on several lines or one.

mod config;
mod job;
mod node;
mod partition;
mod record;
mod reservation;
mod step;

pub use config::{ConfigFacts, config};
pub use job::{JobPart, job};
pub use node::node;
pub use partition::partition;
pub use reservation::{RESERVATION_HEADS, ReservationFacts, reservation, reservation_row};
pub use step::step;
