//! Every step of a live job has exactly one slot; a slot is free or has one step.

use crate::manager::model::world::World;
use std::collections::BTreeSet;

pub(super) fn check(world: &World) -> Result<(), String> {
    let core = &world.core;
    let slots = core.live.iter().flat_map(|(_, live)| {
        let further = live.steps().into_iter().filter_map(|number| live.step(number));
        let further: Vec<u32> = further.map(|step| step.slot().0).collect();
        further.into_iter().chain([live.slot().0]).chain(live.spare().map(|slot| slot.0))
    });
    let slots: Vec<u32> = slots.collect();
    let used: BTreeSet<u32> = slots.iter().copied().collect();
    if used.len() != slots.len() {
        return Err("two steps share a slot".to_owned());
    }
    let free = core.live.free_slots();
    if !free.is_disjoint(&used) {
        return Err(format!("slots {used:?} are used and {free:?} free"));
    }
    let all = core.config.job_slots as usize;
    if used.len() + free.len() != all {
        return Err(format!("{} used and {} free of {all}", used.len(), free.len()));
    }
    // A script needs two.
    let first = core.live.awaiting().next();
    let is_script = first
        .is_some_and(|placed| core.jobs[&placed.job()].spec.first == storm_rm::FirstStep::Script);
    let needed = if is_script { all.min(2) } else { 1 };
    if free.len() >= needed && first.is_some() {
        return Err("a job waits for a slot although one is free".to_owned());
    }
    Ok(())
}
