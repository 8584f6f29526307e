//! scontrol(1): changes jobs, waits for one, and writes lists of hosts.

use super::asking::{manager, means, named_cluster, place};
use super::complaint::Complaint;
use super::scontrol_jobs::{Act, alter};
use super::{scontrol_show, scontrol_update, scontrol_write};
use crate::command::listing::list;
use crate::command::print;
use crate::failure::{EXIT_FAILED, Failure};
use crate::manager::Manager;
use std::time::Duration;
use storm_mm::api::{JobFilter, JobState, ManagerRequest};
use storm_rm::JobId;
use storm_slurm::host_list::{expand, fold, fold_sorted};
use storm_slurm::options::CommandLine;
use storm_slurm::{JobName, VERSION};

/// The variable with a job's nodes, for `hostnames` without a list.
const NODES_VARIABLES: [&str; 2] = ["SLURM_JOB_NODELIST", "SLURM_NODELIST"];
/// Time between two looks at a job that `wait_job` waits for; Slurm's own wait is longer.
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn run(line: &CommandLine) -> Result<u8, Complaint> {
    let words: Vec<String> =
        line.operands.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((keyword, words)) = words.split_first() else {
        return Err(Complaint::plain(
            "too few arguments: scontrol reads no commands from its input here",
        )
        .and_told("as in: scontrol show job 7"));
    };
    let is = |name: &str, least: usize| {
        keyword.len() >= least && name.starts_with(&keyword.to_ascii_lowercase())
    };
    if is("version", 4) {
        return Ok(print(&format!("{VERSION}\n")).map(|()| 0)?);
    }
    if is("show", 2) {
        let show_here = words.first().is_none_or(|entity| is_of_hosts(entity));
        return if show_here { show(words) } else { scontrol_show::run(line, words).await };
    }
    named_cluster(line, &place()?).await?;
    match () {
        () if is("hold", 3) || is("uhold", 2) || is("holdu", 5) => {
            alter(line, keyword, words, Act::Hold).await
        }
        () if is("release", 3) => alter(line, keyword, words, Act::Release).await,
        () if is("requeuehold", 8) => alter(line, keyword, words, Act::RequeueHold).await,
        () if is("requeue", 3) => alter(line, keyword, words, Act::Requeue).await,
        () if is("suspend", 2) => alter(line, keyword, words, Act::Suspend).await,
        () if is("resume", 3) => alter(line, keyword, words, Act::Resume).await,
        () if is("write", 1) => scontrol_write::run(words).await,
        () if is("update", 1) => scontrol_update::run(line, words).await,
        () if is("ping", 3) => ping().await,
        () if is("wait_job", 4) => wait_job(keyword, words).await,
        () => Err(not_here(keyword)),
    }
}

/// A keyword that storm has no counterpart for, or that does not exist.
fn not_here(keyword: &str) -> Complaint {
    const OURS: [(&str, &str); 10] = [
        ("create", "`storm reservation` reserves nodes"),
        ("delete", "`storm reservation` deletes a reservation"),
        ("reconfigure", "the manager reads its file anew when it gets SIGHUP"),
        ("shutdown", "`storm down` ends the cluster"),
        ("listpids", "`storm show JOB` lists the ranks of a job"),
        ("notify", "a job's output is a file: write to it"),
        ("reboot", "drain the node by `storm drain`, and reboot its host"),
        ("setdebug", "the variable STORM_LOG sets what a daemon logs"),
        ("token", "clients have keys: `storm key --help`"),
        ("top", "`storm update --nice` of one's other jobs lets a job pass them"),
    ];
    match OURS.iter().find(|(name, _)| *name == keyword.to_ascii_lowercase()) {
        Some((name, instead)) => {
            Complaint::error(format!("{name} is not there yet")).and_told(*instead)
        }
        None => Complaint::plain(format!("invalid keyword: {keyword}")),
    }
}

/// Whether `show` of this entity asks no manager.
fn is_of_hosts(entity: &str) -> bool {
    entity.to_ascii_lowercase().starts_with("host")
}

fn show(words: &[&str]) -> Result<u8, Complaint> {
    let Some((entity, words)) = words.split_first() else {
        return Err(Complaint::plain("too few arguments for keyword:show"));
    };
    let entity = entity.to_ascii_lowercase();
    let hosts = |text: &str| expand(text).map_err(|error| Complaint::plain(error.to_string()));
    match entity.as_str() {
        "hostnames" | "hostname" => {
            let given = words.first().map(|list| (*list).to_owned());
            let variable = || NODES_VARIABLES.iter().find_map(|name| std::env::var(name).ok());
            let list = given.or_else(variable).unwrap_or_default();
            let lines: String = hosts(&list)?.iter().map(|name| format!("{name}\n")).collect();
            Ok(print(&lines).map(|()| 0)?)
        }
        "hostlist" | "hostlistsorted" => {
            let Some(list) = words.first() else {
                return Err(Complaint::plain("invalid hostlist: no names are given"));
            };
            let names = hosts(&names_of(list)?)?;
            let list = match entity.as_str() {
                "hostlist" => fold(names.iter().map(String::as_str)),
                _ => fold_sorted(&names),
            };
            Ok(print(&format!("{list}\n")).map(|()| 0)?)
        }
        _ => Err(Complaint::plain(format!("invalid entity:{entity} for keyword:show "))),
    }
}

/// The names of a list, or those in a file: an absolute path.
fn names_of(list: &str) -> Result<String, Complaint> {
    if !list.starts_with('/') {
        return Ok(list.to_owned());
    }
    let text = std::fs::read_to_string(list)
        .map_err(|error| Complaint::error(format!("{list} cannot be read: {error}")))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(","))
}

async fn ping() -> Result<u8, Complaint> {
    let manager = manager()?;
    let host = match &manager {
        Manager::Socket(_) => nix::unistd::gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        Manager::Remote { address, .. } => {
            address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host).to_owned()
        }
    };
    let is_up = match manager.connect().await {
        Ok(mut client) => client.call(ManagerRequest::Status).await.is_ok(),
        Err(_) => false,
    };
    let state = if is_up { "UP" } else { "DOWN" };
    print(&format!("Slurmctld(primary) at {host} is {state}\n"))?;
    Ok(if is_up { 0 } else { EXIT_FAILED })
}

/// Waits until a job runs.
async fn wait_job(keyword: &str, words: &[&str]) -> Result<u8, Complaint> {
    let Some(word) = words.first() else {
        return Err(Complaint::plain(format!("too few arguments for keyword:{keyword}")));
    };
    let problem = || Complaint::told(format!("Problem running job {word}"));
    let name: JobName = word.parse().map_err(|_| problem())?;
    let mut client = manager()?.connect().await.map_err(Failure::from)?;
    loop {
        let filter = JobFilter { jobs: vec![JobId(name.job)], ..JobFilter::default() };
        let mut jobs = list(&mut client, filter).await?;
        jobs.retain(|job| means(&name, job));
        match jobs.first().map(|job| job.state) {
            None => return Err(problem()),
            Some(JobState::Pending) => tokio::time::sleep(LOOK).await,
            Some(JobState::Running | JobState::Suspended) => return Ok(0),
            Some(_) => return Err(Complaint::told(format!("Job {word} no longer running"))),
        }
    }
}
