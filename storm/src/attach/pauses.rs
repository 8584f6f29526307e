//! Pauses between attempts to reach a manager. They grow, and differ from client to client:
//! hundreds of clients may lose their manager at the same instant.

use std::time::Duration;

/// The first pause, about.
const FIRST: Duration = Duration::from_millis(50);
/// The longest pause, about. A manager that returns keeps the output of a job for its client for
/// 2 s.
const LONGEST: Duration = Duration::from_millis(500);

/// The pauses of one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses { next: FIRST }
    }
}

impl Pauses {
    /// The next pause: from three to five quarters of the usual one.
    pub(crate) fn next(&mut self) -> Duration {
        let usual = self.next;
        self.next = (usual * 3 / 2).min(LONGEST);
        // Without random numbers all clients pause equally, which works as well.
        let part = getrandom::u32().unwrap_or(u32::MAX / 2) >> 16;
        usual * 3 / 4 + usual / 2 * part / (1 << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest() {
        let mut pauses = Pauses::default();
        let all: Vec<Duration> = (0..20).map(|_| pauses.next()).collect();
        assert!(all[0] >= FIRST * 3 / 4 && all[0] <= FIRST * 5 / 4, "{all:?}");
        assert!(all[19] >= LONGEST * 3 / 4 && all[19] <= LONGEST * 5 / 4, "{all:?}");
    }
}
