//! The CPU time of one job on a pad, including processes that no `wait4` reports. The pad's cgroup
//! counts every process, even a process that the kernel reaped for its parent.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::exit::Usage;

/// The known CPU time of the pad's present job.
#[derive(Debug)]
pub(super) struct PadTime {
    /// The count of the cgroup before the job; `None` without a cgroup.
    before: Option<Counted>,
    /// The usage of the ranks that have ended, as reported.
    told: Usage,
}

/// CPU time that a cgroup counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    user: Duration,
    system: Duration,
}

impl PadTime {
    /// Begins to count for a job on the pad with this cgroup.
    pub(super) fn begin(group: Option<&Path>) -> Self {
        Self { before: group.and_then(counted), told: Usage::default() }
    }

    /// Adds the usage of a rank that ended before the last rank.
    pub(super) fn ended(&mut self, usage: Usage) {
        self.told = self.told.plus(usage);
    }

    /// The usage of the last rank to end, including all usage that belongs to no rank. `strays` is
    /// the part of that usage that the keeper has measured.
    pub(super) fn last(&self, usage: Usage, strays: Usage, group: Option<&Path>) -> Usage {
        let seen = usage.plus(strays);
        match (self.before, group.and_then(counted)) {
            (Some(before), Some(now)) => seen.plus(self.unseen(seen, before, now)),
            _ => seen,
        }
    }

    /// The CPU time that the cgroup counted beyond the known usage.
    fn unseen(&self, last: Usage, before: Counted, now: Counted) -> Usage {
        let seen = self.told.plus(last);
        let user = now.user.saturating_sub(before.user);
        let system = now.system.saturating_sub(before.system);
        // Only the sum is exact: the kernel divides it into user and system time by samples.
        let more = user.saturating_add(system).saturating_sub(seen.cpu());
        let user = user.saturating_sub(seen.user).min(more);
        Usage { user, system: more.saturating_sub(user), ..Usage::default() }
    }
}

fn counted(group: &Path) -> Option<Counted> {
    parse(&fs::read_to_string(group.join("cpu.stat")).ok()?)
}

/// Parses `cpu.stat`, which every cgroup of version 2 has without any controller.
fn parse(text: &str) -> Option<Counted> {
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse().ok().map(Duration::from_micros)
    };
    Some(Counted { user: field("user_usec ")?, system: field("system_usec ")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(user_ms: u64, system_ms: u64) -> Usage {
        let (user, system) = (Duration::from_millis(user_ms), Duration::from_millis(system_ms));
        Usage { user, system, ..Usage::default() }
    }

    fn counted_ms(user_ms: u64, system_ms: u64) -> Counted {
        let Usage { user, system, .. } = used(user_ms, system_ms);
        Counted { user, system }
    }

    #[test]
    fn a_control_group_says_user_and_system_time() {
        let text = "usage_usec 30\nuser_usec 20\nsystem_usec 10\ncore_sched.force_idle_usec 0\n";
        let (user, system) = (Duration::from_micros(20), Duration::from_micros(10));
        assert_eq!(parse(text), Some(Counted { user, system }));
        assert_eq!(parse("usage_usec 30\n"), None);
    }

    #[test]
    fn it_is_never_less_than_was_waited_for_and_never_more_than_was_counted() {
        let mut time = PadTime { before: Some(counted_ms(1_000, 1_000)), told: Usage::default() };
        time.ended(used(300, 20));
        let unseen = |now| time.unseen(used(5, 1), counted_ms(1_000, 1_000), now);
        // The cgroup counted less than the ranks used.
        assert_eq!(unseen(counted_ms(1_200, 1_000)), used(0, 0));
        // A child that no process waited for.
        assert_eq!(unseen(counted_ms(2_305, 1_021)), used(1_000, 0));
        // The same sum is divided differently.
        assert_eq!(unseen(counted_ms(1_285, 1_041)), used(0, 0));
        assert_eq!(unseen(counted_ms(1_285, 1_051)), used(0, 10));
    }

    #[test]
    fn without_a_control_group_it_is_what_the_keeper_saw() {
        let time = PadTime::begin(None);
        assert_eq!(time.last(used(4, 0), used(1_000, 30), None), used(1_004, 30));
    }
}
