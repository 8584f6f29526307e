//! Further facts of jobs, for listings that ask for them.

use super::Core;
use super::admission::MAX_PATH_BYTES;
use super::eligibility::Obstacle;
use crate::api::{JobAttributes, JobPartView, JobState, UseView};
use crate::job::{EndCause, JobRecord, Outcome, Phase};
use std::path::Path;
use storm_primitives::Instant;
use storm_rm::message::{ExitStatus, NodeRanks, RankExit};
use storm_rm::{Condition, Destination, FirstStep, JobSpec, OsBytes, Program, Rank};

impl Core {
    /// The further facts of a job.
    pub(super) fn attributes(&self, now: Instant, record: &JobRecord) -> JobAttributes {
        let spec = &record.spec;
        let outcome = match &record.phase {
            Phase::Ended(outcome) => Some(outcome),
            Phase::Pending | Phase::Starting | Phase::Running | Phase::Ending(_) => None,
        };
        JobAttributes {
            gid: spec.owner.gid,
            account: record.service.account.clone(),
            qos: record.service.qos.clone(),
            reservation: record.reservation.as_ref().map(|(_, name)| name.clone()),
            nice: record.service.nice,
            first: spec.first,
            program: path_of(spec),
            cwd: spec.step.cwd.clone(),
            output: spec.step.output.clone(),
            requeue: spec.requeue,
            runs: record.runs,
            begin: spec.needs.begin,
            dependency: self.open_dependency(now, record),
            first_part: record.ranks.first().map(|share| self.part_view(share)),
            cancelled_by: outcome.and_then(canceller),
            exit: outcome.map(|outcome| exit_of(outcome, &record.exits)),
            used: self.used(record),
        }
    }

    /// A job's part of a node.
    pub(super) fn part_view(&self, share: &NodeRanks) -> JobPartView {
        JobPartView { node: self.node_name(share.node), procs: share.count }
    }

    /// The conditions that a waiting job still waits for.
    fn open_dependency(&self, now: Instant, record: &JobRecord) -> Option<String> {
        if record.phase != Phase::Pending {
            return None;
        }
        let text = |condition: &Condition| condition.text(&|job| self.jobs.name(job));
        match self.unmet_dependency(now, record)? {
            Obstacle::Dependency { open, any, .. } => {
                let texts: Vec<String> = open.iter().map(text).collect();
                Some(texts.join(if any { "?" } else { "," }))
            }
            Obstacle::NeverSatisfied(condition) => Some(text(&condition)),
            Obstacle::Held(_)
            | Obstacle::Begin(_)
            | Obstacle::ArrayLimit(_)
            | Obstacle::Unmet(_)
            | Obstacle::Places
            | Obstacle::GoingDown => None,
        }
    }

    fn used(&self, record: &JobRecord) -> Option<UseView> {
        // Nodes report these numbers: a nonsensical sum must not panic.
        let cpu = |exit: &RankExit| exit.user_us.saturating_add(exit.system_us);
        let sum =
            |fact: fn(&RankExit) -> u64| record.exits.iter().map(fact).fold(0, u64::saturating_add);
        let largest = record.exits.iter().max_by_key(|exit| exit.max_rss_kib)?;
        let least = record.exits.iter().min_by_key(|exit| cpu(exit))?;
        let at = |rank: Rank| {
            let on = |share: &&NodeRanks| {
                (share.first.0..share.first.0.saturating_add(share.count)).contains(&rank.0)
            };
            let node = record.ranks.iter().find(on);
            (rank, node.map_or_else(String::new, |share| self.node_name(share.node)))
        };
        Some(UseView {
            user_us: sum(|exit| exit.user_us),
            system_us: sum(|exit| exit.system_us),
            rss_kib: sum(|exit| exit.max_rss_kib),
            max_rss_kib: largest.max_rss_kib,
            max_rss_at: at(largest.rank),
            min_cpu_us: cpu(least),
            min_cpu_at: at(least.rank),
        })
    }
}

/// The path from which the program was read, where it is known, else its name.
fn path_of(spec: &JobSpec) -> OsBytes {
    // The client gives a script's path as its first argument.
    let first = spec.step.argv.first().filter(|_| spec.first == FirstStep::Script);
    let is_path = |path: &&OsBytes| {
        Path::new(path.as_os_str()).is_absolute() && path.as_bytes().len() <= MAX_PATH_BYTES
    };
    if let Some(path) = first.filter(is_path) {
        return path.clone();
    }
    match &spec.step.program {
        Program::OnNodes(path) => path.clone(),
        Program::Shipped(file) => match &file.destination {
            Destination::JobDirectoryUnlessAt(path) | Destination::Path(path) => path.clone(),
            Destination::JobDirectory => file.name.clone(),
        },
    }
}

/// The user that cancelled a job, by the reason of its end.
fn canceller(outcome: &Outcome) -> Option<u32> {
    match outcome.state {
        JobState::Cancelled => EndCause::canceller_in(outcome.reason.as_deref()?),
        _ => None,
    }
}

/// How the job ended. An outcome has only the status that a shell gives, in which 143 may be an
/// exit code or a signal: a rank with this status tells.
fn exit_of(outcome: &Outcome, exits: &[RankExit]) -> ExitStatus {
    const SIGNALLED: u8 = 128;
    let status = exits.iter().map(|exit| exit.status);
    let found = status.clone().find(|status| status.shell_code() == outcome.exit_code);
    let requested =
        matches!(outcome.state, JobState::Cancelled | JobState::Timeout | JobState::Preempted);
    match found {
        Some(status) => status,
        None if requested && outcome.exit_code > SIGNALLED => {
            ExitStatus::Signal((outcome.exit_code - SIGNALLED).into())
        }
        None => ExitStatus::Code(outcome.exit_code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(state: JobState, exit_code: u8) -> Outcome {
        Outcome { state, exit_code, reason: None }
    }

    fn rank(status: ExitStatus) -> RankExit {
        RankExit { rank: Rank(0), status, user_us: 0, system_us: 0, max_rss_kib: 0 }
    }

    #[test]
    fn a_status_of_a_shell_is_told_apart_into_code_and_signal() {
        let failed = outcome(JobState::Failed, 143);
        for status in [ExitStatus::Code(143), ExitStatus::Signal(15)] {
            assert_eq!(exit_of(&failed, &[rank(ExitStatus::Code(0)), rank(status)]), status);
        }
        let cancelled = outcome(JobState::Cancelled, 143);
        assert_eq!(exit_of(&cancelled, &[]), ExitStatus::Signal(15));
        assert_eq!(exit_of(&outcome(JobState::Failed, 3), &[]), ExitStatus::Code(3));
    }

    #[test]
    fn the_reason_of_a_cancelled_job_names_the_user() {
        let reason = EndCause::Cancelled { uid: 1000 }.to_string();
        let mut cancelled = Outcome { reason: Some(reason), ..outcome(JobState::Cancelled, 143) };
        assert_eq!(canceller(&cancelled), Some(1000));
        cancelled.reason = Some("cancelled by ada (1001)".to_owned());
        assert_eq!(canceller(&cancelled), Some(1001));
        cancelled.reason = Some(EndCause::Shutdown.to_string());
        assert_eq!(canceller(&cancelled), None);
    }
}
