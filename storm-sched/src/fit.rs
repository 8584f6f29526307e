//! How the columns of a job are chosen inside a row of the matrix.

/// The choice of columns inside a row for a job that names no node count. A job that names a node
/// count gets the first nodes with room instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// One aligned buddy block, rounded up to a power of two.
    Block,
    /// A union of buddy blocks, largest first: the fallback of [`crate::BuddyTree`] for holes and
    /// odd sizes.
    Pieces,
    /// One column per process, out of one block if possible. Space sharing uses it, because
    /// rounding up would only waste columns there.
    Exact,
    /// One column per process: the lowest free ones.
    Left,
    /// One column per process: the highest free ones.
    Right,
}
