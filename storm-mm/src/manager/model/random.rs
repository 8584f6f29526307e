//! Random histories: whatever happens in whatever order, the invariants hold, and in the end every
//! job ends.

use super::happening::{Happening, happening, sched};
use super::invariants::check_all;
use super::preempting::urgencies;
use super::world::{ADMIN, PARTITION, World, spec};
use crate::CoreConfig;
use crate::api::{Peer, Service};
use crate::manager::{Core, StageOutcome};
use proptest::prelude::*;
use std::time::Duration;
use storm_primitives::{Instant, NodeId};
use storm_rm::message::{ExitStatus, RankExit, Report};
use storm_rm::{
    ArraySpec, Condition, Dependency, FirstStep, IndexRange, JobId, JobIncarnation, JobSpec, Needs,
    Rank, StepAsk, StepRef,
};

fn peer(admin: bool) -> Peer {
    if admin { ADMIN } else { super::world::USER }
}

fn exit(rank: Rank, status: ExitStatus) -> RankExit {
    RankExit { rank, status, user_us: 0, system_us: 0, max_rss_kib: 0 }
}

impl World {
    fn take(&mut self, happening: &Happening) {
        match happening {
            Happening::Submit { procs, nodes, shipped, requeue, limited, script, qos } => {
                let time_limit = limited.then_some(Duration::from_millis(80));
                let first = if *script { FirstStep::Script } else { FirstStep::Program };
                let plain = spec(*procs, *shipped, *requeue);
                let spec = JobSpec { nodes: *nodes, time_limit, first, ..plain };
                // An infeasible job is refused, which changes nothing.
                let qos = urgencies().qos.get(*qos).map(|qos| qos.name.clone());
                let service = Service { qos, ..Service::default() };
                let user = super::world::USER;
                let _ = self.act(|core, now| core.submit_to(now, user, spec, service, None));
            }
            Happening::Cancel(pick) => {
                if let Some(job) = self.unit(*pick) {
                    self.cancel(job);
                }
            }
            Happening::SubmitNeedy { .. }
            | Happening::Hold { .. }
            | Happening::Release { .. }
            | Happening::Change { .. }
            | Happening::SetSched(_)
            | Happening::SetQuantum(_) => self.take_need(happening),
            Happening::NodeDown(node) => self.node_down(NodeId(*node)),
            Happening::NodeUp(node) => self.node_up(NodeId(*node)),
            Happening::NodeReturns { node, forgets } => self.node_returns(NodeId(*node), *forgets),
            Happening::ProcessesLost(node) => self.processes_lost(NodeId(*node)),
            Happening::Staged { .. }
            | Happening::Started(_)
            | Happening::Unstarted(_)
            | Happening::Terminated(_) => self.take_progress(happening),
            Happening::PartOver { pick, code } => self.with_part(*pick, |world, part| {
                world.part_over(part, ExitStatus::Code(*code));
            }),
            Happening::RankKilled(_)
            | Happening::RankLeft(_)
            | Happening::LaunchFailed(_)
            | Happening::JobFailed(_) => self.take_failure(happening),
            Happening::AskStep { .. }
            | Happening::LeaveStep { .. }
            | Happening::StepStaged { .. }
            | Happening::CancelStep(_) => self.take_further(happening),
            Happening::Edge => self.edge(),
            Happening::Timer => self.timer(),
            Happening::Restart { dead, deaf, replaced } => {
                let has = |bits: u32| move |node: NodeId| bits & (1 << node.0) != 0;
                self.restart_over(has(*dead), has(*deaf), has(*replaced));
            }
            Happening::Stale { job, incarnation, node } => {
                self.stale(NodeId(*node), JobId(*job), JobIncarnation(*incarnation));
            }
        }
    }

