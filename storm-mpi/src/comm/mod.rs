//! What communicators are made of: contexts agreed on by their members, groups, splitting, and
//! Cartesian grids. All of it is local arithmetic, but the agreement, which is one reduction.

mod cartesian;
mod context;
mod group;
mod split;

pub use cartesian::{Cartesian, GridError, balanced_dims};
pub use context::{ContextId, ContextPool};
pub use group::{Comparison, Group};
pub use split::{Choice, chosen_together};
