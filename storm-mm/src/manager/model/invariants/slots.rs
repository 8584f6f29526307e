//! Every live job has exactly one slot; a slot is free or has one job.

use crate::manager::model::world::World;
use std::collections::BTreeSet;

pub(super) fn check(world: &World) -> Result<(), String> {
    let core = &world.core;
    let used: BTreeSet<u32> = core.live.iter().map(|(_, live)| live.slot().0).collect();
    if used.len() != core.live.iter().count() {
        return Err("two jobs share a slot".to_owned());
    }
    let free = core.live.free_slots();
    if !free.is_disjoint(&used) {
        return Err(format!("slots {used:?} are used and {free:?} free"));
    }
    let all = core.config.job_slots as usize;
    if used.len() + free.len() != all {
        return Err(format!("{} used and {} free of {all}", used.len(), free.len()));
    }
    if !free.is_empty() && core.live.awaiting().next().is_some() {
        return Err("a job waits for a slot although one is free".to_owned());
    }
    Ok(())
}
