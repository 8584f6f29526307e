//! A policy of another crate, namely this test's. It is registered together with those of
//! storm-sched, made by its name, and passes the policy suite.

use storm_sched::space::{Discipline, News, Order, Passing, Space, SpaceSharing, Verdict};
use storm_sched::{
    Event, JobId, JobRequest, Machine, Policy, PolicyParams, Registry, SchedTime, suite,
};

/// The largest job that fits starts first.
struct LargestFirst;

impl Discipline for LargestFirst {
    fn name(&self) -> &'static str {
        "largest-first"
    }

    fn passing(&self) -> Passing {
        Passing::Harmless
    }

    fn decide(&mut self, space: &mut Space, news: &[News]) {
        if !space.is_worth_a_pass(news) {
            return;
        }
        loop {
            let mut largest: Option<(u32, JobId)> = None;
            space.offer(Order::Queue, |job| {
                let procs = job.request().procs;
                if job.fits() && largest.is_none_or(|(most, _)| procs > most) {
                    largest = Some((procs, job.job()));
                }
                Verdict::Wait
            });
            match largest {
                Some((_, job)) if space.start(job) => {}
                _ => return,
            }
        }
    }
}

fn largest_first(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
    Box::new(SpaceSharing::under(LargestFirst, machine, params))
}

fn registry() -> Registry {
    let mut registry = Registry::standard();
    registry.register("largest-first", largest_first).unwrap();
    registry
}

#[test]
fn a_policy_is_made_by_name_beside_the_others() {
    let registry = registry();
    let machine = Machine::uniform(8, 1).unwrap();
    let mut policy = registry.make("largest-first", machine, &PolicyParams::default()).unwrap();
    assert_eq!(policy.name(), "largest-first");
    for (job, procs) in [(1, 8), (2, 2), (3, 5), (4, 3)] {
        policy.handle(SchedTime::ZERO, Event::Submit(JobRequest::new(JobId(job), procs)));
    }
    policy.handle(SchedTime::ZERO, Event::Finished(JobId(1)));
    assert_eq!(policy.running(), [JobId(3), JobId(4)]);
    let unknown =
        registry.make("smallest-first", Machine::uniform(1, 1).unwrap(), &Default::default());
    assert!(unknown.err().unwrap().to_string().ends_with(", largest-first"));
}

#[test]
fn an_out_of_tree_policy_passes_the_suite() {
    let registry = registry();
    let make = |machine| registry.make("largest-first", machine, &PolicyParams::default()).unwrap();
    let covered = suite::run_seeds(0..50, &make, &suite::any_space_sharing);
    let covered = covered.unwrap_or_else(|failure| panic!("{failure}: {}", failure.why));
    assert!(covered.starts > 20 * covered.runs, "{covered:?}");
}
