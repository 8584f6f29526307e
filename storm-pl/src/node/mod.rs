//! The NM's side of the keeper: starts it, sends commands, and receives its reports.

mod event;
mod former;
mod handle;
mod inherited_pads;
mod keeper;
mod lines;
mod outbox;
mod pad_time;
mod pads;
mod source;
mod streams;
mod takeover;

pub use event::{Event, KeeperEvents};
pub use handle::{KeeperHandle, LaunchError, Launching};
pub use keeper::{Keeper, KeeperConfig, NAME_RULE, StartError, StartMethod, is_name, keeper_main};
pub use streams::{LineEnds, OwnEnds, PlEnds};
pub use takeover::{InheritedJob, InheritedLaunch, InheritedRank};
