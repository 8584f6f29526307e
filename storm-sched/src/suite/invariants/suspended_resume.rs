//! A suspended job continues as soon as no other job has its PEs.

use super::{Invariant, Violation};
use crate::suite::{Running, Step, World};
use crate::{JobId, Pe};

/// While a job is suspended, its PEs are held, about to be held, or reserved, or a suspended job
/// that precedes it waits for them too.
#[derive(Debug)]
pub struct SuspendedResume;

#[derive(Debug, thiserror::Error)]
#[error("job {0} is suspended, and no job has its PEs or will have them")]
struct Forgotten(JobId);

impl Invariant for SuspendedResume {
    fn name(&self) -> &'static str {
        "a suspended job goes on when its PEs are free"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let World { running, suspended, ending, .. } = step.after;
        if !ending.is_empty() {
            return Ok(());
        }
        let taken = |pe: &Pe| {
            let holds = |pes: &[Pe]| pes.binary_search(pe).is_ok();
            running.values().any(|job| {
                let node = step.after.machine.node_of(*pe);
                let whole =
                    job.request.exclusive && job.placement.nodes().any(|own| Some(own) == node);
                whole || holds(job.placement.pes())
            })
        };
        for (job, stopped) in suspended {
            let nodes = stopped.placement.nodes();
            let all = nodes.filter_map(|node| step.after.machine.node(node));
            let mut whole = all.flat_map(|node| node.columns().map(Pe));
            let blocked = match stopped.request.exclusive {
                true => whole.any(|pe| taken(&pe)),
                false => stopped.placement.pes().iter().any(taken),
            };
            let reserved = step.after.reserved(step.now).any(|window| {
                let inside = |node| window.nodes.contains(&node);
                let own = stopped.request.reservation == Some(window.id);
                let mut nodes = stopped.placement.nodes();
                // A job may wait until its own reservation begins, and other reservations may keep
                // it from continuing.
                if own { window.start > step.now || !nodes.all(inside) } else { nodes.any(inside) }
            });
            let mut others = suspended.values();
            let waited_for = others.any(|other| goes_before(other, stopped));
            if !blocked && !reserved && !waited_for {
                return Err(Forgotten(*job).into());
            }
        }
        Ok(())
    }
}

/// Whether a job precedes another and has PEs of it.
fn goes_before(job: &Running, other: &Running) -> bool {
    let exclusive = job.request.exclusive || other.request.exclusive;
    let mut nodes = job.placement.nodes();
    let meets = match exclusive {
        true => nodes.any(|node| other.placement.nodes().any(|theirs| theirs == node)),
        false => {
            let theirs = other.placement.pes();
            job.placement.pes().iter().any(|pe| theirs.binary_search(pe).is_ok())
        }
    };
    meets && job.request.is_over(&other.request)
}
