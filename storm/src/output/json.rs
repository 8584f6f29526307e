//! For programs: one JSON value per result, on one line.

use super::{ArrayStates, Campaign, Changed, Output, Sheet, Simulated};
use crate::failure::Failure;
use crate::local_cluster::KeptCluster;
use crate::outcome::Outcome;
use serde::Serialize;
use serde_json::json;
use std::path::Path;
use storm_mm::api::{
    API_VERSION, Explanation, JobDetail, JobView, NodeView, PartitionView, ReservationView,
};
use storm_rm::JobId;

/// Prints JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonOutput;

impl Output for JsonOutput {
    fn jobs(&self, jobs: &[JobView]) -> String {
        line(&jobs)
    }

    fn steps(&self, jobs: &[JobView]) -> String {
        line(&jobs)
    }

    fn job(&self, job: &JobDetail, array: Option<&ArrayStates>) -> String {
        line(&OfArray { told: job, array_jobs: array })
    }

    fn explanation(&self, explanation: &Explanation, array: Option<&ArrayStates>) -> String {
        let told = Numbered { id: explanation.job, told: explanation };
        line(&OfArray { told: &told, array_jobs: array })
    }

    fn nodes(&self, nodes: &[NodeView], _each: bool) -> String {
        line(&nodes)
    }

    fn partitions(&self, partitions: &[PartitionView]) -> String {
        line(&partitions)
    }

    fn partition(&self, partition: &PartitionView) -> String {
        line(partition)
    }

    fn reservations(&self, reservations: &[ReservationView]) -> String {
        line(&reservations)
    }

    fn reservation(&self, reservation: &ReservationView) -> String {
        line(reservation)
    }

    fn unreserved(&self, name: &str) -> String {
        line(&json!({ "deleted": name }))
    }

    fn submitted(&self, job: JobId) -> String {
        line(&json!({ "id": job, "job": job }))
    }

    fn changed(&self, outcomes: &[Changed], _done: &str) -> String {
        let named = |changed| Named { changed, job: changed.id };
        line(&outcomes.iter().map(named).collect::<Vec<_>>())
    }

    fn unchanged(&self, _outcomes: &[Changed]) -> String {
        String::new()
    }

    fn drained(&self, nodes: &str, drained: bool) -> String {
        line(&json!({ "nodes": nodes, "drained": drained }))
    }

    fn up(&self, kept: &KeptCluster) -> String {
        line(kept)
    }

    fn down(&self, ended: bool) -> String {
        line(&json!({ "ended": ended }))
    }

    fn key(&self, file: &Path, id: &str, user: Option<&str>) -> String {
        match user {
            None => line(&json!({ "key": id, "file": file })),
            Some(user) => line(&json!({ "key": id, "user": user, "file": file })),
        }
    }

    fn sheet(&self, sheet: &Sheet) -> String {
        line(sheet.json())
    }

    fn simulation(&self, run: &Simulated<'_>) -> String {
        line(run)
    }

    fn campaign(&self, campaign: &Campaign) -> String {
        line(campaign)
    }

    fn version(&self) -> String {
        line(&json!({ "version": env!("CARGO_PKG_VERSION"), "api_version": API_VERSION }))
    }

    fn outcome(&self, outcome: &Outcome, _launch_of: Option<u32>) -> String {
        let Outcome { job, state, exit_code, reason, breakdown, node_list, .. } = outcome;
        let mut told = json!({
            "id": job,
            "job": job,
            "state": state,
            "exit_code": exit_code,
            "reason": reason,
            "node_list": node_list,
            "breakdown": breakdown,
        });
        if let Some(Some(step)) = outcome.step {
            told["step"] = step.into();
        }
        line(&told)
    }

    fn is_for_programs(&self) -> bool {
        true
    }

    fn note(&self, _text: &str) -> String {
        String::new()
    }

    fn warning(&self, text: &str) -> String {
        line(&json!({ "warning": text }))
    }

    fn failure(&self, failure: &Failure) -> String {
        let Failure { code, message, causes, hint, exit } = failure;
        line(&json!({ "error": {
            "code": code,
            "message": message,
            "causes": causes,
            "hint": hint,
            "exit_code": exit,
        }}))
    }
}

/// A job's number as `id`, as in listings, and also as `job`, its former name.
#[derive(Serialize)]
struct Named<'a> {
    job: Option<JobId>,
    #[serde(flatten)]
    changed: &'a Changed,
}

/// A reply that has the job's number as `job`, with the number added as `id`, as in listings.
#[derive(Serialize)]
pub(crate) struct Numbered<'a, T> {
    pub(crate) id: JobId,
    /// The manager's reply.
    #[serde(flatten)]
    pub(crate) told: &'a T,
}

/// A reply about a job, with the states of its array's jobs if the user named the array.
#[derive(Serialize)]
struct OfArray<'a, T> {
    #[serde(flatten)]
    told: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    array_jobs: Option<&'a ArrayStates>,
}

fn line(value: &impl Serialize) -> String {
    // Cannot fail: the values hold no map whose keys are not text.
    serde_json::to_string(value).map(|text| text + "\n").unwrap_or_default()
}
