//! Starting one rank of a job: its process, its streams.

use super::LiveHost;
use super::inheriting::kept_id;
use crate::live::launch_plan::{Surroundings, rank_spec};
use crate::live::live_job::LiveJob;
use crate::live::rank_streams::RankStreams;
use crate::{JobKey, LaunchRefused};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use storm_pl::boost::Process;
use storm_pl::{PlIndex, ProcessId, Shortage};
use storm_rm::Rank;

impl LiveHost {
    /// Turns a waiting process into a rank of the job. If the start fails, no more events of the
    /// rank arrive, and its process ends with the job at the latest.
    pub(super) fn start_rank(
        &self,
        job: &LiveJob,
        rank: Rank,
        pl: PlIndex,
    ) -> Result<(), LaunchRefused> {
        let key = job.task.key();
        let names = self.names();
        let (cores, cpus, waiting) = (self.cores.count(), job.cpus_of(rank), &job.waiting);
        let surroundings = Surroundings { cores, cpus, waiting };
        let rank_spec = rank_spec(&job.task, rank, &names, &job.directory, surroundings);
        let Some(spec) = &job.spec else {
            let reason = "its ranks were launched before this node manager was there".to_owned();
            return Err(LaunchRefused { reason, exit_code: LaunchRefused::NOT_EXECUTABLE });
        };
        // If a job is not whole, the keeper has its first ranks.
        let kept = job.is_kept_whole().then(|| kept_id(key));
        let launching = self
            .keeper
            .launch_kept(job.pad, pl, spec, &rank_spec, kept)
            .map_err(|error| LaunchRefused::because(&error))?;
        if let Err(error) = &launching.kept {
            self.rank_not_kept(job, error);
        }
        if let Some(files) = &job.shared_files {
            files.add(Path::new(job.task.spec().step.cwd.as_os_str()), &rank_spec, launching.lines);
        }
        let noted = job.ledger.clone().map(|ledger| self.remembered(ledger, key, (pl, rank), 0));
        let ends = (launching.ends, launching.own);
        let streams = RankStreams::open(ends, (key, rank), &self.events, noted);
        let streams = streams.map_err(|error| {
            let shortage = Shortage::of(storm_pl::Errno::of(&error));
            let limit = shortage.map_or_else(
                || "sysctl fs.epoll.max_user_watches".to_owned(),
                |shortage| shortage.to_string(),
            );
            let reason = format!("the streams of a process cannot be watched ({limit}): {error}");
            LaunchRefused { reason, exit_code: LaunchRefused::NOT_EXECUTABLE }
        })?;
        job.streams.borrow_mut().insert(rank, Rc::new(streams));
        job.ranks.borrow_mut().insert(pl, rank);
        job.processes.borrow_mut().insert(rank, launching.pid);
        self.follow(job, key, rank, launching.pid);
        Ok(())
    }

    /// Opens a descriptor of the rank's process, if the policy inspects processes.
    pub(super) fn follow(&self, job: &LiveJob, key: JobKey, rank: Rank, pid: ProcessId) {
        let place = rank.0.saturating_sub(job.task.first.0) as usize;
        if job.page.is_none() && !self.flexible.watches(key) {
            return;
        }
        match Process::of(pid).map(Arc::new) {
            Ok(process) => {
                self.booster.started(key, place, process.clone());
                self.flexible.started(key, rank, process);
            }
            // The rank may have ended already.
            Err(error) => tracing::debug!(job = %key, %rank, %error, "a rank is never put first"),
        }
    }
}
