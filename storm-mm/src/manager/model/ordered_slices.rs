//! Nodes begin by themselves the slices that a strobe ordered, and get a strobe for all others
//! (decision 0091).

use super::world::{ADMIN, PARTITION, World, spec};
use storm_rm::message::Slices;
use storm_rm::{JobId, Row};

/// The strobes that an action of the core causes.
fn strobes(world: &mut World, act: impl FnOnce(&mut World)) -> Vec<Slices> {
    world.strobes.clear();
    act(world);
    std::mem::take(&mut world.strobes)
}

/// Three rows, each active once, so that their order is fixed.
fn three_rows() -> (World, [JobId; 3]) {
    let mut world = World::joined("gang", 8);
    let jobs = [0, 1, 2].map(|_| world.submit(spec(8, false, false)));
    (0..3).for_each(|_| world.edge());
    (world, jobs)
}

/// Passes slices until a strobe orders further slices.
fn next_order(world: &mut World) -> Slices {
    for _ in 0..8 {
        if let Some(slices) = strobes(world, World::edge).pop()
            && !slices.following.is_empty()
        {
            return slices;
        }
    }
    panic!("every slice has its strobe");
}

#[test]
fn one_strobe_orders_the_slices_of_its_span_and_the_next_comes_when_they_are_over() {
    let (mut world, _) = three_rows();
    let first = next_order(&mut world);
    for index in 1..=first.following.len() {
        assert_eq!(strobes(&mut world, World::edge), [], "slice {index} is ordered");
        let row = first.strobe_of(index).map(|strobe| strobe.row);
        assert_eq!(row, Some(world.core.active_row(PARTITION)));
    }
    let [next] = &strobes(&mut world, World::edge)[..] else { panic!("no strobe") };
    assert_eq!(next.strobe.number, first.last_number() + 1);
    assert_eq!(next.strobe.row, world.core.active_row(PARTITION));
    assert_eq!(next.following.len(), first.following.len());
}

#[test]
fn an_end_recalls_what_was_ordered_with_a_number_that_nobody_has_reached() {
    let (mut world, jobs) = three_rows();
    let ordered = next_order(&mut world);
    let active = world.core.active_row(PARTITION);
    let other =
        jobs.iter().find(|job| !world.core.live.get(**job).unwrap().rows().contains(active));
    let other = *other.expect("two rows do not run");
    let told = strobes(&mut world, |world| world.end_job(other, 0));
    let recall = told.first().expect("the order of the rows is another");
    assert_eq!((recall.strobe.row, &recall.following[..]), (active, &[] as &[Row]));
    assert!(recall.strobe.number > ordered.last_number());
}

#[test]
fn another_quantum_recalls_what_was_ordered_and_the_manager_is_awake() {
    let (mut world, _) = three_rows();
    let ordered = next_order(&mut world);
    assert_eq!(world.core.slices_ahead(PARTITION), ordered.following.len());
    let told = strobes(&mut world, |world| {
        let quantum = Some(std::time::Duration::from_secs(3));
        let set = world.act(|core, now| core.set_partition(now, ADMIN, "all", None, quantum));
        set.expect("in range");
    });
    assert_eq!(told.len(), 1, "nodes stay in the slice under way");
    assert!(told[0].following.is_empty() && told[0].strobe.number > ordered.last_number());
    assert_eq!(world.core.slices_ahead(PARTITION), 0);
}

#[test]
fn an_edge_off_the_grid_is_told() {
    let (mut world, _) = three_rows();
    next_order(&mut world);
    let late = strobes(&mut world, |world| {
        world.act(|core, now| core.late_slice_edge(now, PARTITION));
    });
    assert_eq!(late.len(), 1);
    assert_eq!(late[0].strobe.row, world.core.active_row(PARTITION));
}

#[test]
fn without_a_span_every_slice_has_its_strobe() {
    let (mut world, _) = three_rows();
    world.core.config.edit().strobe_span = std::time::Duration::ZERO;
    next_order_is_over(&mut world);
    for _ in 0..9 {
        let [strobe] = &strobes(&mut world, World::edge)[..] else { panic!("one strobe") };
        assert!(strobe.following.is_empty());
    }
}

/// Passes the slices that were ordered before.
fn next_order_is_over(world: &mut World) {
    while strobes(world, World::edge).is_empty() {}
}
