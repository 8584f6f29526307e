//! In practice, a job ends a moment after its time limit, or its node dies. The tests cover
//! backfilling with wrong estimates, jobs without a limit, and jobs for an exact number of nodes.

use std::time::Duration;

use storm_sched::{
    Action, Event, JobId, JobRequest, Machine, NodeIndex, Policy, PolicyParams, Priority,
    SchedTime, registry,
};

const BACKFILLING: [&str; 3] = ["backfill", "easy-sjbf", "conservative"];

/// A policy on `nodes` nodes of `pes` PEs, and the events that it gets.
struct Bench {
    name: &'static str,
    policy: Box<dyn Policy>,
}

impl Bench {
    fn new(name: &'static str, nodes: u32, pes: u32) -> Self {
        let machine = Machine::uniform(nodes, pes).unwrap();
        let policy = registry::by_name(name, machine, &PolicyParams::default()).unwrap();
        Self { name, policy }
    }

    /// The jobs that start after an event at a second.
    fn tell(&mut self, now_s: u64, event: Event) -> Vec<u64> {
        let actions = self.policy.handle(SchedTime::from_secs(now_s), event);
        self.policy.check().unwrap();
        let started = |action: Action| match action {
            Action::Start { job, .. } => Some(job.0),
            Action::Refused(why) => panic!("{}: {why}", self.name),
            _ => None,
        };
        actions.into_iter().filter_map(started).collect()
    }

    fn submit(&mut self, now_s: u64, job: u64, procs: u32, limit_s: u64) -> Vec<u64> {
        self.tell(now_s, Event::Submit(request(job, procs, limit_s)))
    }

    fn finished(&mut self, now_s: u64, job: u64) -> Vec<u64> {
        self.tell(now_s, Event::Finished(JobId(job)))
    }

    fn estimate(&self, now_s: u64, job: u64) -> Option<SchedTime> {
        self.policy.estimate(SchedTime::from_secs(now_s), JobId(job))
    }

    fn why(&self, job: u64) -> String {
        let reason = self.policy.explain(SchedTime::ZERO, JobId(job));
        reason.expect("the job waits").to_string()
    }
}

fn request(job: u64, procs: u32, limit_s: u64) -> JobRequest {
    JobRequest::new(JobId(job), procs).with_time_limit(Duration::from_secs(limit_s))
}

#[test]
fn a_job_waits_for_the_pes_of_one_that_is_over_its_limit() {
    for name in BACKFILLING {
        let mut bench = Bench::new(name, 4, 1);
        assert_eq!(bench.submit(0, 1, 4, 10), [1]);
        // At 12 s the end of job 1 is on its way, and the start of job 2 is decided.
        assert_eq!(bench.submit(12, 2, 3, 10), [], "{name}");
        assert_eq!(bench.policy.pending(), [JobId(2)]);
        assert_eq!(bench.estimate(12, 2), Some(SchedTime::from_secs(12)));
        assert_eq!(bench.why(2), "waits for 3 more free PEs: 0 of 4 are free, 3 are needed");
        assert_eq!(bench.finished(13, 1), [2], "{name}");
        assert_eq!(bench.policy.running(), [JobId(2)]);
    }
}

#[test]
fn a_job_whose_start_is_decided_can_be_withdrawn() {
    for name in BACKFILLING {
        let mut bench = Bench::new(name, 4, 1);
        bench.submit(0, 1, 4, 10);
        bench.submit(12, 2, 3, 10);
        bench.submit(12, 3, 2, 10);
        assert_eq!(bench.tell(12, Event::Cancel(JobId(2))), []);
        assert_eq!(bench.finished(12, 1), [3], "{name}");
        assert_eq!(bench.policy.pending(), []);
    }
}

#[test]
fn the_pes_of_a_job_over_its_limit_do_not_come_from_a_node_that_died() {
    for name in BACKFILLING {
        let mut bench = Bench::new(name, 2, 2);
        bench.submit(0, 1, 4, 10);
        assert_eq!(bench.submit(12, 2, 4, 10), []);
        assert_eq!(bench.tell(12, Event::NodeDown(NodeIndex(1))), []);
        assert_eq!(bench.finished(13, 1), [], "{name}: half of the machine is down");
        assert_eq!(bench.estimate(13, 2), None);
        assert!(bench.why(2).starts_with("n2 is down"), "{}", bench.why(2));
        // Other jobs need not wait for a node that may never come back.
        assert_eq!(bench.submit(14, 3, 2, 10), [3], "{name}");
        assert_eq!(bench.tell(15, Event::NodeUp(NodeIndex(1))), []);
        assert_eq!(bench.submit(16, 4, 1, 100), [], "{name}: the head has a reservation again");
        assert_eq!(bench.finished(24, 3), [2], "{name}");
    }
}

