//! The NM's side of the keeper: starting it, commanding it, hearing from it.

mod event;
mod handle;
mod keeper;
mod pads;
mod streams;
mod takeover;

pub use event::{Event, KeeperEvents};
pub use handle::{KeeperHandle, LaunchError, Launching};
pub use keeper::{Keeper, KeeperConfig, StartError, StartMethod, keeper_main};
pub use streams::{OwnEnds, PlEnds};
pub use takeover::{InheritedJob, InheritedLaunch, InheritedRank};
