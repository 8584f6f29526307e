//! Decides which processes have the turn to be boosted (periodic boost; Nagar, Banerjee,
//! Sivasubramaniam, Das, SPAA 1999; A6 of the policy reference). Pure: the same in a live node
//! manager and in a simulated one ([decision 0102](../../docs/decisions/0102-periodic-boost.md)).
//!
//! A process that makes progress keeps its processor for a turn: its peers run too, and would all
//! stop without it. Nodes boost the same job without a strobe, for three reasons:
//! - Each node gives turns in the same order.
//! - A job that waits in vain late in its turn gives way, as its turn is over on another node.
//! - A job that waits in vain early in its turn keeps it for a while, until the other nodes follow.
//!   The first job in the order waits longest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The peers of a process that waits longer than this for a message do not run.
const IN_VAIN: Duration = Duration::from_millis(1);
/// Periods of a turn.
const TURN: u32 = 10;
/// If a process waits in vain after this many periods, its turn is over on another node.
const MOST_OF_A_TURN: u32 = 5;
/// Most further periods for which a process that waits in vain before then keeps its turn.
const PATIENCE: u32 = 3;

/// After this many periods in which no process waits, no turns begin until a process does.
const CALM: u32 = 10 * TURN;

/// The state of a process at the end of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Computes, or would with a processor.
    Computes,
    /// Waits for a message that has arrived.
    HasNews,
    /// Has waited this long for a message that has not arrived.
    Waits(Duration),
}

impl Doing {
    /// Whether it could use a processor at once.
    fn has_use(self) -> bool {
        matches!(self, Doing::Computes | Doing::HasNews)
    }

    /// Whether it makes progress with a processor, now or soon.
    fn gets_on(self) -> bool {
        !matches!(self, Doing::Waits(waited) if waited >= IN_VAIN)
    }
}

/// A turn in progress.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// The first period, plus the later ones at whose beginning it made progress.
    periods: u32,
    /// Number of periods at whose beginning it waited in vain.
    in_vain: u32,
}

/// The processes that have a turn, and the process whose turn ended last.
#[derive(Clone, Debug)]
pub(crate) struct BoostTurns<P> {
    turns: BTreeMap<P, Turn>,
    last: Option<P>,
    /// Processes that did nothing with their turn. Such a process gets no more turns until it can
    /// use one.
    idle: BTreeSet<P>,
    /// Number of recent periods in which no process waited in vain, or for a message that had
    /// arrived.
    calm: u32,
}

impl<P> Default for BoostTurns<P> {
    fn default() -> BoostTurns<P> {
        BoostTurns { turns: BTreeMap::new(), last: None, idle: BTreeSet::new(), calm: CALM }
    }
}

impl<P: Copy + Ord> BoostTurns<P> {
    /// The processes to boost in the period that begins, at most `at_once`. `doing` is the state of
    /// all processes at the end of the period before.
    pub(crate) fn next(&mut self, doing: &BTreeMap<P, Doing>, at_once: usize) -> Vec<P> {
        let has_use = |process: &P| doing.get(process).is_some_and(|doing| doing.has_use());
        self.idle.retain(|process| doing.contains_key(process) && !has_use(process));
        let before = std::mem::take(&mut self.turns);
        let over = self.go_on(&before, doing, at_once);
        self.last = over.last().copied().or(self.last);
        // Processes that only compute don't count: the operating system shares the processor.
        let concerned = |doing: &Doing| *doing == Doing::HasNews || !doing.gets_on();
        self.calm = if doing.values().any(concerned) { 0 } else { self.calm.saturating_add(1) };
        if self.calm < CALM {
            let others = doing.keys().filter(|process| !before.contains_key(process));
            self.begin(others.copied(), at_once);
            self.begin(over.into_iter(), at_once);
        }
        self.turns.keys().copied().collect()
    }

    /// Continues the turns that are not over. Returns the processes whose turns are over.
    fn go_on(
        &mut self,
        before: &BTreeMap<P, Turn>,
        doing: &BTreeMap<P, Doing>,
        at_once: usize,
    ) -> Vec<P> {
        let mut over = Vec::new();
        for (process, turn) in before {
            let first = doing.keys().take(at_once).any(|first| first == process);
            // Other nodes may take this many rounds until the first process has its turn there too.
            let rounds = if first { doing.len().div_ceil(at_once.max(1)) } else { 1 };
            let patience = (PATIENCE + 1).saturating_mul(rounds as u32) - 1;
            let Turn { periods, in_vain } = *turn;
            match doing.get(process).map(|doing| doing.gets_on()) {
                None => {}
                Some(true) if periods < TURN => {
                    self.turns.insert(*process, Turn { periods: periods + 1, in_vain });
                }
                Some(false) if periods < MOST_OF_A_TURN && in_vain < patience => {
                    self.turns.insert(*process, Turn { periods, in_vain: in_vain + 1 });
                }
                Some(gets_on) => {
                    if !gets_on && periods < MOST_OF_A_TURN {
                        self.idle.insert(*process);
                    }
                    over.push(*process);
                }
            }
        }
        over
    }

