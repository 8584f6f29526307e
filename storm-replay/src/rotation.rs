//! A turn of the rotation: the slices after which it repeats itself, as long
//! as nothing happens but their ends.
//!
//! A policy tells its place in the rotation ([`storm_sched::Policy::rotation`]).
//! When the place at an edge is one that was seen before, and nothing but
//! edges happened in between, all that follows is known.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use storm_sched::Slot;

use crate::JobIndex;

/// The longest turn that is watched for: rows times the turns of guests. A
/// rotation that takes longer is asked about every edge.
const MAX_SLICES: usize = 4_096;

/// One slice of a turn.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    /// The row that was active.
    pub(crate) slot: Option<Slot>,
    /// The jobs that ran.
    pub(crate) jobs: Vec<JobIndex>,
    /// Their processors.
    pub(crate) busy_pes: u32,
    /// At its end others went on.
    pub(crate) switched_after: bool,
}

/// The slices since something happened other than the end of a slice.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// At each place that was seen, how many slices there were before.
    places: HashMap<Vec<u64>, usize>,
    slices: Vec<Slice>,
}

impl Rotation {
    /// Something happened that changes what follows.
    pub(crate) fn forget(&mut self) {
        self.places.clear();
        self.slices.clear();
    }

    /// At an edge: whether a turn is over, of which the slices are then.
    /// `switched` when others go on.
    pub(crate) fn is_turn(&mut self, place: Option<Vec<u64>>, switched: bool) -> bool {
        if let Some(last) = self.slices.last_mut() {
            last.switched_after = switched;
        }
        let Some(place) = place else {
            self.forget();
            return false;
        };
        if self.slices.len() >= MAX_SLICES {
            self.forget();
        }
        if let Some(&begin) = self.places.get(&place) {
            // What came before the place was first seen does not come again.
            self.slices.drain(..begin);
            self.places.clear();
            self.places.insert(place, 0);
            return true;
        }
        self.places.insert(place, self.slices.len());
        false
    }

    /// The turn is over and another begins.
    pub(crate) fn again(&mut self) {
        self.slices.clear();
    }

    /// A slice begins.
    pub(crate) fn push(&mut self, slice: Slice) {
        self.slices.push(slice);
    }

    /// The slices of the turn.
    pub(crate) fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// How long each row is active in so many turns of slices of that length.
    pub(crate) fn ran(&self, quantum: Duration, turns: u64) -> Vec<(Slot, Duration)> {
        let mut ran = BTreeMap::new();
        for slot in self.slices.iter().filter_map(|slice| slice.slot) {
            *ran.entry(slot).or_insert(0_u128) += quantum.as_nanos() * u128::from(turns);
        }
        ran.into_iter().map(|(slot, ns)| (slot, from_nanos(ns))).collect()
    }

    /// In how many of the slices each job ran.
    pub(crate) fn shares(&self) -> BTreeMap<JobIndex, u64> {
        let mut shares = BTreeMap::new();
        for job in self.slices.iter().flat_map(|slice| &slice.jobs) {
            *shares.entry(*job).or_default() += 1;
        }
        shares
    }
}

/// The longest time there is when the nanoseconds are more.
pub(crate) fn from_nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(job: u32) -> Slice {
        Slice {
            slot: Some(Slot(job)),
            jobs: vec![JobIndex(job)],
            busy_pes: 1,
            switched_after: false,
        }
    }

    #[test]
    fn a_place_that_comes_again_ends_a_turn() {
        let mut rotation = Rotation::default();
        let mut turns = Vec::new();
        for place in [0, 1, 2, 0, 1, 2, 0] {
            let turn = rotation.is_turn(Some(vec![place]), true);
            if turn {
                assert_eq!(rotation.slices().len(), 3);
                assert!(rotation.slices().iter().all(|slice| slice.switched_after));
                rotation.again();
            }
            turns.push(turn);
            rotation.push(slice(place as u32));
        }
        assert_eq!(turns, [false, false, false, true, false, false, true]);
    }

    #[test]
    fn what_does_not_come_again_is_not_of_the_turn() {
        let mut rotation = Rotation::default();
        for place in [7, 8, 0, 1] {
            assert!(!rotation.is_turn(Some(vec![place]), true));
            rotation.push(slice(place as u32));
        }
        assert!(rotation.is_turn(Some(vec![0]), true));
        assert_eq!(rotation.shares().len(), 2);
    }

    #[test]
    fn what_is_not_known_or_takes_too_long_is_no_turn() {
        let mut rotation = Rotation::default();
        for place in 0..3 * MAX_SLICES as u64 {
            assert!(!rotation.is_turn(Some(vec![place]), false));
            rotation.push(slice(0));
            assert!(rotation.slices().len() <= MAX_SLICES);
        }
        assert!(!rotation.is_turn(None, false));
        assert!(!rotation.is_turn(None, false));
    }

    #[test]
    fn shares_count_the_slices_of_a_job() {
        let mut rotation = Rotation::default();
        for job in [4, 5, 4] {
            rotation.push(slice(job));
        }
        let shares: Vec<_> = rotation.shares().into_iter().collect();
        assert_eq!(shares, [(JobIndex(4), 2), (JobIndex(5), 1)]);
        let ran = rotation.ran(Duration::from_secs(3), 10);
        let seconds = |s| Duration::from_secs(s);
        assert_eq!(ran, [(Slot(4), seconds(60)), (Slot(5), seconds(30))]);
    }
}
