//! What communicators are made of: contexts agreed on by their members, groups, splitting, Cartesian
//! grids, and graphs. All of it is local arithmetic, but the agreement, which is one reduction.

mod cartesian;
mod context;
mod graph;
mod group;
mod split;

pub use cartesian::{Cartesian, GridError, balanced_dims};
pub use context::{ContextId, ContextPool};
pub use graph::{Edge, Graph, Link};
pub use group::{Comparison, Group};
pub use split::{Choice, chosen_together};
