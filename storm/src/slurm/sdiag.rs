//! sdiag(1): the manager's counters.

use super::complaint::Complaint;
use super::source::Source;
use crate::command::print;
use jiff::Timestamp;
use storm_mm::api::{JobFilter, JobState, JobView};
use storm_slurm::view::sdiag::{DiagFacts, text};

pub(super) async fn run() -> Result<u8, Complaint> {
    let mut source = Source::open().await?;
    let show = source.show().await?;
    let status = source.status().await?.clone();
    let jobs = source.jobs(JobFilter { history: true, ..JobFilter::default() }).await?;
    let since = |time: Option<Timestamp>| time.is_some_and(|time| time >= status.started);
    let count = |counts: &dyn Fn(&JobView) -> bool| jobs.iter().filter(|job| counts(job)).count();
    let ended = |job: &JobView| job.state.is_final() && since(job.ended);
    let facts = DiagFacts {
        since: status.started,
        submitted: count(&|job| since(Some(job.submitted))),
        started: count(&|job| since(job.started)),
        completed: count(&|job| ended(job) && job.state == JobState::Completed),
        cancelled: count(&|job| ended(job) && job.state == JobState::Cancelled),
        failed: count(&|job| {
            ended(job) && !matches!(job.state, JobState::Completed | JobState::Cancelled)
        }),
        pending: status.jobs_pending,
        running: status.jobs_running,
    };
    print(&text(&facts, &show))?;
    Ok(0)
}