    /// The driver reports how far a launch or an end is, if there is one.
    fn take_progress(&mut self, happening: &Happening) {
        match happening {
            Happening::Staged { pick, fails } if !self.stages.is_empty() => {
                let reason = "no room".to_owned();
                let outcome = if *fails { Err(reason) } else { Ok(StageOutcome::default()) };
                self.staged(pick % self.stages.len(), outcome);
            }
            Happening::Started(pick) if !self.starts.is_empty() => {
                self.started(pick % self.starts.len());
            }
            Happening::Terminated(pick) if !self.terminations.is_empty() => {
                let watch = self.terminations.remove(pick % self.terminations.len());
                if !self.parts.keys().any(|(_, _, run)| *run == watch.incarnation) {
                    self.act(|core, now| core.terminated(now, watch.step.job, watch.incarnation));
                }
            }
            Happening::Unstarted(pick) if !self.overdue.is_empty() => {
                self.unstarted(pick % self.overdue.len());
            }
            _ => {}
        }
    }

    /// Something about a further step of a script.
    fn take_further(&mut self, happening: &Happening) {
        match happening {
            Happening::AskStep { pick, ask, size, shipped } => {
                let live: Vec<JobId> = self.core.live.iter().map(|(job, _)| job).collect();
                let Some(job) = live.get(pick % live.len().max(1)).copied() else { return };
                let asked = (*ask, *size);
                let first = self.ask_as(super::world::USER, job, asked, *shipped);
                let again = self.ask_as(super::world::USER, job, asked, *shipped);
                assert!(first.is_err() || first == again, "{first:?} and {again:?}");
            }
            Happening::LeaveStep { pick, ask } => {
                let mut waiting = self.core.live.with_waiting_steps().map(|(job, _)| job);
                let job = waiting.nth(pick % 2);
                drop(waiting);
                if let Some(job) = job {
                    self.act(|core, _| core.forget_step(job, StepAsk(*ask)));
                }
            }
            Happening::StepStaged { pick, fails } if !self.step_stages.is_empty() => {
                let reason = "no room".to_owned();
                let outcome = if *fails { Err(reason) } else { Ok(StageOutcome::default()) };
                self.step_staged(pick % self.step_stages.len(), outcome);
            }
            Happening::CancelStep(pick) => {
                let live = self.core.live.iter();
                let steps = live.flat_map(|(job, live)| {
                    live.steps().into_iter().map(move |number| (job, number))
                });
                let steps: Vec<(JobId, u32)> = steps.collect();
                if let Some((job, number)) = steps.get(pick % steps.len().max(1)).copied() {
                    self.cancel_step(job, number);
                }
            }
            _ => {}
        }
    }

    /// A node reports a failure of its part of a job.
    fn take_failure(&mut self, happening: &Happening) {
        match happening {
            Happening::RankKilled(pick) => {
                self.with_part(*pick, |world, (node, job, incarnation)| {
                    let exit =
                        exit(world.parts[&(node, job, incarnation)].0[0], ExitStatus::Signal(9));
                    let step = StepRef::program(job);
                    world.report(
                        node,
                        Report::RankFailed { step, incarnation, exit, joined: false },
                    );
                })
            }
            Happening::RankLeft(pick) => {
                self.with_part(*pick, |world, (node, job, incarnation)| {
                    let exit =
                        exit(world.parts[&(node, job, incarnation)].0[0], ExitStatus::Code(0));
                    let step = StepRef::program(job);
                    world
                        .report(node, Report::RankFailed { step, incarnation, exit, joined: true });
                })
            }
            Happening::LaunchFailed(pick) => {
                self.with_part(*pick, |world, (node, job, incarnation)| {
                    let rank = world.parts[&(node, job, incarnation)].0[0];
                    let reason = "no such file".to_owned();
                    let step = StepRef::program(job);
                    let failed =
                        Report::LaunchFailed { step, incarnation, rank, reason, exit_code: 127 };
                    world.report(node, failed);
                })
            }
            Happening::JobFailed(pick) => {
                self.with_part(*pick, |world, (node, job, incarnation)| {
                    let reason = "too many keys".to_owned();
                    world.report(
                        node,
                        Report::JobFailed { step: StepRef::program(job), incarnation, reason },
                    );
                })
            }
            _ => unreachable!("no failure: {happening:?}"),
        }
    }

