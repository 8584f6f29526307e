//! The failures of a case.

use super::{Command, Reply};
use crate::NodeId;
use std::fmt::Debug;
use std::time::Duration;
use thiserror::Error;

/// Why a case does not hold on a backend.
#[derive(Debug, Error)]
pub enum Failure {
    /// The backend broke the contract.
    #[error("{what}: expected {expected}, saw {seen}")]
    Differs {
        /// The checked thing.
        what: String,
        /// The demand of the contract.
        expected: String,
        /// The behaviour of the backend.
        seen: String,
    },
    /// A command that must end did not.
    #[error("{node} did not answer within {limit:?} of the cluster's clock: {command:?}")]
    NoAnswer {
        /// The node that was sent the command.
        node: NodeId,
        /// The command that the node was sent.
        command: Box<Command>,
        /// How long the suite waited.
        limit: Duration,
    },
    /// A node has died that the suite has not killed.
    #[error("{node} was gone when asked: {command:?}")]
    NodeGone {
        /// The node that was sent the command.
        node: NodeId,
        /// The command that the node was sent.
        command: Box<Command>,
    },
    /// The agent's answer does not fit its command. The adapter is at fault, not the backend.
    #[error("{node} gave an answer of the wrong kind: {reply:?}")]
    WrongKind {
        /// The node that was sent the command.
        node: NodeId,
        /// The answer.
        reply: Box<Reply>,
    },
    /// The adapter promised a capability that it does not have.
    #[error("the cluster cannot {ability}, though its factory says so")]
    Unsupported {
        /// The ability that the case needs.
        ability: &'static str,
    },
    /// A bounded search found no end.
    #[error("{what} went on for more than {limit} steps")]
    Endless {
        /// The name of the search.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
    /// There was no cluster to test, or it did not carry the case to its end.
    #[error("the cluster did not run")]
    DidNotRun(#[from] RunError),
}

/// Why a factory could not start a cluster or run a case on it to the end.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct RunError(#[from] Box<dyn std::error::Error>);

impl RunError {
    /// Wraps any error of a factory.
    pub fn new(source: impl Into<Box<dyn std::error::Error>>) -> RunError {
        RunError(source.into())
    }
}

/// `Ok` if `seen` is the `expected` value of `what`.
///
/// # Errors
/// [`Failure::Differs`] otherwise.
pub(crate) fn expect<T: PartialEq + Debug>(
    what: impl Into<String>,
    expected: T,
    seen: T,
) -> Result<(), Failure> {
    if expected == seen {
        return Ok(());
    }
    differs(what, format!("{expected:?}"), format!("{seen:?}"))
}

/// A [`Failure::Differs`] for conditions that are not an equality.
pub(crate) fn differs<T>(
    what: impl Into<String>,
    expected: impl Into<String>,
    seen: impl Into<String>,
) -> Result<T, Failure> {
    Err(Failure::Differs { what: what.into(), expected: expected.into(), seen: seen.into() })
}
