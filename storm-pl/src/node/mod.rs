//! The NM's side of the keeper: starting it, commanding it, hearing from it.

mod event;
mod handle;
mod keeper;
mod pads;
mod takeover;

pub use event::{Event, KeeperEvents};
pub use handle::{KeeperHandle, LaunchError, Launching, OwnEnds, PlEnds};
pub use keeper::{Keeper, KeeperConfig, StartError, StartMethod, keeper_main};
pub use takeover::{InheritedEnds, InheritedJob, InheritedLaunch, InheritedRank};
