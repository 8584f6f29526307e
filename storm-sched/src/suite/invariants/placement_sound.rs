//! A started job waited before, and its placement meets its request. Its PEs are on nodes that take
//! work and have what the job needs. All its processes are in one row, and it starts once.

use super::{Invariant, Violation};
use crate::suite::{Running, Step, oracle};
use crate::{Action, Event, JobId, JobRequest, NodeIndex, Pe, Placement};

/// Started jobs get what they asked for.
#[derive(Debug)]
pub struct PlacementSound;

/// The defect of a start.
#[derive(Debug, thiserror::Error)]
enum Unsound {
    #[error("job {0} was started and did not wait")]
    DidNotWait(JobId),
    #[error("job {job} got room for {got} processes, and asked for {asked}")]
    Procs { job: JobId, asked: u32, got: u32 },
    #[error("job {job} got {got} PEs for a process, and asked for {asked}")]
    PesPerProc { job: JobId, asked: u32, got: u32 },
    #[error("job {job} got {got} processes on a node, and allows {most}")]
    ProcsPerNode { job: JobId, most: u32, got: u32 },
    #[error("job {job} got node {node}, which does not meet its constraint")]
    Features { job: JobId, node: NodeIndex },
    #[error("job {job} got node {name}, which it excludes")]
    Excluded { job: JobId, name: String },
    #[error("job {job} did not get node {name}, which it requires")]
    NotRequired { job: JobId, name: String },
    #[error("job {job} got node {node}, where job {other} of its row has PEs")]
    NotAlone { job: JobId, node: NodeIndex, other: JobId },
    #[error("jobs hold {held} of the {all} bytes of node {node} once job {job} has started")]
    Memory { job: JobId, node: NodeIndex, held: u64, all: u64 },
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
            if let Action::Migrate { job, placement, .. } = action
                && let Some(running) = step.after.running.get(job)
            {
                check_start(step, &running.request, placement)?;
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
    let (asked, got) = (request.procs, placement.procs());
    if got != asked {
        return Err(Unsound::Procs { job, asked, got });
    }
    let (asked, got) = (request.pes_per_proc, placement.pes_per_proc());
    if got != asked {
        return Err(Unsound::PesPerProc { job, asked, got });
    }
    if let Some(&pe) = placement.pes().iter().find(|pe| !machine.is_usable(**pe)) {
        return Err(Unsound::Unusable { job, pe });
    }
    let pes = placement.pes().to_vec();
    if Placement::with_pes_per_proc(machine, pes, asked).as_ref() != Some(placement) {
        return Err(Unsound::NoBlocks { job });
    }
    check_names(step, request, placement)?;
    check_nodes(step, request, placement)?;
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

/// Checks that a started job has all nodes that it requires, and none that it excludes.
fn check_names(
    step: &Step<'_>,
    request: &JobRequest,
    placement: &Placement,
) -> Result<(), Unsound> {
    let Some(choice) = &request.choice else { return Ok(()) };
    let built = |node| step.after.machine.node(node).map(|node| node.name().to_owned());
    let names: Vec<String> = placement.nodes().filter_map(built).collect();
    let job = request.id;
    if let Some(name) = names.iter().find(|name| choice.excluded.contains(*name)) {
        return Err(Unsound::Excluded { job, name: name.clone() });
    }
    match choice.required.iter().find(|name| !names.contains(name)) {
        Some(name) => Err(Unsound::NotRequired { job, name: name.clone() }),
        None => Ok(()),
    }
}

/// Checks that each node of a started job meets its demands, given the jobs that already run there.
fn check_nodes(
    step: &Step<'_>,
    request: &JobRequest,
    placement: &Placement,
) -> Result<(), Unsound> {
    let job = request.id;
    if step.after.running.get(&job).is_none_or(|running| running.placement != *placement) {
        // The job has moved since.
        return Ok(());
    }
    let held = oracle::held_bytes(step.after);
    for share in placement.shares() {
        let (node, got) = (share.node, share.ranks);
        let Some(built) = step.after.machine.node(node) else { continue };
        if !request.may_have(built) {
            return Err(Unsound::Features { job, node });
        }
        if let Some(most) = request.procs_per_node.filter(|most| got > *most) {
            return Err(Unsound::ProcsPerNode { job, most, got });
        }
        if let Some(other) = not_alone(step, job, node) {
            return Err(Unsound::NotAlone { job, node, other });
        }
        let held = held[node.0 as usize];
        if let Some(all) = built.memory_bytes().filter(|all| held > *all)
            && request.asks_for_memory()
        {
            return Err(Unsound::Memory { job, node, held, all });
        }
    }
    Ok(())
}

/// Another job of the row that shares a node with a job, although one of the two must have its
/// nodes for itself.
fn not_alone(step: &Step<'_>, job: JobId, node: NodeIndex) -> Option<JobId> {
    let own = step.after.running.get(&job)?;
    let beside = |(other, running): &(&JobId, &Running)| {
        **other != job
            && running.row == own.row
            && (running.request.exclusive || own.request.exclusive)
            && running.placement.share_of(node).is_some()
    };
    step.after.running.iter().find(beside).map(|(other, _)| *other)
}