#[test]
fn the_head_is_promised_a_start_and_others_pass_it_where_they_do_no_harm() {
    for name in BACKFILLING {
        let mut bench = Bench::new(name, 4, 1);
        bench.submit(0, 1, 3, 10);
        bench.submit(1, 2, 4, 10);
        assert_eq!(bench.estimate(1, 2), Some(SchedTime::from_secs(10)));
        assert_eq!(bench.submit(2, 3, 1, 9), [], "{name}: it would end at 11");
        let why = "there is room for it now, but as long as it may run it could delay a job that has \
                   the next PEs; job 2 is ahead in the queue";
        assert_eq!(bench.why(3), why);
        assert_eq!(bench.submit(2, 4, 1, 8), [4], "{name}: it ends at 10");
        assert_eq!(bench.finished(10, 4), []);
        assert_eq!(bench.finished(10, 1), [2], "{name}");
    }
}

#[test]
fn jobs_without_a_limit_never_pass_and_promise_no_start() {
    for name in BACKFILLING {
        let mut bench = Bench::new(name, 4, 1);
        let unlimited = |job, procs| Event::Submit(JobRequest::new(JobId(job), procs));
        assert_eq!(bench.tell(0, unlimited(1, 3)), [1]);
        assert_eq!(bench.tell(1, unlimited(2, 4)), []);
        assert_eq!(bench.estimate(1, 2), None, "{name}: nobody knows");
        assert_eq!(bench.tell(2, unlimited(3, 1)), [], "{name}: it could delay job 2");
        assert_eq!(bench.submit(3, 4, 1, 1_000_000), [4], "{name}: it ends, at least");
        assert_eq!(bench.finished(4, 4), []);
        assert_eq!(bench.finished(5, 1), [2], "{name}");
    }
}

#[test]
fn a_partition_can_have_a_default_estimate() {
    let params =
        PolicyParams { default_estimate_s: std::num::NonZeroU32::new(60), ..Default::default() };
    for name in BACKFILLING {
        let machine = Machine::uniform(4, 1).unwrap();
        let policy = registry::by_name(name, machine, &params).unwrap();
        let mut bench = Bench { name, policy };
        bench.tell(0, Event::Submit(JobRequest::new(JobId(1), 3)));
        bench.tell(0, Event::Submit(JobRequest::new(JobId(2), 4)));
        assert_eq!(bench.estimate(0, 2), Some(SchedTime::from_secs(60)), "{name}");
    }
}

/// When a job for the whole machine, node by node, starts in a stream of small jobs.
fn start_in_a_stream(name: &'static str) -> Option<u64> {
    let mut bench = Bench::new(name, 4, 2);
    bench.submit(0, 1, 1, 5);
    bench.submit(0, 2, 1, 7);
    let whole = request(3, 8, 10).with_nodes(4);
    assert_eq!(bench.tell(1, Event::Submit(whole)), []);
    let mut running = vec![(5, 1), (7, 2)];
    for now_s in 2..20 {
        let mut started = Vec::new();
        for (_, ended) in running.extract_if(.., |(end_s, _)| *end_s == now_s) {
            started.extend(bench.finished(now_s, ended));
        }
        started.extend(bench.submit(now_s, 100 + now_s, 1, 3));
        if started.contains(&3) {
            return Some(now_s);
        }
        running.extend(started.into_iter().map(|job| (now_s + 3, job)));
    }
    None
}

#[test]
fn a_stream_of_small_jobs_does_not_starve_a_job_for_exact_nodes() {
    for name in BACKFILLING {
        assert_eq!(start_in_a_stream(name), Some(7), "{name}");
    }
}

#[test]
fn a_job_that_is_given_a_priority_is_the_head() {
    for name in ["fcfs", "backfill", "easy-sjbf", "conservative"] {
        let mut bench = Bench::new(name, 4, 1);
        bench.submit(0, 1, 4, 10);
        bench.submit(1, 2, 4, 10);
        bench.submit(2, 3, 4, 10);
        let event = Event::Prioritise { job: JobId(3), priority: Priority(1) };
        assert_eq!(bench.tell(3, event), []);
        assert_eq!(bench.policy.pending(), [JobId(3), JobId(2)]);
        assert_eq!(bench.estimate(3, 3), Some(SchedTime::from_secs(10)), "{name}");
        assert_eq!(bench.finished(10, 1), [3], "{name}");
    }
}
