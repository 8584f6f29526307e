//! A pass examines only jobs that could start. It must start the same jobs as a pass over all jobs,
//! for generated workloads with and without reservations.

use storm_sched::space::{Discipline, News, Order, Passing, Shadow, Space, SpaceSharing, Verdict};
use storm_sched::suite::{self, Make, Workload};
use storm_sched::{JobId, Machine, Policy, PolicyParams, registry};

/// The number of workloads for each policy.
const SEEDS: u64 = 150;

/// EASY as in the policy reference (A2a), job by job. The jobs behind the head go in this order.
struct EveryJob {
    order: Order,
}

impl Discipline for EveryJob {
    fn name(&self) -> &'static str {
        "every-job"
    }

    fn passing(&self) -> Passing {
        Passing::Harmless
    }

    fn keeps_estimates(&self) -> bool {
        self.order == Order::ShortestFirst
    }

    fn decide(&mut self, space: &mut Space, news: &[News]) {
        if !space.is_worth_a_pass(news) {
            return;
        }
        let mut blocked: Option<(JobId, Shadow)> = None;
        space.offer(Order::Queue, |job| {
            if job.fits() {
                return Verdict::Start;
            }
            blocked = job.shadow().map(|shadow| (job.job(), shadow));
            if blocked.is_some() { Verdict::Stop } else { Verdict::Wait }
        });
        let Some((head, mut shadow)) = blocked else { return };
        space.offer(self.order, |job| {
            let starts = job.job() != head && job.fits() && shadow.admits(job);
            if starts { Verdict::Start } else { Verdict::Wait }
        });
    }
}

struct EveryJobShortestFirst;

impl Discipline for EveryJobShortestFirst {
    fn name(&self) -> &'static str {
        "every-job-shortest-first"
    }

    fn order(&self) -> Order {
        Order::ShortestFirst
    }

    fn passing(&self) -> Passing {
        Passing::Shortest
    }

    fn decide(&mut self, space: &mut Space, news: &[News]) {
        if !space.is_worth_a_pass(news) {
            return;
        }
        space.offer(Order::ShortestFirst, |job| match job.fits() {
            true => Verdict::Start,
            false if job.is_placeable() => Verdict::Stop,
            false => Verdict::Wait,
        });
    }
}

/// Whether a policy of the registry answers every event as this discipline does.
fn same<D: Discipline + 'static>(name: &str, discipline: impl Fn() -> D) {
    let params = PolicyParams::default();
    let every_job = |machine: Machine| -> Box<dyn Policy> {
        Box::new(SpaceSharing::under(discipline(), machine, &params))
    };
    let pruned = |machine: Machine| registry::by_name(name, machine, &params).unwrap();
    for workload in [Workload::new, Workload::reserving] {
        let mut starts = 0;
        for seed in 0..SEEDS {
            let run = |make: Make<'_>| suite::run_of(seed, workload(seed), make, Vec::new());
            let (expected, found) = (run(&every_job).unwrap(), run(&pruned).unwrap());
            assert_eq!(found, expected, "{name}, seed {seed}");
            starts += found.steps().iter().map(|(_, actions)| actions.len()).sum::<usize>();
        }
        assert!(starts > 1_000, "{starts}");
    }
}

#[test]
fn easy_starts_the_same_jobs_as_a_look_at_all_jobs() {
    same("backfill", || EveryJob { order: Order::Queue });
}

#[test]
fn easy_sjbf_starts_the_same_jobs_as_a_look_at_all_jobs() {
    same("easy-sjbf", || EveryJob { order: Order::ShortestFirst });
}

#[test]
fn shortest_first_starts_the_same_jobs_as_a_look_at_all_jobs() {
    same("sjf", || EveryJobShortestFirst);
}
