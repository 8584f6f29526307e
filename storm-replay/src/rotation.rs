//! The rotation of the rows, which repeats itself as long as only slices end.
//!
//! A policy gives the place of the running row in its own rotation
//! ([`storm_sched::Policy::rotation`]). If a row comes to a place for the second time, with only
//! slice ends in between, its future turns are known. Each row has its own cycle. When all cycles
//! are known, any number of rounds can be skipped at once. In a round every row runs once. The rows
//! need not all be back at the same places, which would take the least common multiple of their
//! cycles.

use std::collections::HashMap;
use std::time::Duration;

use storm_sched::{Row, RowTurns};

use crate::held::Held;

/// The most turns that are remembered, of all rows. A rotation that takes longer is
/// asked about every edge.
const MAX_TURNS: usize = 4_096;

/// The turn of a row at one of its places.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    /// The jobs that run.
    pub(crate) jobs: Vec<Held>,
    /// Their processors.
    pub(crate) busy_pes: u32,
}

/// The turns of a row.
#[derive(Debug)]
struct RowCycle {
    number: Row,
    /// The turn at each place that was seen.
    places: HashMap<Vec<u64>, usize>,
    turns: Vec<Turn>,
    /// The turn that the row has, or had last.
    at: usize,
    /// The turn after the last recorded one, once it is known.
    begin: Option<usize>,
}

/// The turns since something happened other than the end of a slice.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// The rows in the order in which they run.
    rows: Vec<RowCycle>,
    /// The row that runs.
    running: usize,
    /// Whether all rows were seen.
    whole: bool,
    turns: usize,
    /// No round fits in before the next event.
    spent: bool,
}

impl Rotation {
    /// Forgets the cycles, because an event changes them.
    pub(crate) fn forget(&mut self) {
        self.rows.clear();
        (self.running, self.whole, self.turns, self.spent) = (0, false, 0, false);
    }

    /// Records that a row runs from the end of a slice on. `switched` says whether other jobs run
    /// now. If the policy gives no place, the rotation is unknown.
    pub(crate) fn turn(
        &mut self,
        number: Option<Row>,
        place: Option<Vec<u64>>,
        switched: bool,
        turn: impl FnOnce() -> Turn,
    ) {
        let (Some(number), Some(place)) = (number, place) else { return self.forget() };
        if self.turns >= MAX_TURNS {
            self.forget();
        }
        if !self.comes_to(number) || (self.whole && switched != (self.rows.len() > 1)) {
            // The order differs from before: start over here.
            self.forget();
            self.comes_to(number);
        }
        let Some(row) = self.rows.get_mut(self.running) else { return };
        if let Some(&at) = row.places.get(&place) {
            if row.begin.is_none() {
                row.begin = Some(at);
            }
            row.at = at;
            return;
        }
        if row.begin.is_some() {
            // The row is at a new place although its cycle was closed: the policy's place was
            // wrong.
            return self.forget();
        }
        row.at = row.turns.len();
        row.places.insert(place, row.at);
        row.turns.push(turn());
        self.turns += 1;
    }

    /// Whether all cycles are known, and at least one round may fit before the next event.
    pub(crate) fn is_known(&self) -> bool {
        self.whole && !self.spent && self.rows.iter().all(|row| row.begin.is_some())
    }

    /// No round more can pass at once before something happens.
    pub(crate) fn spend(&mut self) {
        self.spent = true;
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    /// After how many rounds all rows are at the same places again; `None` if the number overflows.
    pub(crate) fn period(&self) -> Option<u64> {
        self.rows.iter().map(|row| row.cycle().len() as u64).try_fold(1, lcm)
    }

    /// The turns of the next `rounds` rounds, each with its number of repetitions. The running row
    /// begins with its current turn.
    pub(crate) fn coming(&self, rounds: u64) -> impl Iterator<Item = (&Turn, u64)> {
        let rows = self.rows.iter().enumerate();
        rows.flat_map(move |(index, row)| row.coming(index == self.running, rounds))
    }

    /// All turns to come, each once per row.
    pub(crate) fn all(&self) -> impl Iterator<Item = impl Iterator<Item = &Turn>> {
        self.rows.iter().map(|row| row.cycle().iter())
    }

    /// Advances by `rounds` rounds. Returns the turns of each row in slices of `quantum`.
    pub(crate) fn pass(&mut self, rounds: u64, quantum: Duration) -> Vec<RowTurns> {
        let ran = from_nanos(quantum.as_nanos() * u128::from(rounds));
        let pass = |row: &mut RowCycle| {
            let (begin, length) = (row.begin.unwrap_or(0), row.cycle().len().max(1));
            let places_on = rounds % length as u64;
            row.at = begin + (row.at - begin + places_on as usize) % length;
            RowTurns { row: row.number, ran, places_on }
        };
        self.rows.iter_mut().map(pass).collect()
    }

    /// The turn that the row has which runs.
    pub(crate) fn now(&self) -> Option<&Turn> {
        self.rows.get(self.running).and_then(|row| row.turns.get(row.at))
    }

    /// Records that a row runs. Returns false if it was not the row's turn.
    fn comes_to(&mut self, number: Row) -> bool {
        let next = if self.rows.is_empty() { 0 } else { self.running + 1 };
        if !self.whole && self.rows.iter().all(|row| row.number != number) {
            let (places, turns) = (HashMap::new(), Vec::new());
            self.rows.push(RowCycle { number, places, turns, at: 0, begin: None });
            self.running = next;
            return true;
        }
        let next = next % self.rows.len().max(1);
        self.whole |= next == 0;
        self.running = next;
        self.rows.get(next).is_some_and(|row| row.number == number)
    }
}

impl RowCycle {
    /// The turns that come again.
    fn cycle(&self) -> &[Turn] {
        &self.turns[self.begin.unwrap_or(self.turns.len())..]
    }

