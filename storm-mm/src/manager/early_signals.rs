//! Signals that jobs request ahead of their time limits (Slurm `--signal`).
//!
//! A run gets its signal once. The journal has the signal before any node does, so the next manager
//! does not send it again. The time before the limit is run time, as the limit itself: a job in a
//! row among several gets the signal while it has as much left to run.

use super::{Core, Durable};
use crate::job::{JobEventKind, JobRecord, Phase};
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::message::Command;
use storm_rm::{FirstStep, JobId};

/// The run time at which a job gets its signal, if it has not had the signal.
pub(super) fn due(record: &JobRecord) -> Option<Duration> {
    let signal = record.spec.early_signal.filter(|_| !record.signalled_early)?;
    Some(signal.due(record.spec.time_limit?))
}

impl Core {
    /// Sends a job its early signal if it has run for `time` and the signal is due.
    pub(super) fn signal_early(&mut self, now: Instant, job: JobId, time: Duration) {
        let Some(record) = self.jobs.get(&job).filter(|record| record.phase == Phase::Running)
        else {
            return;
        };
        if self.is_recovering(job) {
            // A node without a Node Manager would not hear the signal. It stays due until all nodes
            // are back.
            return;
        }
        let (Some(signal), true) =
            (record.spec.early_signal, due(record).is_some_and(|due| time >= due))
        else {
            return;
        };
        let of_script = record.spec.first == FirstStep::Script;
        let (signal, script_only) = (signal.signal, signal.script_only);
        self.append(now, job, JobEventKind::SignalledEarly { signal });
        let step = self.first_step(job);
        if !script_only {
            self.signal_steps(job, signal);
        }
        let command = match (of_script, script_only) {
            (true, true) => Command::SignalScript { step, signal },
            (false, false) => Command::SignalJob { step, signal },
            // Without `B:` a script itself gets nothing, and without a script `B:` is for nobody.
            (true, false) | (false, true) => return,
        };
        let Some(live) = self.live.get(job) else { return };
        self.effects.durable.push(Durable::Command(live.nodes().clone(), command));
    }
}
