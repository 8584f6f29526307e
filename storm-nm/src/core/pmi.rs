//! PMI of the local ranks: turns the node server's outputs into actions.

use super::Action;
use super::job::LocalJob;
use crate::JobKey;
use storm_mpi::pmi::node_server::Output;
use storm_rm::Rank;
use storm_rm::message::Report;
use storm_rm::termination::Urgency;

/// Number of fences whose reports may be requested again. Another node may still be in one fence
/// while this node has reached the next, and no further.
const FENCES_KEPT: usize = 2;

/// The actions for the outputs of a job's PMI server.
pub(super) fn pmi_actions(job: &mut LocalJob, outputs: Vec<Output>, actions: &mut Vec<Action>) {
    let key = job.key();
    for output in outputs {
        actions.push(match output {
            Output::Reply { rank, line } => Action::PmiReply { job: key, rank: Rank(rank.0), line },
            Output::FenceReady { puts } => {
                job.fences += 1;
                job.in_fence = true;
                let report = Report::Fence { step: key.step, sequence: job.fences, puts };
                job.last_fences.push_back(report.clone());
                if job.last_fences.len() > FENCES_KEPT {
                    job.last_fences.pop_front();
                }
                if job.is_unheard() {
                    continue;
                }
                Action::Post { report, urgency: Urgency::AtOnce }
            }
            Output::Abort { rank, exit_code } => {
                job.fails(aborted(key, Rank(rank.0), exit_code), actions);
                continue;
            }
            Output::Violation { rank, error } => {
                tracing::warn!(job = %key, rank = rank.0, %error, "PMI connection closed");
                Action::ClosePmi { job: key, rank: Rank(rank.0) }
            }
        });
    }
}

/// The reason to report once a rank is gone that can enter no barrier any more.
pub(super) fn news_of_gone(job: &mut LocalJob, actions: &mut Vec<Action>) -> Option<String> {
    let gone = job.pmi.gone();
    if let Some(waiting) = job.pmi.waiting()
        && let Some(gone) = gone.or_else(|| job.pmi.ended())
    {
        let why = job.pmi.violation(gone).map(|error| format!(" ({error})")).unwrap_or_default();
        return Some(format!(
            "rank {gone} is gone{why} and rank {waiting} waits for it in a PMI barrier"
        ));
    }
    let gone = gone?;
    let elsewhere = job.task.count < job.task.launch.size();
    if elsewhere && !job.silent && job.left_told.is_none() {
        let (key, rank) = (job.key(), Rank(gone.0));
        let report = Report::RankLeft { step: key.step, incarnation: key.incarnation, rank };
        job.left_told = Some(report.clone());
        if !job.is_unheard() {
            actions.push(Action::Post { report, urgency: Urgency::AtOnce });
        }
    }
    None
}

fn aborted(key: JobKey, rank: Rank, exit_code: i32) -> Report {
    Report::Aborted { step: key.step, incarnation: key.incarnation, rank, exit_code }
}
