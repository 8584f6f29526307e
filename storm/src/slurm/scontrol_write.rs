//! `scontrol write batch_script JOB [FILE]`: the script of a job.

use super::asking::manager;
use super::complaint::Complaint;
use super::scontrol_jobs::{INVALID_JOB, in_slurms_words, named};
use crate::command::misunderstood::misunderstood;
use crate::command::print;
use crate::failure::Failure;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use storm_mm::api::{ApiError, Client, ClientError, ManagerRequest, Reply};
use storm_rm::JobId;

/// A name that stands for standard output.
const HERE: &str = "-";
/// Only the user may read the file, as a script may hold secrets.
const MODE: u32 = 0o700;

pub(super) async fn run(words: &[&str]) -> Result<u8, Complaint> {
    let (entity, words) = match words.split_first() {
        Some((entity, words)) if "batch_script".starts_with(&entity.to_ascii_lowercase()) => {
            (*entity, words)
        }
        Some((entity, _)) => {
            return Err(Complaint::plain(format!("invalid write argument:{entity}")));
        }
        None => return Err(Complaint::plain("too few arguments for keyword:write")),
    };
    let Some(word) = words.first() else {
        return Err(Complaint::plain(format!("too few arguments for keyword:{entity}")));
    };
    let manager = manager()?;
    let mut client = manager.connect().await.map_err(Failure::from)?;
    let jobs = named(&mut client, &manager, word).await?;
    let Some(job) = jobs.first() else { return Err(failed(INVALID_JOB)) };
    let script = text(&mut client, job.id).await?.map_err(|error| {
        let why = in_slurms_words(&error).to_owned();
        failed(&why)
    })?;
    let default = format!("slurm-{}.sh", job.id);
    let file = words.get(1).copied().unwrap_or(&default);
    if file == HERE {
        // A script may have any bytes.
        let written = std::io::stdout().lock().write_all(&script);
        return written.map(|()| 0).map_err(|error| failed(&error.to_string()));
    }
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(MODE).open(file);
    let written = opened.and_then(|mut to| to.write_all(&script));
    written.map_err(|error| failed(&format!("{file} cannot be written: {error}")))?;
    print(&format!("batch script for job {} written to {file}\n", job.job_name()))?;
    Ok(0)
}

/// The script of a job.
pub(super) async fn text(
    client: &mut Client,
    job: JobId,
) -> Result<Result<Vec<u8>, ApiError>, Complaint> {
    match client.call(ManagerRequest::Script { job }).await {
        Ok(Reply::Script { data, .. }) => Ok(Ok(data.to_vec())),
        Ok(other) => Err(misunderstood(&other).into()),
        Err(ClientError::Refused(error)) => Ok(Err(error)),
        Err(other) => Err(Failure::from(other).into()),
    }
}

fn failed(why: &str) -> Complaint {
    Complaint::plain(format!("job script retrieval failed: {why}"))
}
