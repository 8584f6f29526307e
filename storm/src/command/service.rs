//! `priority` and `shares`: the urgency of waiting jobs, and the usage of accounts and users.

use super::listing::{first_unknown, no_such_job};
use super::misunderstood::misunderstood;
use super::naming::resolve;
use super::{connect, note, print};
use crate::cli::{PriorityOptions, SharesOptions};
use crate::failure::Failure;
use crate::output::{Numbered, Output, Sheet};
use std::collections::BTreeSet;
use storm_mm::api::{ManagerRequest, PriorityView, Reply, ShareView};
use storm_rm::JobId;
use storm_sched::PriorityUse;

pub(super) async fn priority(options: PriorityOptions, output: &dyn Output) -> Result<u8, Failure> {
    let mut client = connect(&options.cluster).await?;
    let jobs = resolve(&mut client, &options.jobs).await?;
    match client.call(ManagerRequest::Priority { jobs: jobs.clone() }).await? {
        Reply::Priorities { jobs: waiting, left } => {
            let is_listed = |job: &JobId| {
                let is_it = |view: &PriorityView| {
                    view.job == *job || view.array.is_some_and(|task| task.array == *job)
                };
                waiting.iter().any(is_it)
            };
            let others: Vec<JobId> = jobs.into_iter().filter(|job| !is_listed(job)).collect();
            if let Some(unknown) = first_unknown(&mut client, others.clone()).await? {
                return Err(no_such_job(unknown));
            }
            for job in others {
                note(&output.note(&format!("job {job} is not waiting, so it has no priority")));
            }
            print(&output.sheet(&priorities(&waiting, left))).map(|()| 0)
        }
        other => Err(misunderstood(&other)),
    }
}

pub(super) async fn shares(options: SharesOptions, output: &dyn Output) -> Result<u8, Failure> {
    match connect(&options.cluster).await?.call(ManagerRequest::Shares).await? {
        Reply::Shares { shares } => print(&output.sheet(&tree(&shares))).map(|()| 0),
        other => Err(misunderstood(&other)),
    }
}

fn priorities(jobs: &[PriorityView], left: u32) -> Sheet {
    let columns = [
        ">JOB",
        "PARTITION",
        "USER",
        "ACCOUNT",
        "QOS",
        ">PRIORITY",
        ">+AGE",
        ">+SIZE",
        ">+FAIR SHARE",
        ">+QOS",
        ">+PARTITION",
        ">-NICE",
    ];
    let text = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
    let row = |job: &PriorityView| {
        let factors = &job.factors;
        vec![
            job.job_name(),
            job.partition.clone(),
            job.user.name.clone(),
            text(&job.account),
            text(&job.qos),
            job.priority.to_string(),
            factors.age.to_string(),
            factors.size.to_string(),
            factors.fair_share.to_string(),
            factors.qos.to_string(),
            factors.partition.to_string(),
            job.nice.to_string(),
        ]
    };
    let document: Vec<_> = jobs.iter().map(|job| Numbered { id: job.job, told: job }).collect();
    let sheet = Sheet::new(&document).table(columns, jobs.iter().map(row));
    let sheet = uses(jobs).into_iter().fold(sheet, Sheet::note);
    match left {
        0 => sheet,
        _ => sheet.note(format!("and {left} more of lower priority: name jobs to see them")),
    }
}

/// The role of priorities in each partition where they do not decide alone.
fn uses(jobs: &[PriorityView]) -> Vec<String> {
    let uses: BTreeSet<(&str, &str)> = jobs
        .iter()
        .filter_map(|job| {
            let said = match job.counts {
                PriorityUse::Always => return None,
                PriorityUse::First => {
                    "the job with the highest priority starts next; jobs that pass it start in the \
                     order of their time limits, the shortest first"
                }
                PriorityUse::AmongEqualLimits => {
                    "the shortest time limit starts first, and priorities decide among equal limits \
                     only"
                }
            };
            Some((job.partition.as_str(), said))
        })
        .collect();
    uses.into_iter().map(|(partition, said)| format!("in partition {partition} {said}")).collect()
}

fn tree(shares: &[ShareView]) -> Sheet {
    let columns =
        ["ACCOUNT", "USER", ">SHARES", ">OF SIBLINGS", ">USAGE (PE s)", ">OF ALL", ">FAIR SHARE"];
    let row = |line: &ShareView| {
        let indent = "  ".repeat(line.depth as usize);
        vec![
            format!("{indent}{}", line.account),
            line.user.as_ref().map_or_else(|| "-".to_owned(), |user| user.name.clone()),
            line.shares.to_string(),
            format!("{:.4}", line.share_of_siblings),
            format!("{:.1}", line.usage_pe_s),
            format!("{:.4}", line.usage_of_all),
            line.fair_share.map_or_else(|| "-".to_owned(), |factor| format!("{factor:.6}")),
        ]
    };
    Sheet::new(&shares).table(columns, shares.iter().map(row))
}
