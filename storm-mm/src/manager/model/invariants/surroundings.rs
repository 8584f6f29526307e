//! No job is placed on a dead node, and no run is over while one of its processes exists. The world
//! records both.

use crate::manager::model::world::World;

pub(super) fn check(world: &World) -> Result<(), String> {
    world.faults.first().map_or(Ok(()), |fault| Err(fault.clone()))
}
