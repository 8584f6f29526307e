//! Asking again: waiting for a condition that only COMPARE-AND-WRITE can see.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{CompareAndWrite, NodeSet, PrimitiveError, Primitives, Runtime};

/// First pause: about the time of one question on a local network.
const FIRST_PAUSE: Duration = Duration::from_micros(20);

/// Longest pause while questions are answered quickly: a condition is noticed at
/// most this late.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Longest pause of all.
const LONGEST_OF_ALL: Duration = Duration::from_millis(10);

/// The longest pause is at least this multiple of the time of a question. Nodes that answer late
/// are busy with the work that the question is about.
const PAUSE_PER_QUESTION: u32 = 2;

/// One question in this many is sent to the whole set. A question to all notices a death anywhere
/// in the set, even while the single node that is polled otherwise is alive.
const ALL_EVERY: u32 = 16;

/// Pauses that double, from 20 us (paper, Algorithm 1: SLEEP with exponential
/// backoff).
#[derive(Debug)]
pub struct Backoff {
    pause: Duration,
    /// All questions and pauses so far.
    waited: Duration,
    /// A pause may take this part of the wait so far. After a wait of 0.1 s some milliseconds do
    /// not matter, and the nodes work instead of answering.
    part_of_wait: Option<u32>,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::patient(None)
    }
}

impl Backoff {
    /// A backoff whose pauses may grow to this part of the wait
    /// ([`PlanConfig::part_of_wait`](crate::PlanConfig)).
    pub fn patient(part_of_wait: Option<u32>) -> Backoff {
        Backoff { pause: FIRST_PAUSE, waited: Duration::ZERO, part_of_wait }
    }

    /// The pause after a question that took the time `question`.
    pub fn after(&mut self, question: Duration) -> Duration {
        let pause = self.pause;
        self.waited += question + pause;
        let of_wait = self.part_of_wait.and_then(|part| self.waited.checked_div(part));
        let longest = (question * PAUSE_PER_QUESTION).max(of_wait.unwrap_or_default());
        self.pause = (pause * 2).min(longest.clamp(LONGEST_PAUSE, LONGEST_OF_ALL));
        pause
    }
}

/// A set of at most this many nodes is polled together.
const FEW: usize = 2;

/// At most this many nodes are polled one by one in a row, to find a late one.
const SEARCHED: usize = 4;

/// Chooses the node to poll alone while a condition does not hold everywhere. Clones share the
/// choice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    /// The steps taken through the set. The present node was late when it was last polled.
    steps: Rc<Cell<usize>>,
}

impl Probe {
    /// Polls once, for the `round`th time since 1.
    ///
    /// While the answer is FALSE, only one node is polled. The first is the node that is most
    /// likely the last, then others follow that are found to be late. Therefore waiting for many
    /// nodes costs little more than waiting for one node. At intervals all nodes are polled, to
    /// detect deaths.
    pub(crate) async fn ask<P: Primitives>(
        &self,
        primitives: &P,
        question: &CompareAndWrite,
        round: u32,
    ) -> Result<bool, PrimitiveError> {
        let nodes = question.set.len();
        if nodes <= FEW {
            return match nodes {
                0 => Ok(true),
                _ => primitives.compare_and_write(question.clone()).await,
            };
        }
        if !round.is_multiple_of(ALL_EVERY) && !self.ask_one(primitives, question).await? {
            return Ok(false);
        }
        if primitives.compare_and_write(question.clone()).await? {
            return Ok(true);
        }
        for _ in 0..SEARCHED.min(nodes - 1) {
            self.steps.set(self.steps.get().wrapping_add(1));
            if !self.ask_one(primitives, question).await? {
                break;
            }
        }
        Ok(false)
    }

    /// Polls the node of the present step alone, and writes nothing.
    async fn ask_one<P: Primitives>(
        &self,
        primitives: &P,
        question: &CompareAndWrite,
    ) -> Result<bool, PrimitiveError> {
        let place = place_of(self.steps.get(), question.set.len());
        let Some(node) = question.set.iter().nth(place) else { return Ok(true) };
        let set = NodeSet::single(node);
        primitives.compare_and_write(CompareAndWrite { set, write: None, ..question.clone() }).await
    }
}

/// The index into a set of `count` > 0 nodes at step `step`. The last node is first; then each
/// other node follows once, far from the node before. The stride is the golden section, rounded to
/// a number coprime to `count`.
fn place_of(step: usize, count: usize) -> usize {
    let coprime = |stride: &usize| gcd(*stride, count) == 1;
    let stride = (count * 618 / 1000..count).find(coprime).unwrap_or(1);
    (count - 1 + (step % count) * stride) % count
}

fn gcd(one: usize, other: usize) -> usize {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// Polls until the answer is TRUE, with pauses of `backoff`. Cancel it by dropping it.
pub(crate) async fn await_condition<P: Primitives>(
    primitives: &P,
    question: &CompareAndWrite,
    mut backoff: Backoff,
) -> Result<(), PrimitiveError> {
    let (probe, mut round) = (Probe::default(), 0);
    loop {
        let since = primitives.runtime().now();
        round += 1;
        if probe.ask(primitives, question, round).await? {
            return Ok(());
        }
        let took = primitives.runtime().now() - since;
        primitives.runtime().sleep(backoff.after(took)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_long_waiter_looks_less_often() {
        const PART: u32 = 16;
        let mut backoff = Backoff::patient(Some(PART));
        let question = Duration::from_micros(100);
        let mut waited = Duration::ZERO;
        while waited < Duration::from_millis(300) {
            let pause = backoff.after(question);
            let most = (waited / PART).clamp(LONGEST_PAUSE, LONGEST_OF_ALL);
            assert!(pause <= most, "{pause:?} after {waited:?}");
            waited += question + pause;
        }
        assert_eq!(backoff.after(question), LONGEST_OF_ALL);
        let mut backoff = Backoff::default();
        assert!((0..1000).all(|_| backoff.after(question) <= LONGEST_PAUSE));
    }

    #[test]
    fn each_node_has_its_turn_and_the_last_is_the_first() {
        for count in 1..200 {
            assert_eq!(place_of(0, count), count - 1);
            let places: BTreeSet<usize> =
                (7..7 + count).map(|step| place_of(step, count)).collect();
            assert_eq!(places.len(), count, "of {count}");
        }
    }
}
