//! A started job waited, and its placement is what it asked for, on PEs whose
//! nodes take work. All its processes are in one row: it starts once.

use super::{Invariant, Violation};
use crate::suite::Step;
use crate::{Action, Event, JobId, JobRequest, Pe, Placement};

/// Started jobs get what they asked for.
#[derive(Debug)]
pub struct PlacementSound;

/// What is wrong with a start.
#[derive(Debug, thiserror::Error)]
enum Unsound {
    #[error("job {0} was started and did not wait")]
    DidNotWait(JobId),
    #[error("job {job} got {got} PEs for {asked} processes")]
    Procs { job: JobId, asked: u32, got: u32 },
    #[error("job {job} got PE {pe}, whose node takes no work")]
    Unusable { job: JobId, pe: Pe },
    #[error("job {job} got {got} nodes for the {asked} asked for")]
    Nodes { job: JobId, asked: u32, got: u32 },
    #[error("job {job} has between {least} and {most} ranks on its nodes")]
    Uneven { job: JobId, least: u32, most: u32 },
    #[error("job {job}: its PEs are not in blocks of ranks")]
    NoBlocks { job: JobId },
}

impl Invariant for PlacementSound {
    fn name(&self) -> &'static str {
        "started jobs get what they asked for"
    }

    fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let mut waiting = step.before.queue.clone();
        if let Event::Submit(request) = step.event {
            waiting.push(request.clone());
        }
        for action in step.actions {
            if let Action::Start { job, placement, .. } = action {
                let at = waiting.iter().position(|request| request.id == *job);
                let request = waiting.remove(at.ok_or(Unsound::DidNotWait(*job))?);
                check_start(step, &request, placement)?;
            }
        }
        Ok(())
    }
}

fn check_start(
    step: &Step<'_>,
    request: &JobRequest,
    placement: &Placement,
) -> Result<(), Unsound> {
    let (job, machine) = (request.id, &step.after.machine);
    if placement.procs() != request.procs {
        return Err(Unsound::Procs { job, asked: request.procs, got: placement.procs() });
    }
    if let Some(&pe) = placement.pes().iter().find(|pe| !machine.is_usable(**pe)) {
        return Err(Unsound::Unusable { job, pe });
    }
    if Placement::new(machine, placement.pes().to_vec()).as_ref() != Some(placement) {
        return Err(Unsound::NoBlocks { job });
    }
    let Some(asked) = request.nodes else { return Ok(()) };
    if placement.node_count() != asked {
        return Err(Unsound::Nodes { job, asked, got: placement.node_count() });
    }
    let ranks = || placement.shares().iter().map(|share| share.ranks);
    let (least, most) = (ranks().min().unwrap_or(0), ranks().max().unwrap_or(0));
    if most - least > 1 {
        return Err(Unsound::Uneven { job, least, most });
    }
    Ok(())
}
