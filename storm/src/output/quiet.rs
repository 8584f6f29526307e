//! For shell scripts: only ids and states, and nothing if the exit status is enough.

use super::table::failure_text;
use super::zone::Zone;
use super::{
    ArrayStates, Campaign, Changed, Output, Sheet, Simulated, campaign, simulation, written,
};
use crate::failure::Failure;
use crate::local_cluster::KeptCluster;
use crate::outcome::Outcome;
use std::fmt::Write;
use std::path::Path;
use storm_mm::api::{Explanation, JobDetail, JobView, NodeView, PartitionView, ReservationView};
use storm_rm::JobId;

/// Prints ids and states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuietOutput;

impl Output for QuietOutput {
    fn jobs(&self, jobs: &[JobView]) -> String {
        jobs.iter().fold(String::new(), |mut text, job| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} {}", job.job_name(), job.state);
            text
        })
    }

    fn steps(&self, jobs: &[JobView]) -> String {
        let all = jobs.iter().flat_map(|job| job.steps.iter().map(move |step| (job, step)));
        all.fold(String::new(), |mut text, (job, step)| {
            let _ = writeln!(text, "{}.{} {}", job.job_name(), step.step, step.state);
            text
        })
    }

    fn job(&self, job: &JobDetail, _array: Option<&ArrayStates>) -> String {
        format!("{}\n", job.view.state)
    }

    fn explanation(&self, explanation: &Explanation, _array: Option<&ArrayStates>) -> String {
        format!("{}\n", written::local(&explanation.reason, &Zone::of_user()))
    }

    fn nodes(&self, nodes: &[NodeView], _each: bool) -> String {
        nodes.iter().fold(String::new(), |mut text, node| {
            let _ = writeln!(text, "{} {}", node.name, node.state);
            text
        })
    }

    fn partitions(&self, partitions: &[PartitionView]) -> String {
        partitions.iter().map(|partition| self.partition(partition)).collect()
    }

    fn partition(&self, partition: &PartitionView) -> String {
        format!("{} {}\n", partition.name, partition.sched)
    }

    fn reservations(&self, reservations: &[ReservationView]) -> String {
        reservations.iter().map(|reservation| self.reservation(reservation)).collect()
    }

    fn reservation(&self, reservation: &ReservationView) -> String {
        format!("{} {}\n", reservation.name, reservation.node_list)
    }

    fn unreserved(&self, _name: &str) -> String {
        String::new()
    }

    fn submitted(&self, job: JobId) -> String {
        format!("{job}\n")
    }

    fn changed(&self, _outcomes: &[Changed], _done: &str) -> String {
        String::new()
    }

    fn unchanged(&self, outcomes: &[Changed]) -> String {
        outcomes.iter().fold(String::new(), |mut text, outcome| {
            if let Some(error) = &outcome.error {
                let _ = writeln!(text, "{} {error}", outcome.name);
            }
            text
        })
    }

    fn drained(&self, _nodes: &str, _drained: bool) -> String {
        String::new()
    }

    fn up(&self, _kept: &KeptCluster) -> String {
        String::new()
    }

    fn down(&self, _ended: bool) -> String {
        String::new()
    }

    fn key(&self, _file: &Path, id: &str, _user: Option<&str>) -> String {
        format!("{id}\n")
    }

    fn sheet(&self, sheet: &Sheet) -> String {
        sheet.bare()
    }

    fn simulation(&self, run: &Simulated<'_>) -> String {
        simulation::bare(run)
    }

    fn campaign(&self, campaign: &Campaign) -> String {
        campaign::bare(campaign)
    }

    fn version(&self) -> String {
        format!("{}\n", env!("CARGO_PKG_VERSION"))
    }

    fn outcome(&self, _outcome: &Outcome, _launch_of: Option<u32>) -> String {
        String::new()
    }

    fn note(&self, _text: &str) -> String {
        String::new()
    }

    fn failure(&self, failure: &Failure) -> String {
        failure_text(failure)
    }
}
