//! The parts of a job run in the job's rows, and a job that is stopped for another is stopped by
//! its policy's decision.

use crate::manager::model::world::World;
use std::collections::BTreeSet;
use storm_rm::{JobId, RowSet};

pub(super) fn check(world: &World) -> Result<(), String> {
    let core = &world.core;
    for part in world.parts.keys() {
        let (node, job, incarnation) = *part;
        let Some(live) = core.live.get(job) else { continue };
        let is_first = live.incarnation() == incarnation && !live.over().contains(node);
        let further = live.step_of_run(incarnation).and_then(|number| live.step(number));
        let knows = is_first || further.is_some_and(|step| step.has_part_on(node));
        let told = world.rows.get(part);
        if knows && !live.unheard().contains(node) && told != Some(&live.rows()) {
            let rows = live.rows();
            return Err(format!("{part:?} was told to run in {told:?}, and has {rows:?}"));
        }
    }
    for (job, live) in core.live.iter() {
        let stopped = core.jobs[&job].is_stopped();
        if stopped != (live.rows() == RowSet::NONE) {
            return Err(format!("job {job} is suspended: {stopped}, its rows: {:?}", live.rows()));
        }
    }
    for partition in core.partitions.iter() {
        let policy = partition.policy();
        let rows = policy.rows();
        let in_rows = rows.iter().flat_map(|row| &row.jobs).map(|view| view.job);
        let in_rows: BTreeSet<_> = in_rows.collect();
        let stopped = policy.running().into_iter().filter(|job| !in_rows.contains(job));
        let believed: BTreeSet<JobId> = stopped.collect();
        let here = core.live.iter().filter(|(_, live)| !live.is_released());
        // A policy does not know of jobs that an administrator has stopped.
        let of_policy = |job: &JobId| core.jobs[job].suspended_for.is_some();
        let live = here.map(|(job, _)| job).filter(of_policy);
        let awaiting = core.live.awaiting().filter(|awaiting| awaiting.suspended_for().is_some());
        let are: BTreeSet<JobId> = live.chain(awaiting.map(|awaiting| awaiting.job())).collect();
        if are != believed {
            return Err(format!("{are:?} are suspended, the policy believes {believed:?}"));
        }
    }
    Ok(())
}
