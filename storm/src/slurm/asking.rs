//! The manager that Slurm's commands ask, and its refusals in Slurm's words.

use super::complaint::Complaint;
use crate::cli::ClusterOptions;
use crate::command::choices;
use crate::command::misunderstood::misunderstood;
use crate::failure::Failure;
use crate::manager::Manager;
use crate::target::Place;
use nix::unistd::{Group, User, getegid, geteuid};
use storm_mm::api::{JobView, ManagerRequest, Reply};
use storm_slurm::JobName;
use storm_slurm::options::CommandLine;
use storm_slurm::view::json::Asked;

/// The cluster, which variables name: Slurm's commands have no option for it.
pub(super) fn place() -> Result<Place, Failure> {
    choices(&ClusterOptions::default())?.required().map_err(|failure| match &*failure.code {
        "no-cluster" => failure.hint(
            "`storm up` starts one on this machine; the variable STORM_SOCKET names another, \
             STORM_MANAGER one on another host",
        ),
        _ => failure,
    })
}

/// The manager.
pub(super) fn manager() -> Result<Manager, Failure> {
    place()?.open()
}

/// The name of the cluster, if `-M` names it or says `all`. Refuses the name of another cluster.
pub(super) async fn named_cluster(
    line: &CommandLine,
    place: &Place,
) -> Result<Option<String>, Complaint> {
    let named = line.list("clusters");
    if named.is_empty() {
        return Ok(None);
    }
    let mut client = place.open()?.connect().await.map_err(Failure::from)?;
    let status = client.call(ManagerRequest::Status).await.map_err(Failure::from)?;
    let Reply::Status { status } = status else { return Err(misunderstood(&status).into()) };
    match named.iter().find(|name| **name != "all" && **name != status.cluster) {
        None => Ok(Some(status.cluster)),
        Some(name) => Err(Complaint::error(format!(
            "'{name}' can't be reached now, or it is an invalid entry for --cluster."
        ))
        .and_told(format!("there is one cluster, {}", status.cluster))),
    }
}

/// The user and the words of the command, for documents of JSON.
pub(super) fn asked() -> Asked {
    let mut words = std::env::args().map(|word| word.chars().take(MAX_WORD_CHARS).collect());
    let name: Option<String> = words.next();
    let name = name.map(|path| path.rsplit('/').next().unwrap_or_default().to_owned());
    let user = User::from_uid(geteuid()).ok().flatten().map(|user| user.name);
    let group = Group::from_gid(getegid()).ok().flatten().map(|group| group.name);
    Asked {
        command: name.into_iter().chain(words).collect(),
        user: user.unwrap_or_default(),
        group: group.unwrap_or_default(),
    }
}

/// The most characters of a word that are shown.
const MAX_WORD_CHARS: usize = 1024;

/// Whether a name means a job.
pub(super) fn means(name: &JobName, job: &JobView) -> bool {
    name.means(job.id.0, job.array.map(|task| (task.array.0, task.index)))
}

/// A job that was not accepted: our reason, and Slurm's text, by which clients know it.
pub(super) fn refused_submission(failure: Failure, what: &str) -> Complaint {
    let Some(slurm) = in_slurms_words(&failure) else { return failure.into() };
    reason(failure).and_error(format!("{what} submission failed: {slurm}"))
}

/// A job that would not be accepted.
pub(super) fn refused_test(failure: Failure) -> Complaint {
    let slurm = in_slurms_words(&failure).unwrap_or("Job violates accounting/QOS policy");
    reason(failure).and_told(format!("allocation failure: {slurm}"))
}

fn reason(failure: Failure) -> Complaint {
    let texts: Vec<String> = std::iter::once(failure.message).chain(failure.causes).collect();
    Complaint::error(texts.join(": "))
}

/// Slurm's text for a refusal, if it has one.
fn in_slurms_words(failure: &Failure) -> Option<&'static str> {
    Some(match failure.code.as_str() {
        "no-such-partition" => "Invalid partition name specified",
        "no-such-account" => "Invalid account or account/partition combination specified",
        "no-such-qos" => "Invalid qos specification",
        "no-such-reservation" => "Requested reservation is invalid",
        "no-such-job" => "Job dependency problem",
        "infeasible" => "Requested node configuration is not available",
        "not-permitted" => "Access/permission denied",
        "queue-full" => "Slurm temporarily unable to accept job",
        "no-manager" | "no-cluster" | "connection" => {
            "Unable to contact slurm controller (connect failure)"
        }
        _ => return None,
    })
}
