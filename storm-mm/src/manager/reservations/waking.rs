//! Waking policies at times of their own: when reservations begin and end.

use crate::manager::partitions::sched_time;
use crate::manager::{ClusterTimer, Core, Durable, Immediate, Timer};
use std::time::Duration;
use storm_primitives::Instant;
use storm_sched::{Event, SchedTime};

/// The longest time for which a timer is set; a longer wait sets it again.
const LONGEST_TIMER: Duration = Duration::from_secs(86_400);

impl Core {
    /// Sets the timer for the earliest time at which a policy is to be woken.
    pub(in crate::manager) fn arm_wake(&mut self, now: Instant) {
        let wakes = self.partitions.iter().filter_map(|partition| partition.policy().wake_at());
        let Some(next) = wakes.min() else {
            // If a timer is set already, its firing finds nothing to do.
            return;
        };
        let left = next.since(sched_time(now)).min(LONGEST_TIMER);
        let at = now + left;
        if !self.reservations.arm(now, at) {
            return;
        }
        self.effects.durable.push(Durable::Timer { at, timer: Timer::Cluster(ClusterTimer::Wake) });
    }

    /// Wakes the policies whose time is reached.
    pub(in crate::manager) fn wake(&mut self, now: Instant) {
        self.reservations.disarm();
        let time: SchedTime = sched_time(now);
        for id in self.partitions.ids() {
            if self.partitions[id].policy().wake_at().is_some_and(|at| at <= time) {
                self.handle_event(now, id, Event::Wake);
                self.effects.immediate.push(Immediate::SlicesChanged(id));
            }
        }
        self.arm_wake(now);
    }
}