    /// Something about needs of jobs other than elements, or about their partition.
    fn take_need(&mut self, happening: &Happening) {
        match happening {
            Happening::SubmitNeedy { procs, needs, after, tasks } => {
                let needs = self.needs(*needs, *after, *tasks);
                let spec = JobSpec { needs, ..spec(*procs, false, tasks % 2 == 0) };
                let _ = self.act(|core, now| core.submit(now, super::world::USER, spec));
            }
            Happening::Hold { pick, admin } => {
                if let Some(job) = self.unit(*pick) {
                    let _ = self.act(|core, now| core.hold(now, peer(*admin), job));
                }
            }
            Happening::Release { pick, admin } => {
                if let Some(job) = self.unit(*pick) {
                    let _ = self.act(|core, now| core.release_hold(now, peer(*admin), job));
                }
            }
            Happening::Change { pick, what } => {
                if let Some(job) = self.unit(*pick) {
                    self.change(job, *what);
                }
            }
            Happening::SetSched(sched) => {
                let sched = Some(*sched);
                self.act(|core, now| core.set_partition(now, ADMIN, "all", sched, None)).unwrap();
            }
            Happening::SetQuantum(ms) => {
                let quantum = Some(Duration::from_millis(*ms));
                let set =
                    self.act(|core, now| core.set_partition(now, ADMIN, "all", None, quantum));
                let slices = self.core.partitions[PARTITION].policy().quantum();
                assert!(set.is_err() || slices.is_none() || slices == quantum);
            }
            _ => {}
        }
    }

    /// The number of a job, or of its array.
    fn unit(&self, pick: usize) -> Option<JobId> {
        let record = self.core.jobs.values().nth(pick % self.core.jobs.keys().count().max(1))?;
        Some(if pick.is_multiple_of(2) { record.id } else { record.unit() })
    }

    fn needs(&self, bits: u8, after: usize, tasks: u32) -> Needs {
        let bit = |number: u32| bits & (1 << number) != 0;
        let condition = match (self.unit(after), bits >> 6) {
            (Some(job), 0) => Condition::AfterOk(job),
            (Some(job), 1) => Condition::AfterAny(job),
            (Some(job), 2) if after.is_multiple_of(3) => Condition::AfterNotOk(job),
            (Some(job), 2) => Condition::After { job, minutes: u32::from(after % 3 == 1) },
            // Most arrays are refused this condition, as they have other indices.
            (Some(job), _) if after.is_multiple_of(3) => Condition::AfterCorr(job),
            _ => Condition::Singleton,
        };
        let conditions = match self.unit(after / 2) {
            Some(job) if bit(4) => vec![condition, Condition::AfterAny(job)],
            _ => vec![condition],
        };
        let range = IndexRange { first: 1, last: tasks * 2, step: 2 };
        let limit = (tasks > 2).then_some(2);
        let later = jiff::SignedDuration::from_millis(20);
        Needs {
            hold: bit(0),
            begin: bit(1).then(|| self.core.wall(self.now) + later),
            dependency: bit(2).then_some(Dependency { any: bit(5), conditions }),
            kill_on_invalid_dep: bit(3),
            array: (tasks > 0).then(|| ArraySpec { ranges: vec![range], limit }),
        }
    }

    /// Reports on a run, if the run is over.
    fn stale(&mut self, node: NodeId, job: JobId, incarnation: JobIncarnation) {
        let lives = self.parts.keys().any(|(_, j, i)| (*j, *i) == (job, incarnation));
        let current = self.core.live.get(job).map(|live| live.incarnation());
        // A step that is being staged has no parts yet, and is not over either.
        let of_step = self.core.live.step_of_run(job, incarnation).is_some();
        if !lives && !of_step && current != Some(incarnation) {
            let ranks = vec![exit(Rank(0), ExitStatus::Code(0))];
            self.report(
                node,
                Report::Terminated { step: StepRef::program(job), incarnation, ranks },
            );
            self.act(|core, now| core.terminated(now, job, incarnation));
            self.act(|core, now| core.started(now, job, incarnation));
        }
    }

