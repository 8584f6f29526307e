//! Settings changed at run time and edits of the configuration, over restarts.

use super::invariants::check_all;
use super::world::{ADMIN, PARTITION, USER, World, spec};
use crate::CoreConfig;
use crate::api::{ErrorCode, JobState, PartitionView};
use crate::job::Phase;
use std::time::Duration;
use storm_rm::JobId;
use storm_sched::Quantum;

const CONFIGURED_US: u64 = 50_000;

fn quantum(us: u64) -> Quantum {
    Quantum::try_from(us).expect("in range")
}

fn view(world: &World) -> PartitionView {
    world.core.list_partitions().remove(0)
}

fn set(world: &mut World, sched: Option<&str>, us: Option<u64>) -> PartitionView {
    let quantum = us.map(Duration::from_micros);
    world
        .act(|core, now| core.set_partition(now, ADMIN, "all", sched, quantum))
        .expect("an administrator may")
}

fn reset(world: &mut World, sched: bool, quantum: bool) -> PartitionView {
    world
        .act(|core, now| core.reset_partition(now, ADMIN, "all", sched, quantum))
        .expect("an administrator may")
}

fn restart(world: &mut World, edit: fn(&mut CoreConfig)) {
    world.edit = edit;
    world.restart(|_| false, |_| false);
    check_all(world);
}

/// The quantum, and the configured one if it differs.
fn quanta(view: &PartitionView) -> (Option<u64>, Option<u64>) {
    (view.quantum_us, view.configured_quantum_us)
}

#[test]
fn a_setting_at_run_time_is_marked_and_stays_until_reset() {
    let mut world = World::joined("gang", 8);
    assert_eq!(quanta(&view(&world)), (Some(CONFIGURED_US), None));
    assert_eq!(quanta(&set(&mut world, None, Some(7_000))), (Some(7_000), Some(CONFIGURED_US)));
    let changed = set(&mut world, Some("fcfs"), None);
    assert_eq!(
        (changed.sched.as_str(), changed.configured_sched.as_deref()),
        ("fcfs", Some("gang"))
    );
    restart(&mut world, |_| ());
    let kept = view(&world);
    assert_eq!((kept.sched.as_str(), kept.configured_sched.as_deref()), ("fcfs", Some("gang")));
    let refused = world.act(|core, now| core.reset_partition(now, USER, "all", true, true));
    assert_eq!(refused.expect_err("a user may not").code, ErrorCode::NotPermitted);
    // The quantum can be reset even if the present policy has no use for it.
    reset(&mut world, false, true);
    let back = reset(&mut world, true, false);
    assert_eq!((back.sched.as_str(), back.configured_sched.as_deref()), ("gang", None));
    assert_eq!(quanta(&back), (Some(CONFIGURED_US), None));
    restart(&mut world, |_| ());
    assert_eq!(quanta(&view(&world)), (Some(CONFIGURED_US), None));
    // A value that equals the configured one is no change.
    set(&mut world, None, Some(7_000));
    assert_eq!(quanta(&set(&mut world, None, Some(CONFIGURED_US))), (Some(CONFIGURED_US), None));
    assert!(world.core.partitions.settings().is_empty());
}

#[test]
fn a_key_that_is_edited_counts_before_what_was_set_and_others_do_not() {
    let mut world = World::joined("gang", 8);
    set(&mut world, None, Some(7_000));
    set(&mut world, Some("fcfs"), None);
    restart(&mut world, |config| config.partitions[0].params.quantum_us = quantum(3_000));
    let edited = view(&world);
    assert_eq!((edited.sched.as_str(), edited.configured_sched.as_deref()), ("fcfs", Some("gang")));
    assert_eq!(edited.configured_quantum_us, None);
    restart(&mut world, |config| {
        config.partitions[0].params.quantum_us = quantum(3_000);
        config.partitions[0].sched = "ics".to_owned();
    });
    let edited = view(&world);
    assert_eq!((edited.sched.as_str(), edited.configured_sched.as_deref()), ("ics", None));
    restart(&mut world, |config| config.partitions[0].params.quantum_us = quantum(3_000));
    assert_eq!(quanta(&view(&world)), (Some(3_000), None), "gang, as configured again");
}

#[test]
fn settings_of_an_absent_partition_are_kept() {
    let mut world = World::joined("gang", 8);
    set(&mut world, None, Some(7_000));
    for _ in 0..2 {
        restart(&mut world, |config| config.partitions[0].name = "others".to_owned());
        assert_eq!(quanta(&view(&world)), (Some(CONFIGURED_US), None));
    }
    restart(&mut world, |_| ());
    assert_eq!(quanta(&view(&world)), (Some(7_000), Some(CONFIGURED_US)));
}

/// Jobs in rows that the edited policy does not have were lost.
#[test]
fn a_policy_that_is_edited_takes_over_as_one_that_is_set() {
    let mut world = World::joined("gang", 8);
    let rows = [0, 1].map(|_| world.submit(spec(8, false, false)));
    world.edge();
    (0..world.starts.len()).for_each(|_| world.started(0));
    let waits = world.submit(spec(8, false, false));
    fn spatial(config: &mut CoreConfig) {
        config.partitions[0].sched = "fcfs".to_owned();
    }
    restart(&mut world, spatial);
    let draining = view(&world);
    assert_eq!((draining.sched.as_str(), draining.next_sched.as_deref()), ("gang", Some("fcfs")));
    assert_eq!(draining.configured_sched, None, "it is what is configured");
    assert!(rows.iter().all(|job| !matches!(world.record(*job).phase, Phase::Ended(_))));
    restart(&mut world, spatial);
    world.finish();
    check_all(&world);
    assert_eq!((view(&world).sched.as_str(), view(&world).next_sched), ("fcfs", None));
    let completed = |job: &JobId| world.record(*job).state() == JobState::Completed;
    assert!(rows.iter().chain([&waits]).all(completed));
    // Without running jobs, the policy changes at once.
    restart(&mut world, |_| ());
    assert_eq!((view(&world).sched.as_str(), view(&world).next_sched), ("gang", None));
}

#[test]
fn a_very_long_slice_is_warned_of() {
    let mut world = World::joined("gang", 8);
    assert_eq!(set(&mut world, None, Some(60_000_000)).warning, None);
    let warned = set(&mut world, None, Some(3_600_000_000)).warning.expect("an hour");
    assert!(warned.starts_with("a slice lasts 3600 s: as soon as a second row"), "{warned}");
    for _ in 0..2 {
        world.submit(spec(8, false, false));
    }
    let warned = view(&world).warning.expect("an hour");
    assert!(warned.contains("of the 2 rows that hold jobs now"), "{warned}");
    assert_eq!(world.core.slice(PARTITION), Some(Duration::from_secs(3_600)));
    assert_eq!(reset(&mut world, false, true).warning, None);
}
