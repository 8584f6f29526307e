//! What communicators are made of: contexts agreed on by their members, groups, splitting, Cartesian
//! grids, and graphs. All of it is local arithmetic, but the agreement, at once or in the background, and how two
//! groups get to know each other.

mod cartesian;
mod claim;
mod context;
mod graph;
mod group;
mod introduction;
mod split;

pub use cartesian::{Cartesian, GridError, balanced_dims};
pub use claim::{ATTEMPTS, claim, keep_between};
pub use context::{ContextId, ContextPool, FreeContexts};
pub use graph::{Edge, Graph, Link};
pub use group::{Comparison, Group};
pub use introduction::{Introduction, Refusal};
pub use split::{Choice, chosen_together, of_color};
