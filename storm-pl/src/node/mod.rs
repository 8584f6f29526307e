//! The NM's side of the keeper: starting it, commanding it, hearing from it.

mod event;
mod handle;
mod keeper;
mod pad_time;
mod pads;

pub use event::{Event, KeeperEvents};
pub use handle::{KeeperHandle, LaunchError, Launching, OwnEnds, PlEnds};
pub use keeper::{Keeper, KeeperConfig, NAME_RULE, StartError, StartMethod, is_name, keeper_main};
