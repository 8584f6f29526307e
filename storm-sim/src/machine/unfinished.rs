//! The jobs that have not ended at the end of a run, with the manager's explanation of what each
//! waits for.

use super::{ACKNOWLEDGED, Machine};
use crate::JobTimes;
use std::fmt;
use std::pin::pin;
use storm_mm::api::{ManagerRequest, Reply};
use storm_primitives::Runtime;
use storm_rm::JobId;

/// The most jobs that are named. The others are counted.
const NAMED: usize = 10;

/// A job that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedJob {
    /// The number.
    pub job: JobId,
    /// The name.
    pub name: String,
    /// The state.
    pub state: String,
    /// Where the job is, or what it waits for.
    pub why: String,
}

/// The first jobs that have not ended, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedJobs {
    named: Vec<UnfinishedJob>,
    count: usize,
}

impl UnfinishedJobs {
    /// The first of the jobs, by number.
    pub fn jobs(&self) -> &[UnfinishedJob] {
        &self.named
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl fmt::Display for UnfinishedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnfinishedJob { job, name, state, why } = self;
        write!(f, "job {job} ({name}), {state}: {why}")
    }
}

impl fmt::Display for UnfinishedJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return f.write_str(
                "every job that was submitted has ended; the others were not, as the table says \
                 (before all nodes have joined none is): a longer limit helps",
            );
        }
        write!(f, "{} jobs have not ended", self.count)?;
        for (index, job) in self.named.iter().enumerate() {
            write!(f, "{} {job}", if index == 0 { ":" } else { ";" })?;
        }
        match self.count - self.named.len() {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl Machine {
    /// The jobs that have not ended. If a manager answers, its explanations are included.
    pub(super) async fn unfinished(&self) -> UnfinishedJobs {
        let jobs = self.jobs();
        let left = || jobs.iter().filter(|(_, times)| times.ended.is_none());
        let mut named = Vec::new();
        for (job, times) in left().take(NAMED) {
            named.push(self.explained(*job, times).await);
        }
        UnfinishedJobs { named, count: left().count() }
    }

    async fn explained(&self, job: JobId, times: &JobTimes) -> UnfinishedJob {
        let name = times.name.clone();
        let explanation = match self.client() {
            Some(client) => {
                let asked = pin!(client.ask(ManagerRequest::Explain { job }));
                self.runtime().timeout(ACKNOWLEDGED, asked).await.flatten()
            }
            None => None,
        };
        match explanation {
            Some(Reply::Explanation { explanation }) => {
                let state = explanation.state.to_string();
                UnfinishedJob { job, name, state, why: explanation.reason }
            }
            _ => UnfinishedJob {
                job,
                name,
                state: times.last_state().to_string(),
                why: format!("{}; the manager does not answer", times.whereabouts()),
            },
        }
    }
}
