//! The policy's own account (queue, running jobs, active row, rows) agrees with the effect of its
//! actions on the machine. Its internal check passes.

use std::collections::BTreeSet;

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{JobId, NodeIndex, Row};

/// The policy's account agrees with its actions.
#[derive(Debug)]
pub struct SameState;

#[derive(Debug, thiserror::Error)]
enum Differs {
    #[error("the policy says that {policy:?} wait, in this order, and {actual:?} do")]
    Pending { policy: Vec<JobId>, actual: Vec<JobId> },
    #[error("the policy says that {policy:?} hold PEs, and {actual:?} do")]
    Running { policy: Vec<JobId>, actual: Vec<JobId> },
    #[error("the policy says that row {policy:?} is active, and row {actual:?} is")]
    Active { policy: Option<Row>, actual: Option<Row> },
    #[error("the policy says that {policy:?} live in row {row}, and {actual:?} do")]
    Row { row: Row, policy: BTreeSet<JobId>, actual: BTreeSet<JobId> },
    #[error("the policy says that {policy:?} are guests of row {row}, and {actual:?} are")]
    Guests { row: Row, policy: BTreeSet<JobId>, actual: BTreeSet<JobId> },
    #[error("the policy shows rows {policy:?}, and jobs live in {actual:?}")]
    Rows { policy: Vec<Row>, actual: Vec<Row> },
    #[error("the policy has node {0} in another state")]
    Node(NodeIndex),
}

impl Invariant for SameState {
    fn name(&self) -> &'static str {
        "the policy believes what its actions say"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        step.policy.check()?;
        check_jobs(step)?;
        check_rows(step)?;
        let (policy, actual) = (step.policy.machine().nodes(), step.after.machine.nodes());
        let other = (0..).map(NodeIndex).zip(policy.iter().zip(actual)).find(|(_, (p, a))| p != a);
        other.map_or(Ok(()), |(node, _)| Err(Differs::Node(node).into()))
    }
}

fn check_jobs(step: &Step<'_>) -> Result<(), Differs> {
    let policy = step.policy.pending();
    let actual: Vec<JobId> = step.after.queue.iter().map(|request| request.id).collect();
    if policy != actual {
        return Err(Differs::Pending { policy, actual });
    }
    let policy = step.policy.running();
    let held: BTreeSet<&JobId> =
        step.after.running.keys().chain(step.after.suspended.keys()).collect();
    let actual: Vec<JobId> = held.into_iter().copied().collect();
    if policy != actual {
        return Err(Differs::Running { policy, actual });
    }
    Ok(())
}

fn check_rows(step: &Step<'_>) -> Result<(), Differs> {
    let (policy, actual) = (step.policy.active_row(), step.after.active);
    if policy != actual {
        return Err(Differs::Active { policy, actual });
    }
    let rows = step.policy.rows();
    let policy: Vec<Row> = rows.iter().map(|row| row.number).collect();
    let actual: Vec<Row> = step.after.live_rows().into_iter().collect();
    if policy != actual {
        return Err(Differs::Rows { policy, actual });
    }
    for view in rows {
        let row = view.number;
        let policy: BTreeSet<JobId> = view.jobs.iter().map(|job| job.job).collect();
        let here = step.after.running.iter().filter(|(_, running)| running.row == row);
        let actual: BTreeSet<JobId> = here.map(|(job, _)| *job).collect();
        if policy != actual {
            return Err(Differs::Row { row, policy, actual });
        }
        let policy: BTreeSet<JobId> = view.guests.iter().copied().collect();
        let guests = step.after.running.iter();
        let guests = guests.filter(|(_, running)| running.alternates.contains(&row));
        let actual: BTreeSet<JobId> = guests.map(|(job, _)| *job).collect();
        if policy != actual {
            return Err(Differs::Guests { row, policy, actual });
        }
    }
    Ok(())
}
