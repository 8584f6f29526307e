//! A log in virtual time, for tests. At one time, all submissions come first, in the order of the
//! log. Then come the ends, in the order of the starts (A2a of the policy reference).
//!
//! The replayer is another program: this module keeps only the starts.

use std::collections::BTreeMap;
use std::time::Duration;

use storm_sched::{Action, Event, JobId, JobRequest, Machine, Policy, SchedTime};

/// A job of a log, times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogJob {
    pub(crate) submit_s: u64,
    pub(crate) run_s: u64,
    pub(crate) estimate_s: u64,
    pub(crate) procs: u32,
}

/// A log with the number of PEs of its machine. The ids of jobs are their positions, from 1.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Log {
    pub(crate) pes: u32,
    pub(crate) jobs: Vec<LogJob>,
}

/// How the driver reports the events of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// One event at a time.
    PerEvent,
    /// All events of an instant at once.
    Together,
}

impl LogJob {
    /// The job's request, with this id.
    pub(crate) fn request(&self, id: JobId) -> JobRequest {
        JobRequest::new(id, self.procs).with_time_limit(Duration::from_secs(self.estimate_s))
    }
}

impl Log {
    /// Reads a log in the standard workload format, with the cleaning rule of the policy reference
    /// (B).
    pub(crate) fn parse(text: &str) -> Self {
        let mut log = Self::default();
        for line in text.lines() {
            if let Some(pes) = line.strip_prefix("; MaxProcs:") {
                log.pes = pes.trim().parse().unwrap();
                continue;
            }
            let fields: Vec<i64> =
                line.split_whitespace().map_while(|field| field.parse().ok()).collect();
            let [_, submit, _, run, allocated, _, _, asked, estimate, ..] = fields[..] else {
                continue;
            };
            let procs = if asked > 0 { asked } else { allocated };
            if run <= 0 || procs <= 0 || procs > i64::from(log.pes) || submit < 0 {
                continue;
            }
            let estimate = if estimate <= 0 { run } else { estimate };
            log.jobs.push(LogJob {
                submit_s: submit as u64,
                run_s: run.min(estimate) as u64,
                estimate_s: estimate as u64,
                procs: procs as u32,
            });
        }
        log
    }

    /// An idle machine for the log.
    pub(crate) fn machine(&self) -> Machine {
        Machine::uniform(self.pes, 1).unwrap()
    }

    /// When each job starts under a policy, in seconds. `watch` sees the policy after each
    /// decision.
    pub(crate) fn watch(
        &self,
        policy: &mut dyn Policy,
        telling: Telling,
        watch: &mut dyn FnMut(u64, &dyn Policy),
    ) -> Vec<u64> {
        // Ordered by time, then submissions before ends, then order of arrival.
        let mut events: BTreeMap<(u64, bool, usize), Event> = BTreeMap::new();
        for (arrival, (job, id)) in self.jobs.iter().zip(1..).enumerate() {
            events.insert((job.submit_s, false, arrival), Event::Submit(job.request(JobId(id))));
        }
        let mut starts = vec![None; self.jobs.len()];
        let mut started = 0;
        while let Some(((now_s, ..), event)) = events.pop_first() {
            let mut instant = vec![event];
            while telling == Telling::Together
                && events.first_key_value().is_some_and(|((next_s, ..), _)| *next_s == now_s)
            {
                instant.extend(events.pop_first().map(|(_, event)| event));
            }
            for action in policy.handle_together(SchedTime::from_secs(now_s), instant) {
                let Action::Start { job, .. } = action else { continue };
                let index = job.0 as usize - 1;
                assert_eq!(starts[index].replace(now_s), None, "job {job} starts twice");
                let end_s = now_s + self.jobs[index].run_s;
                events.insert((end_s, true, started), Event::Finished(job));
                started += 1;
            }
            watch(now_s, policy);
        }
        assert_eq!(policy.pending(), [], "jobs were left waiting");
        starts.into_iter().map(|start| start.expect("every job has started")).collect()
    }
}
