//! Run time is counted for exactly the launched jobs in the active row, and no more than has
//! passed.

use crate::manager::model::world::World;
use storm_primitives::Instant;

pub(super) fn check(world: &World) -> Result<(), String> {
    for (job, live) in world.core.live.iter() {
        let partition = &world.core.partitions[live.partition()];
        let launched = live.is_on_nodes();
        let runs = launched && partition.runs(live.rows());
        if live.is_timed() != runs {
            return Err(format!("job {job} runs: {runs}, is charged: {}", live.is_timed()));
        }
        // The manager does not have the time since which a job of a former manager runs, only the
        // time of the job's return.
        let since = if world.restarted { Instant::ORIGIN } else { live.placed_at() };
        if live.run_time(world.now) > world.now - since {
            return Err(format!("job {job} is charged more time than there was"));
        }
    }
    Ok(())
}
