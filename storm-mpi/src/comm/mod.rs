//! The parts of communicators: contexts agreed on by their members, groups, splitting, Cartesian
//! grids, and graphs. All of it is local arithmetic, except the agreement (blocking or in the
//! background) and the introduction of two groups.

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
