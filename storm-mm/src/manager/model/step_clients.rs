//! Steps and the clients that asked for them.

use super::further_steps::{running, size};
use super::invariants::check_all;
use super::world::{NODES, PES, USER, World};
use crate::api::{ClientEnd, ErrorCode, JobState, Reply};
use crate::job::EndCause;
use crate::manager::{AskedStep, StepTimer, Timer};
use storm_rm::{JobId, StepAsk};

const ASK: StepAsk = StepAsk(1);

/// Fires the timers of steps that wait for clients.
fn wait_for_clients(world: &mut World) {
    let is_due = |timer: &Timer| matches!(timer, Timer::Step { kind: StepTimer::Client, .. });
    while let Some(index) = world.timers.iter().position(|(_, timer)| is_due(timer)) {
        world.fire(index);
        check_all(world);
    }
}

fn ending(world: &World, job: JobId) -> Option<EndCause> {
    world.record(job).steps.as_ref()?.get(0)?.ending.clone()
}

#[test]
fn a_step_ends_when_its_client_has_left_and_not_if_it_returned() {
    for end in [ClientEnd::Meant, ClientEnd::Broken] {
        let (mut world, job) = running();
        assert!(world.ask_step(job, 1, size(2)).is_ok());
        world.begin_all();
        world.act(|core, now| core.step_client_left(now, job, ASK, end));
        assert_eq!(world.ask_step(job, 1, size(2)), world.ask_step(job, 1, size(2)));
        world.act(|core, _| core.step_client_came(job, ASK));
        wait_for_clients(&mut world);
        assert_eq!(ending(&world, job), None, "it is back");
        world.act(|core, now| core.step_client_left(now, job, ASK, end));
        assert_eq!(ending(&world, job), None, "it has a moment");
        wait_for_clients(&mut world);
        assert_eq!(ending(&world, job), Some(EndCause::ClientLeft));
        world.finish();
        assert_eq!(world.record(job).state(), JobState::Completed, "the script goes on");
    }
}

#[test]
fn a_waiting_step_goes_with_its_client() {
    for end in [ClientEnd::Meant, ClientEnd::Broken] {
        let (mut world, job) = running();
        assert!(world.ask_step(job, 2, size(NODES * PES)).is_ok());
        assert_eq!(world.ask_step(job, 1, size(1)), Ok(AskedStep::Waits));
        world.act(|core, now| core.step_client_left(now, job, ASK, end));
        check_all(&world);
        assert!(world.core.step_news(job, ASK).is_empty());
        world.finish();
    }
}

#[test]
fn steps_of_a_former_manager_wait_for_their_clients() {
    let (mut world, job) = running();
    assert!(world.ask_step(job, 1, size(2)).is_ok());
    world.begin_all();
    world.restart(|_| false, |_| false);
    check_all(&world);
    let news = world.core.step_news(job, ASK);
    assert!(matches!(news[0], Reply::Step { step: Some(0), .. }), "{news:?}");
    wait_for_clients(&mut world);
    assert_eq!(ending(&world, job), Some(EndCause::ClientLeft));
    world.finish();
}

#[test]
fn the_owner_and_administrators_end_a_step_whether_it_waits_or_runs() {
    let (mut world, job) = running();
    assert!(world.ask_step(job, 1, size(NODES * PES)).is_ok());
    assert_eq!(world.ask_step(job, 2, size(1)), Ok(AskedStep::Waits));
    let mut stranger = USER;
    stranger.uid += 1;
    let refused = world.act(|core, now| core.end_asked_step(now, stranger, job, ASK));
    assert_eq!(refused.map_err(|error| error.code), Err(ErrorCode::NotPermitted));
    for ask in [StepAsk(2), ASK, ASK, StepAsk(77)] {
        let done = world.act(|core, now| core.end_asked_step(now, USER, job, ask));
        assert!(done.is_ok(), "{done:?}");
        check_all(&world);
    }
    assert!(world.core.step_news(job, StepAsk(2)).is_empty(), "it waits no longer");
    world.finish();
    let news = world.core.step_news(job, ASK);
    assert!(
        matches!(&news[..], [Reply::Step { .. }, Reply::Ended { state: JobState::Cancelled, .. }]),
        "{news:?}"
    );
}
