//! No job is placed on a dead node, and no run is over while a process of it
//! lives: the world takes note of both.

use crate::manager::model::world::World;

pub(super) fn check(world: &World) -> Result<(), String> {
    world.faults.first().map_or(Ok(()), |fault| Err(fault.clone()))
}
