//! The output of commands: one trait with a form each for users, for programs, and for scripts that
//! want as little as possible.

mod array_states;
mod campaign;
mod changed;
mod folded_nodes;
mod folded_tasks;
mod json;
mod partition;
mod quiet;
mod reservation;
mod sheet;
mod simulation;
mod steps;
mod table;
mod table_form;
mod written;
mod zone;

pub(crate) use array_states::ArrayStates;
pub(crate) use campaign::{Campaign, FailedSeed};
pub(crate) use changed::Changed;
pub(crate) use json::{JsonOutput, Numbered};
pub(crate) use quiet::QuietOutput;
pub(crate) use sheet::Sheet;
pub(crate) use simulation::{RealCost, Simulated};
pub(crate) use table::TableOutput;

use crate::cli::DisplayOptions;
use crate::failure::Failure;
use crate::local_cluster::KeptCluster;
use crate::outcome::Outcome;
use std::path::Path;
use storm_mm::api::{Explanation, JobDetail, JobView, NodeView, PartitionView, ReservationView};
use storm_rm::JobId;

/// Turns results into text, line feeds included.
pub(crate) trait Output {
    /// A listing of jobs.
    fn jobs(&self, jobs: &[JobView]) -> String;
    /// A listing of the steps of jobs.
    fn steps(&self, jobs: &[JobView]) -> String;
    /// Everything about a job. `array` has the states of its array, if the user named the array.
    fn job(&self, job: &JobDetail, array: Option<&ArrayStates>) -> String;
    /// The reason why a job does not run; `array` is as for [`job`](Self::job).
    fn explanation(&self, explanation: &Explanation, array: Option<&ArrayStates>) -> String;
    /// The nodes: each of them, or grouped if they are equal.
    fn nodes(&self, nodes: &[NodeView], each: bool) -> String;
    /// A listing of partitions.
    fn partitions(&self, partitions: &[PartitionView]) -> String;
    /// Everything about a partition.
    fn partition(&self, partition: &PartitionView) -> String;
    /// A listing of reservations.
    fn reservations(&self, reservations: &[ReservationView]) -> String;
    /// Everything about a reservation.
    fn reservation(&self, reservation: &ReservationView) -> String;
    /// A reservation was deleted.
    fn unreserved(&self, name: &str) -> String;
    fn submitted(&self, job: JobId) -> String;
    /// The jobs that were changed; `done` names the change. Programs also get the errors of the
    /// others.
    fn changed(&self, outcomes: &[Changed], done: &str) -> String;
    /// The jobs that were not changed, and why: for standard error.
    fn unchanged(&self, outcomes: &[Changed]) -> String;
    /// These nodes take no further jobs if `drained`, else they take jobs again.
    fn drained(&self, nodes: &str, drained: bool) -> String;
    fn up(&self, kept: &KeptCluster) -> String;
    /// A cluster was ended; `ended` is false if there was none.
    fn down(&self, ended: bool) -> String;
    /// The key in this file: a cluster's, known by its name, or a user's, known by its serial
    /// number.
    fn key(&self, file: &Path, id: &str, user: Option<&str>) -> String;
    /// Values and tables.
    fn sheet(&self, sheet: &Sheet) -> String;
    /// The result of a simulation.
    fn simulation(&self, run: &Simulated<'_>) -> String;
    /// The result of a simulation under many seeds.
    fn campaign(&self, campaign: &Campaign) -> String;
    fn version(&self) -> String;
    /// How a followed job ended: for standard error. People see its launch times only if
    /// `launch_of` has the number of its processes.
    fn outcome(&self, outcome: &Outcome, launch_of: Option<u32>) -> String;
    /// A line about the progress of a command: for standard error.
    fn note(&self, text: &str) -> String;
    /// A line about a consequence that the user may not expect: for standard error, in every form.
    fn warning(&self, text: &str) -> String {
        format!("storm: {text}\n")
    }
    /// Whether programs read the output; they want all the data.
    fn is_for_programs(&self) -> bool {
        false
    }
    /// A failure: for standard error.
    fn failure(&self, failure: &Failure) -> String;
}

/// The manager's text for a terminal, without control characters and with times in the user's zone.
pub(crate) fn for_people(text: &str) -> String {
    written::local(&written::safe(text), &zone::Zone::of_user())
}

/// The form that the user chose.
pub(crate) fn chosen(options: DisplayOptions) -> Box<dyn Output> {
    if options.json {
        Box::new(JsonOutput)
    } else if options.quiet {
        Box::new(QuietOutput)
    } else {
        Box::new(TableOutput::new(zone::Zone::of_user()))
    }
}

#[cfg(test)]
mod tests;