    fn with_part(&mut self, pick: usize, act: impl FnOnce(&mut World, super::world::PartKey)) {
        if let Some(part) = self.parts.keys().nth(pick % self.parts.len().max(1)).copied() {
            act(self, part);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_happens_the_invariants_hold_and_every_job_ends(
        sched in sched(),
        job_slots in 1..6_u32,
        keeps_jobs in any::<bool>(),
        steps in prop::collection::vec(happening(), 1..120),
    ) {
        let mut world = World::joined_serving(sched, job_slots, urgencies());
        if keeps_jobs {
            world.keep_jobs();
        }
        for step in &steps {
            world.take(step);
            check_all(&world);
        }
        world.finish();
        check_all(&world);
        prop_assert!(world.core.live.is_empty() && world.core.live.awaiting().next().is_none());
    }

    #[test]
    fn whatever_happened_a_shutdown_ends_all_and_a_restart_knows_all(
        sched in sched(),
        job_slots in 1..4_u32,
        steps in prop::collection::vec(happening(), 1..60),
    ) {
        let mut world = World::joined_serving(sched, job_slots, urgencies());
        steps.iter().for_each(|step| world.take(step));

        let now = Instant::ORIGIN;
        let service = urgencies();
        let config = CoreConfig { service, ..super::world::config(sched, job_slots) };
        let again = Core::new(config, world.journal.clone(), now).unwrap();
        prop_assert_eq!(
            again.jobs.keys().collect::<Vec<_>>(),
            world.core.jobs.keys().collect::<Vec<_>>()
        );
        let pending = |job: &&JobId| {
            let waits = again.jobs[*job].phase == crate::job::Phase::Pending;
            waits && !again.jobs.needs().is_waiting(**job)
        };
        let mut waiting: Vec<JobId> = again.jobs.keys().filter(pending).copied().collect();
        let partition = &again.partitions[PARTITION];
        // A policy puts preempted jobs first; the next policy does not have their order yet.
        let told = partition.next_sched().is_none();
        waiting.sort_by_key(|job| (told && !again.jobs[job].comes_first, *job));
        let waiting: Vec<u64> = waiting.into_iter().map(|job| job.0).collect();
        let switching = partition.queue_of_next().iter();
        let queue = partition.policy().pending();
        let queue = queue.iter().map(|job| job.0).chain(switching.map(|job| job.0));
        prop_assert_eq!(queue.collect::<Vec<_>>(), waiting);

        let placed = world.core.live.launches().issued;
        world.act(|core, now| core.shut_down(now));
        check_all(&world);
        prop_assert_eq!(world.core.live.launches().issued, placed, "a job started while going down");
        world.finish();
        prop_assert!(world.core.is_down());
    }
}

/// Regression: the model took a run for younger than the manager did, which looks a moment later.
#[test]
fn a_starting_job_is_as_old_for_the_model_as_for_the_manager() {
    let submit = |procs, shipped, qos| Happening::Submit {
        procs,
        nodes: None,
        shipped,
        requeue: false,
        limited: false,
        script: false,
        qos,
    };
    let steps = [
        submit(5, true, 3),
        submit(2, true, 0),
        Happening::Restart { dead: 0, deaf: 0, replaced: 0 },
        Happening::Cancel(14),
        Happening::Timer,
        submit(1, false, 0),
        Happening::Stale { job: 1, incarnation: 0, node: 1 },
        Happening::Restart { dead: 0, deaf: 0, replaced: 0b10000 },
    ];
    let mut world = World::joined_serving("fcfs", 1, urgencies());
    world.keep_jobs();
    for step in &steps {
        world.take(step);
        check_all(&world);
    }
    world.finish();
}