    fn coming(&self, runs: bool, rounds: u64) -> impl Iterator<Item = (&Turn, u64)> {
        let cycle = self.cycle();
        let length = cycle.len() as u64;
        let begin = self.at - self.begin.unwrap_or(self.at) + usize::from(!runs);
        (0..length.min(rounds)).map(move |turn| {
            let times = rounds / length + u64::from(turn < rounds % length);
            (&cycle[(begin + turn as usize) % cycle.len()], times)
        })
    }
}

fn lcm(one: u64, other: u64) -> Option<u64> {
    let (mut greatest, mut rest) = (one, other);
    while rest > 0 {
        (greatest, rest) = (rest, greatest % rest);
    }
    (one / greatest.max(1)).checked_mul(other)
}

/// Converts nanoseconds. A value out of range becomes the longest duration.
pub(crate) fn from_nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(job: u32) -> Turn {
        Turn { jobs: vec![Held(job)], busy_pes: job }
    }

    /// Turns of rows at places. The number of busy processors identifies a turn.
    fn after(turns: &[(u32, u64)]) -> Rotation {
        let mut rotation = Rotation::default();
        for &(row, place) in turns {
            let busy = row * 100 + place as u32;
            rotation.turn(Some(Row(row)), Some(vec![place]), true, || turn(busy));
        }
        rotation
    }

    fn coming(rotation: &Rotation, rounds: u64) -> Vec<(u32, u64)> {
        let mut coming: Vec<_> =
            rotation.coming(rounds).map(|(turn, times)| (turn.busy_pes, times)).collect();
        coming.sort_unstable();
        coming
    }

    #[test]
    fn each_row_has_a_cycle_of_its_own() {
        // Row 1 goes 9, 0, 1, 0, 1; row 2 stays at 5; both are known in the fourth round.
        let mut turns = vec![(1, 9), (2, 5), (1, 0), (2, 5), (1, 1), (2, 5)];
        assert!(!after(&turns).is_known());
        turns.push((1, 0));
        let mut rotation = after(&turns);
        assert!(rotation.is_known() && rotation.period() == Some(2) && rotation.rows() == 2);
        assert_eq!(coming(&rotation, 1), [(100, 1), (205, 1)]);
        assert_eq!(coming(&rotation, 5), [(100, 3), (101, 2), (205, 5)]);
        let passed = rotation.pass(5, Duration::from_secs(3));
        let ran = Duration::from_secs(15);
        let row = |number, places_on| RowTurns { row: Row(number), ran, places_on };
        assert_eq!(passed, [row(1, 1), row(2, 0)]);
        assert_eq!(rotation.now().map(|turn| turn.busy_pes), Some(101));
        assert_eq!(coming(&rotation, 1), [(101, 1), (205, 1)]);
        rotation.spend();
        assert!(!rotation.is_known());
    }

    #[test]
    fn an_unknown_place_is_not_a_cycle() {
        let rotation = |place, switched| {
            let mut rotation = after(&[(1, 0), (2, 0), (1, 0)]);
            rotation.turn(Some(Row(2)), place, switched, || turn(7));
            rotation
        };
        assert!(rotation(Some(vec![0]), true).is_known());
        assert!(!rotation(None, true).is_known(), "no place");
        assert!(!rotation(Some(vec![0]), false).is_known(), "nobody else went on");
        let out_of_turn = after(&[(1, 0), (2, 0), (3, 0), (2, 0), (3, 0), (2, 0), (3, 0)]);
        assert!(out_of_turn.is_known(), "once the order has begun anew");
        assert_eq!(out_of_turn.rows(), 2);
        assert!(!after(&[(1, 0), (2, 0), (1, 0), (2, 0), (1, 4)]).is_known(), "another place");
    }

    #[test]
    fn a_long_rotation_is_not_remembered() {
        let mut rotation = Rotation::default();
        for place in 0..3 * MAX_TURNS as u64 {
            rotation.turn(Some(Row(0)), Some(vec![place]), false, || turn(0));
            assert!(!rotation.is_known() && rotation.turns <= MAX_TURNS);
        }
    }

    #[test]
    fn common_multiples_do_not_overflow() {
        assert_eq!(lcm(4, 6), Some(12));
        assert_eq!(lcm(u64::MAX, u64::MAX - 1), None);
    }
}
