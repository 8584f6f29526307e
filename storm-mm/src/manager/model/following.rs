//! The notices to clients that follow jobs.

use super::cut_launches::{CUT, cut, keeps_jobs};
use super::world::{NODES, PES, World, spec};
use crate::api::Reply;
use crate::manager::{JobTimer, Notice, Timer};
use bytes::Bytes;
use storm_rm::message::{CutLaunch, HeldJob, Report, Stream};
use storm_rm::{JobId, JobIncarnation, Rank, StepRef};

const ALL: u32 = NODES * PES;

fn output(job: JobId, incarnation: JobIncarnation, offset: u64, text: &'static str) -> Report {
    let data = Bytes::from_static(text.as_bytes());
    Report::Output {
        step: StepRef::program(job),
        incarnation,
        rank: Rank(0),
        stream: Stream::Stdout,
        offset,
        data,
    }
}

/// The output that clients got since the last call, with its runs.
fn shown(world: &mut World) -> Vec<(JobIncarnation, Bytes)> {
    let notices = world.notices.drain(..);
    let of = |(_, notice)| match notice {
        Notice::Output(Reply::Output { run, data, .. }) => Some((run, data)),
        _ => None,
    };
    notices.filter_map(of).collect()
}

/// The last state that clients of the job received: whether nodes are away, and the reason.
fn told(world: &World, job: JobId) -> (bool, Option<String>) {
    let of = |(of, notice): &(JobId, Notice)| match notice {
        Notice::Event(Reply::State { away, reason, .. }) if *of == job => {
            Some((*away, reason.clone()))
        }
        _ => None,
    };
    world.notices.iter().rev().find_map(of).expect("a state")
}

/// Regression: a node that had stood still sent output of the job's first run, and the output was
/// shown again.
#[test]
fn output_of_an_earlier_run_is_dropped() {
    let mut world = World::joined("fcfs", 4);
    let job = world.submit(spec(ALL, false, true));
    world.begin_all();
    let first = world.record(job).incarnation;
    world.report(CUT, output(job, first, 0, "one"));
    assert_eq!(shown(&mut world), [(first, "one".into())]);
    cut(&mut world, job, CutLaunch::NotKept);
    world.report(CUT, output(job, first, 0, "one"));
    assert_eq!(shown(&mut world), []);
    world.begin_all();
    let second = world.record(job).incarnation;
    assert!(second > first);
    world.report(CUT, output(job, first, 0, "one, two"));
    world.report(CUT, output(job, second, 0, "again"));
    world.report(CUT, output(job, second, 0, "again!"));
    assert_eq!(shown(&mut world), [(second, "again".into()), (second, "!".into())]);
    world.finish();
}

/// Regression: a client got no notice while a node was away, and none that output was lost.
#[test]
fn those_who_follow_a_job_know_that_a_node_is_away() {
    let mut world = World::joined("fcfs", 4);
    keeps_jobs(&mut world, CUT);
    let job = world.submit(spec(ALL, false, false));
    world.begin_all();
    assert_eq!(told(&world, job), (false, None));
    let incarnation = world.record(job).incarnation;
    let leave = |world: &mut World| {
        world.joined.remove(&CUT);
        world.act(|core, now| core.node_left(now, CUT));
        let why = "the Node Manager of n1 has ended: it waits for the next one";
        assert_eq!(told(world, job), (true, Some(why.to_owned())));
    };
    leave(&mut world);
    let jobs = vec![HeldJob { step: StepRef::program(job), incarnation }];
    world.report(CUT, Report::Holds { jobs, first_run: Some(JobIncarnation(1)) });
    world.node_up(CUT);
    assert_eq!(told(&world, job), (false, None), "it is back");
    keeps_jobs(&mut world, CUT);
    leave(&mut world);
    world.parts.retain(|part, _| part.0 != CUT);
    let recovery = |timer: &Timer| matches!(timer, Timer::Job { kind: JobTimer::Recovery, .. });
    let last = world.timers.iter().rev().find(|(_, timer)| recovery(timer));
    let (at, timer) = *last.expect("the return is awaited for a time");
    world.now = at;
    world.act(|core, now| core.timer(now, timer));
    let (away, why) = told(&world, job);
    let why = why.expect("a reason");
    assert!(away && why.contains("output of its ranks there since then is lost"), "{why}");
}
