//! No job waits for a slice edge on elements that the job could have now. The active row is the
//! policy's, and a job that can run in that row is launched as soon as its files are there.

use crate::manager::live::Launch;
use crate::manager::model::world::World;

pub(super) fn check(world: &World) -> Result<(), String> {
    for partition in world.core.partitions.iter() {
        let active = partition.policy().active_row();
        if active.is_some_and(|row| row != partition.active()) {
            let (row, name) = (partition.active(), partition.name());
            return Err(format!("row {row:?} of {name} is active, its policy believes {active:?}"));
        }
    }
    let staged = world.core.live.iter().filter(|(_, live)| live.launch() == Launch::Staged);
    for (job, live) in staged {
        if world.core.partitions[live.partition()].may_launch(live.rows()) {
            return Err(format!("job {job} waits for an edge, and its row runs now"));
        }
    }
    Ok(())
}