    /// Begins turns of more of these, up to `at_once` turns.
    fn begin(&mut self, these: impl Iterator<Item = P>, at_once: usize) {
        let waits = |process: &P| !self.turns.contains_key(process) && !self.idle.contains(process);
        let mut these: Vec<P> = these.filter(waits).collect();
        these.sort_by_key(|process| (self.last.is_some_and(|last| *process <= last), *process));
        for process in these.into_iter().take(at_once.saturating_sub(self.turns.len())) {
            self.turns.insert(process, Turn { periods: 1, in_vain: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Doing::{Computes, HasNews};

    const VAIN: Doing = Doing::Waits(IN_VAIN);
    const WAITS: Doing = Doing::Waits(Duration::from_micros(5));

    /// The turns in periods in which processes 0, 1, ... have these states.
    fn turns(at_once: usize, periods: &[&[Doing]]) -> Vec<Vec<usize>> {
        let mut turns = BoostTurns::default();
        let next =
            |doing: &&[Doing]| turns.next(&doing.iter().copied().enumerate().collect(), at_once);
        periods.iter().map(next).collect()
    }

    #[test]
    fn a_process_that_progresses_has_its_turn_and_the_next() {
        let done = turns(1, &[&[Computes, HasNews][..]; 32]);
        assert_eq!(done[..10], [[0]; 10]);
        assert_eq!(done[10..20], [[1]; 10]);
        assert_eq!(done[20..30], [[0]; 10]);
        let done = turns(1, &[&[Computes, WAITS], &[HasNews, WAITS], &[WAITS, WAITS]]);
        assert_eq!(done, [vec![], vec![0], vec![0]]);
    }

    #[test]
    fn a_computing_process_is_boosted_with_one_that_polls_in_vain() {
        let done = turns(2, &[&[Computes, WAITS, WAITS], &[Computes, Computes, Computes]]);
        assert_eq!(done, [vec![], vec![]]);
        assert_eq!(turns(1, &[&[Computes, VAIN], &[Computes, Computes]]), [[0], [0]]);
    }

    #[test]
    fn a_process_that_waits_late_in_its_turn_has_had_it() {
        let mut periods: Vec<&[Doing]> = vec![&[HasNews, VAIN]];
        periods.extend([&[Computes, HasNews][..]; 4]);
        periods.extend([&[VAIN, HasNews][..], &[HasNews, VAIN], &[HasNews, VAIN]]);
        assert_eq!(turns(1, &periods)[4..], [[0], [1], [1], [1]]);
    }

    #[test]
    fn a_process_that_waits_early_in_its_turn_yields_to_the_others() {
        let done = turns(1, &[&[VAIN, VAIN, HasNews][..]; 26]);
        // Twelve for the first and four for the second, then for neither until a message arrives.
        assert_eq!(done[..12], [[0]; 12]);
        assert_eq!(done[12..16], [[1]; 4]);
        assert_eq!(done[16..], [[2]; 10]);
        let mut periods: Vec<&[Doing]> = vec![&[VAIN, VAIN]; 12];
        periods.push(&[VAIN, VAIN]);
        periods.push(&[VAIN, HasNews]);
        assert_eq!(turns(1, &periods)[11..], [vec![1], vec![], vec![1]]);
    }

    #[test]
    fn as_many_as_there_are_processors_take_turns() {
        let done = turns(2, &[&[HasNews; 5][..]; 31]);
        assert_eq!([&done[0], &done[9]], [&[0, 1], &[0, 1]]);
        assert_eq!([&done[10], &done[19]], [&[2, 3], &[2, 3]]);
        assert_eq!([&done[20], &done[29]], [&[0, 4], &[0, 4]]);
        assert_eq!(done[30], [1, 2]);
    }

    #[test]
    fn where_all_compute_nobody_is_boosted_for_long() {
        let mut turns = BoostTurns::default();
        let mut next = |doing| turns.next(&BTreeMap::from([(0, doing), (1, Computes)]), 1);
        assert_eq!(next(HasNews), [0]);
        let boosted = (0..4 * CALM).filter(|_| !next(Computes).is_empty());
        assert_eq!(boosted.count() as u32, CALM - 1);
        assert_eq!(next(HasNews), [0]);
    }

    #[test]
    fn a_turn_is_no_longer_for_waiting_now_and_then() {
        let mut turns = BoostTurns::default();
        let mut periods = 0;
        // The process makes progress in every fourth period.
        while turns.next(
            &BTreeMap::from([(0, [VAIN, VAIN, VAIN, Computes][periods % 4]), (1, HasNews)]),
            1,
        ) == [0]
        {
            periods += 1;
        }
        assert!(periods < 20, "{periods}");
    }

    #[test]
    fn the_first_of_many_processors_wait_no_longer_than_those_of_few() {
        let mut doing: BTreeMap<usize, Doing> = (0..64).map(|process| (process, HasNews)).collect();
        let mut turns = BoostTurns::default();
        doing.iter_mut().take(32).for_each(|(_, doing)| *doing = VAIN);
        let mut first = || turns.next(&doing, 32).contains(&0);
        assert_eq!((0..20).filter(|_| first()).count(), 8);
    }

    #[test]
    fn a_process_that_has_ended_makes_way() {
        let mut turns = BoostTurns::default();
        assert_eq!(turns.next(&BTreeMap::from([(1, HasNews), (2, HasNews)]), 1), [1]);
        assert_eq!(turns.next(&BTreeMap::from([(2, Computes)]), 1), [2]);
        assert_eq!(turns.next(&BTreeMap::new(), 1), []);
    }
}
