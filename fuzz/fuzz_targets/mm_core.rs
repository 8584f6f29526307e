//! The Machine Manager's core with nodes that report anything and users who submit anything. Its
//! messages can be sent and read, its journal makes the same manager again, and its state can be
//! shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use storm_fuzz::{MM_USER, NODES, PES, Script, job_spec, manager_config, survives};
use storm_mm::api::{HistoryQuery, JobFilter};
use storm_mm::journal::Entry;
use storm_mm::{Core, Durable, StageJob, StageOutcome, Timer, Watch};
use storm_primitives::{Instant, NodeId};
use storm_rm::message::{Command, NodeInfo, Report};
use storm_rm::{JobId, JobSpec, PartitionId};

/// The one partition.
const PARTITION: PartitionId = PartitionId(0);
/// The size of a heartbeat beside its commands.
const ENVELOPE_BYTES: usize = 8 << 10;

/// Checks that a command fits a heartbeat and survives its encoding.
fn check_command(command: Command, heartbeat_bytes: usize) {
    let encoded = postcard::to_stdvec(&command).expect("a command is encoded");
    assert!(encoded.len() <= heartbeat_bytes - ENVELOPE_BYTES, "{command:?}");
    assert_eq!(survives::<Command>(&encoded), Some(command));
}

struct World {
    core: Core,
    now: Instant,
    sched: &'static str,
    journal: Vec<Entry>,
    stages: Vec<StageJob>,
    watches: Vec<Watch>,
    timers: Vec<Timer>,
}

impl World {
    fn new(sched: &'static str) -> World {
        let core =
            Core::new(manager_config(sched), [], Instant::ORIGIN).expect("own configuration");
        let (journal, stages, watches, timers) = Default::default();
        let mut world =
            World { core, now: Instant::ORIGIN, sched, journal, stages, watches, timers };
        for node in 1..=NODES {
            world.join(NodeId(node));
        }
        world
    }

    fn act<T>(&mut self, act: impl FnOnce(&mut Core, Instant) -> T) -> T {
        self.now = self.now + Duration::from_micros(100);
        let result = act(&mut self.core, self.now);
        let heartbeat_bytes = manager_config(self.sched).heartbeat_bytes;
        for effect in self.core.take_effects().durable {
            match effect {
                Durable::Journal(entry) => {
                    let encoded = postcard::to_stdvec(&entry).expect("an entry is encoded");
                    assert_eq!(survives::<Entry>(&encoded), Some(entry.clone()));
                    self.journal.push(entry);
                }
                Durable::Command(_, command) => check_command(command, heartbeat_bytes),
                Durable::Draft(_, draft) => {
                    check_command(draft.command(&self.core.active_rows()), heartbeat_bytes);
                }
                Durable::Stage(stage) => self.stages.push(stage),
                Durable::AwaitStarted(watch)
                | Durable::NameUnstarted(watch)
                | Durable::AwaitTermination(watch) => self.watches.push(watch),
                Durable::Timer { timer, .. } => self.timers.push(timer),
                // No request of this target asks for a step.
                Durable::AbandonStaging(_)
                | Durable::Notify(..)
                | Durable::NotifyStep(..)
                | Durable::Step(_) => {}
            }
        }
        result
    }

    fn join(&mut self, node: NodeId) {
        let info = NodeInfo {
            hostname: format!("host{node}"),
            address: "127.0.0.1".to_owned(),
            pes: PES,
            memory_mib: 1,
            version: "0".to_owned(),
            capabilities: Vec::new(),
            only_uid: None,
            returns: None,
        };
        self.act(|core, now| core.report(now, node, Report::Joined(info)));
    }

    fn submit(&mut self, spec: JobSpec) {
        // A job that cannot run is refused.
        let _ = self.act(|core, now| core.submit(now, MM_USER, spec));
    }

    /// Asks for everything that users can ask for.
    fn look(&self) {
        let everything = JobFilter { history: true, ..JobFilter::default() };
        for view in self.core.list_jobs(self.now, &everything) {
            let detail = self.core.show(self.now, view.id).expect("it was listed");
            serde_json::to_string(&detail).expect("it can be shown");
            let why = self.core.explain(self.now, view.id).expect("it was listed");
            serde_json::to_string(&why).expect("it can be shown");
        }
        let history = self.core.history(self.now, &HistoryQuery::default());
        serde_json::to_string(&history).expect("it can be shown");
        serde_json::to_string(&self.core.list_nodes(self.now)).expect("it can be shown");
        serde_json::to_string(&self.core.list_partitions()).expect("it can be shown");
        serde_json::to_string(&self.core.status(self.now, Instant::ORIGIN))
            .expect("it can be shown");
    }

    /// Another manager on the same journal.
    fn restart(&mut self) {
        let journal = self.journal.clone();
        self.core = Core::new(manager_config(self.sched), journal, self.now).expect("as before");
        self.act(|_, _| ());
    }

    fn take(&mut self, script: &mut Script<'_>, step: u8) -> Option<()> {
        match step {
            0 => {
                let options = script.byte();
                let procs = 1 + u32::from(options % 9);
                self.submit(job_spec(procs, options & 64 != 0, options & 128 != 0));
            }
            1 => {
                let spec = script.message()?;
                self.submit(spec);
            }
            2..=5 => {
                let node = script.node(NODES);
                let report = script.message()?;
                self.act(|core, now| core.report(now, node, report));
            }
            6 => {
                let node = script.node(NODES);
                self.act(|core, now| core.node_lost(now, node));
            }
            7 => {
                let node = script.node(NODES);
                self.join(node);
            }
            8 => self.act(|core, now| core.cut_slice(now, PARTITION)),
            9 => {
                let stage = self.stages.swap_remove(script.pick(self.stages.len())?);
                let outcome = if script.byte() == 0 {
                    Err("no".to_owned())
                } else {
                    Ok(StageOutcome::default())
                };
                self.act(|core, now| core.staged(now, stage.job, stage.incarnation, outcome));
            }
            10 => {
                let watch = self.watches.swap_remove(script.pick(self.watches.len())?);
                let (job, run) = (watch.step.job, watch.incarnation);
                match script.byte() % 3 {
                    0 => self.act(|core, now| core.started(now, job, run)),
                    1 => self.act(|core, now| core.terminated(now, job, run)),
                    _ => self.act(|core, now| core.unstarted(now, job, run, &watch.nodes)),
                }
            }
            11 => {
                let at = script.pick(self.timers.len())?;
                let timer = self.timers.swap_remove(at);
                self.now = self.now + Duration::from_secs(1);
                self.act(|core, now| core.timer(now, timer));
            }
            12 => {
                let (job, signal) =
                    (JobId(u64::from(script.byte())), script.message::<Option<i32>>()?);
                // A job that has ended cannot be cancelled.
                let _ = self.act(|core, now| core.cancel(now, MM_USER, job, signal));
            }
            13 => self.restart(),
            14 => self.look(),
            _ => self.act(|core, now| core.shut_down(now)),
        }
        Some(())
    }
}

fuzz_target!(|input: &[u8]| {
    let mut script = Script::new(input);
    let mut world = World::new(if script.byte() % 2 == 0 { "gang" } else { "fcfs" });
    while let Some(step) = script.step(16) {
        // A step for which there is nothing to choose from is none.
        let _ = world.take(&mut script, step);
    }
    world.look();
    world.restart();
    world.look();
});
