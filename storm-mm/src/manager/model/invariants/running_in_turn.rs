//! Time is charged to the launched jobs of the active row and to no others, and no
//! more than has passed.

use crate::manager::live_job::Launch;
use crate::manager::model::world::World;

pub(super) fn check(world: &World) -> Result<(), String> {
    for (job, live) in &world.core.live {
        let partition = &world.core.partitions[usize::from(live.partition.0)];
        let launched = matches!(live.launch, Launch::Launched | Launch::Started);
        let runs = launched && partition.is_active(live.row);
        if live.active_since.is_some() != runs {
            return Err(format!("job {job} runs: {runs}, is charged: {:?}", live.active_since));
        }
        if live.run_time(world.now) > world.now - live.placed_at {
            return Err(format!("job {job} is charged more time than there was"));
        }
    }
    Ok(())
}
