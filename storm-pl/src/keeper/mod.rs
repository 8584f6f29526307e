//! The keeper: the tiny single-threaded parent of every application process of the node.

mod abandoned;
mod claim;
pub(crate) mod door;
mod fill;
mod keeper_process;
mod kept;
mod leases;
mod leftovers;
mod memory;
mod pad;
mod place;
mod process_state;

pub use door::keeper_at;
pub(crate) use keeper_process::run_keeper;
pub(crate) use kept::Keeps;
pub use kept::{KeptId, Survival};
pub use leftovers::Leftovers;
pub use memory::give_back_heap;
pub use place::{PlaceFailure, PlaceSpec, PlaceStep};
pub(crate) use process_state::IGNORED;
