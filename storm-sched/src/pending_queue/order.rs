//! The orders in which the waiting jobs are walked.

/// An order of the waiting jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The order of the queue: by priority, then by submission.
    Queue,
    /// The shortest estimate first, and in queue order among equals.
    ShortestFirst,
}
