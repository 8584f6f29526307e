//! The matrix of each policy is sound, and the policies' running and waiting jobs are those of the
//! core.

use crate::job::Phase;
use crate::manager::model::world::World;
use crate::manager::partitions::Partition;
use std::collections::BTreeSet;
use storm_rm::JobId;

pub(super) fn check(world: &World) -> Result<(), String> {
    let core = &world.core;
    let partitions: Vec<&Partition> =
        core.partitions.ids().map(|id| &core.partitions[id]).collect();
    for partition in &partitions {
        partition.policy().check().map_err(|violation| violation.to_string())?;
    }

    let live = core.live.iter().filter(|(_, live)| !live.is_released()).map(|(job, _)| job.0);
    let awaiting = core.live.awaiting().map(|placed| placed.job().0);
    let holders: BTreeSet<u64> = live.chain(awaiting).collect();
    let running = partitions.iter().flat_map(|partition| partition.policy().running());
    let believed: BTreeSet<u64> = running.map(|job| job.0).collect();
    if holders != believed {
        return Err(format!("{holders:?} hold elements, the policy believes {believed:?}"));
    }

    let switching = partitions.iter().flat_map(|partition| partition.queue_of_next());
    let for_the_next: BTreeSet<u64> = switching.map(|job| job.0).collect();
    let not_waiting = core
        .jobs
        .needs()
        .waiting()
        .iter()
        .find(|job| core.jobs.get(job).is_none_or(|record| record.phase != Phase::Pending));
    if let Some(job) = not_waiting {
        return Err(format!("{job} is not pending, and waits for something"));
    }
    let waiting: BTreeSet<u64> = core
        .jobs
        .values()
        .filter(|record| record.phase == Phase::Pending)
        .map(|record| record.id.0)
        .filter(|job| !core.jobs.needs().is_waiting(JobId(*job)) && !for_the_next.contains(job))
        .filter(|job| !core.live.awaiting().any(|p| p.job().0 == *job))
        .collect();
    let pending = partitions.iter().flat_map(|partition| partition.policy().pending());
    let believed: BTreeSet<u64> = pending.map(|job| job.0).collect();
    if waiting != believed {
        return Err(format!("{waiting:?} wait, the policy believes {believed:?}"));
    }

    let in_life: BTreeSet<u64> = core
        .jobs
        .values()
        .filter(|r| matches!(r.phase, Phase::Starting | Phase::Running | Phase::Ending(_)))
        .map(|record| record.id.0)
        .collect();
    let live: BTreeSet<u64> = core.live.iter().map(|(job, _)| job.0).collect();
    if in_life != live {
        return Err(format!("{in_life:?} are started or ending, {live:?} are live"));
    }
    Ok(())
}
