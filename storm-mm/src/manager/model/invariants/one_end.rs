//! A job ends once, and nothing happens to it afterwards. Each run has a number of its own.

use crate::job::JobEventKind;
use crate::journal::Entry;
use crate::manager::model::world::World;
use std::collections::BTreeSet;

pub(super) fn check(world: &World) -> Result<(), String> {
    let mut ended = BTreeSet::new();
    let mut runs = BTreeSet::new();
    for (job, event) in world.journal.iter().filter_map(Entry::of_job) {
        // A later configuration may add the policy under which the job ended.
        let noted = matches!(event.kind, JobEventKind::UnderPolicy { .. });
        if ended.contains(&job) && !noted {
            return Err(format!("after its end job {job} has {:?}", event.kind));
        }
        match &event.kind {
            JobEventKind::Ended { .. } => {
                ended.insert(job);
            }
            JobEventKind::Placed { incarnation, .. } if !runs.insert(*incarnation) => {
                return Err(format!("two runs are number {}", incarnation.0));
            }
            _ => {}
        }
    }
    Ok(())
}
