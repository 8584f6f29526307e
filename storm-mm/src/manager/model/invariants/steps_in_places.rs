//! A step runs on nodes of its job's place, no element has two steps that do not overlap, and no
//! step runs without its place.

use crate::job::{JobRecord, Phase};
use crate::manager::live::LivePlace;
use crate::manager::model::world::World;
use std::collections::{BTreeMap, BTreeSet};
use storm_primitives::NodeId;
use storm_rm::{Share, StepAsk};

pub(super) fn check(world: &World) -> Result<(), String> {
    for record in world.core.jobs.values() {
        let recorded: Vec<u32> =
            record.steps.iter().flat_map(|steps| steps.live()).map(|(number, _)| number).collect();
        match world.core.live.get(record.id) {
            Some(live) if live.steps() == recorded => check_place(world, record, live)?,
            None if recorded.is_empty() => {}
            live => {
                let live = live.map(LivePlace::steps);
                return Err(format!("job {} has {recorded:?}, live are {live:?}", record.id));
            }
        }
    }
    let lost = world.parts.keys().find(|(node, job, run)| {
        let is_known = world.core.live.step_of_run(*job, *run).is_some();
        world.step_runs.contains(run) && world.joined.contains(node) && !is_known
    });
    match lost {
        Some(part) => Err(format!("{part:?} is of a step that is over")),
        None => Ok(()),
    }
}

fn check_place(world: &World, record: &JobRecord, live: &LivePlace) -> Result<(), String> {
    let job = record.id;
    let place = record.nodes();
    let granted: BTreeSet<StepAsk> = live.ledger().granted().collect();
    let mut taken: BTreeMap<NodeId, u32> = BTreeMap::new();
    let elements: BTreeMap<NodeId, (u32, u32)> =
        live.ledger().elements().map(|(node, all, free)| (node, (all, free))).collect();
    for (number, step) in record.steps.iter().flat_map(|steps| steps.live()) {
        if let Some(share) = step.ranks.iter().find(|share| !place.contains(share.node)) {
            return Err(format!("step {job}.{number} is on {}", share.node));
        }
        let runs = world.parts.keys().any(|(_, of, run)| (*of, *run) == (job, step.run));
        if runs && !granted.contains(&step.ask) {
            return Err(format!("step {job}.{number} runs on elements that count as free"));
        }
        if step.size.share == Share::Overlap || !granted.contains(&step.ask) {
            continue;
        }
        for share in &step.ranks {
            let (all, _) = elements.get(&share.node).copied().unwrap_or_default();
            let own = match step.size.share {
                Share::WholeNodes => all,
                Share::Exact | Share::Overlap => share.count * step.size.elements_each,
            };
            *taken.entry(share.node).or_default() += own;
        }
    }
    for (node, (all, free)) in elements {
        let taken = taken.get(&node).copied().unwrap_or(0);
        if taken + free != all {
            return Err(format!("{taken} of {all} elements of {node} are taken, {free} free"));
        }
    }
    check_waiting(world, record, live)
}

/// No step waits that could run.
fn check_waiting(world: &World, record: &JobRecord, live: &LivePlace) -> Result<(), String> {
    let core = &world.core;
    let goes_on = record.phase == Phase::Running && !live.is_over() && !core.jobs.is_closed();
    if !goes_on && !matches!(record.phase, Phase::Starting | Phase::Running) && live.has_waiting() {
        return Err(format!("steps of job {} wait for ever", record.id));
    }
    let has_slot = live.spare().is_some() || !core.live.slots_are_taken();
    if !goes_on || live.is_recovering() || !has_slot {
        return Ok(());
    }
    let fits = live.fits_now(|node| core.nodes.up().contains(node));
    fits.map_or(Ok(()), |ask| Err(format!("step {ask:?} of job {} waits in vain", record.id)))
}
