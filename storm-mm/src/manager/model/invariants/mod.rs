//! The invariants that hold after every step, one file each.

mod elements_accounted;
mod needs_respected;
mod no_idle_wait;
mod one_end;
mod replay;
mod rows_told;
mod running_in_turn;
mod slots;
mod steps_in_places;
mod surroundings;

use super::world::World;

/// The violation, if the invariant does not hold.
type Check = fn(&World) -> Result<(), String>;

/// The invariants by name.
const ALL: &[(&str, Check)] = &[
    ("every step has one slot of its own", slots::check),
    ("elements are held by the jobs that the core believes", elements_accounted::check),
    ("no job waits for a slice edge on free elements", no_idle_wait::check),
    ("no job starts before it may", needs_respected::check),
    ("steps run in their places and share no element", steps_in_places::check),
    ("the journal gives the same records", replay::check),
    ("a job ends once and nothing follows", one_end::check),
    ("nodes and policy agree on the stopped jobs", rows_told::check),
    ("the time of a job passes in its row only", running_in_turn::check),
    ("nothing is placed on the dead or forgotten alive", surroundings::check),
];

/// Checks all invariants.
///
/// # Panics
/// An invariant does not hold; the message names the first.
pub(super) fn check_all(world: &World) {
    for (name, check) in ALL {
        if let Err(what) = check(world) {
            panic!("{name}: {what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::{PARTITION, World, spec};
    use super::*;
    use crate::api::JobState;
    use crate::job::{JobEvent, JobEventKind, Outcome};
    use crate::journal::Entry;
    use crate::manager::live::Launch;
    use storm_rm::{JobId, Row};

    fn running() -> (World, JobId) {
        let mut world = World::joined("gang", 4);
        let job = world.submit(spec(8, false, false));
        world.started(0);
        check_all(&world);
        (world, job)
    }

    #[test]
    fn each_checker_can_fail() {
        let (mut world, job) = running();
        let place = world.core.live.get(job).unwrap().clone();
        world.core.live.free_slots_of(&place);
        assert!(slots::check(&world).is_err());

        let (mut world, job) = running();
        let of_it = |entry: &Entry| entry.of_job().is_some_and(|(of, _)| of == job);
        let submitted = world.journal.iter().position(of_it).unwrap();
        let at = jiff::Timestamp::UNIX_EPOCH;
        let kind = JobEventKind::Held { hold: crate::job::Hold::User };
        world.journal.insert(submitted + 1, Entry::Job(job, JobEvent { at, kind }));
        assert!(needs_respected::check(&world).is_err());

        let (mut world, job) = running();
        assert!(world.core.live.release(job).is_some());
        assert!(elements_accounted::check(&world).is_err());

        let (mut world, _) = running();
        world.journal.pop();
        assert!(replay::check(&world).is_err());

        let (mut world, job) = running();
        let outcome = Outcome { state: JobState::Completed, exit_code: 0, reason: None };
        let at = jiff::Timestamp::UNIX_EPOCH;
        let ran = std::time::Duration::ZERO;
        let kind = JobEventKind::Ended { outcome, exits: Vec::new(), ran };
        world.journal.extend(vec![Entry::Job(job, JobEvent { at, kind }); 2]);
        assert!(one_end::check(&world).is_err());

        let (mut world, _) = running();
        world.core.partitions.make_active(PARTITION, Row(1));
        assert!(running_in_turn::check(&world).is_err());
        assert!(no_idle_wait::check(&world).is_err());

        let (mut world, job) = running();
        world.core.live.set_launch(job, Launch::Staged);
        assert!(no_idle_wait::check(&world).is_err());

        for break_it in super::super::further_steps::BREAKS {
            let (mut world, script) = super::super::further_steps::running();
            let _ = world.ask_step(script, 1, super::super::further_steps::size(2));
            check_all(&world);
            break_it(&mut world, script);
            assert!(steps_in_places::check(&world).is_err());
        }

        let (mut world, _) = running();
        world.faults.push("something".to_owned());
        assert!(surroundings::check(&world).is_err());
    }
}
