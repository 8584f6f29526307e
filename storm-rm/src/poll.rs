//! Asking again: waiting for a condition that only COMPARE-AND-WRITE can see.

use std::time::Duration;
use storm_primitives::{CompareAndWrite, NodeSet, PrimitiveError, Primitives, Runtime};

/// First pause: about the time of one question on a local network.
const FIRST_PAUSE: Duration = Duration::from_micros(20);

/// Longest pause while questions are answered quickly: a condition is noticed at
/// most this late.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Longest pause of all.
const LONGEST_OF_ALL: Duration = Duration::from_millis(10);

/// At least so many times longer than a question is the longest pause: nodes that
/// answer late are busy with what the question is about.
const PAUSE_PER_QUESTION: u32 = 2;

/// Of so many questions while waiting, one goes to the whole set: a death in it is
/// noticed although the node that is asked otherwise lives.
const ALL_EVERY: u32 = 16;

/// Pauses that double, from 20 us (paper, Algorithm 1: SLEEP with exponential
/// backoff).
#[derive(Debug)]
pub struct Backoff {
    pause: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { pause: FIRST_PAUSE }
    }
}

impl Backoff {
    /// How long to pause after a question that took so long.
    pub fn after(&mut self, question: Duration) -> Duration {
        let pause = self.pause;
        let longest = (question * PAUSE_PER_QUESTION).clamp(LONGEST_PAUSE, LONGEST_OF_ALL);
        self.pause = (pause * 2).min(longest);
        pause
    }
}

/// Asks once, for the `round`th time since 1.
pub(crate) async fn ask<P: Primitives>(
    primitives: &P,
    question: &CompareAndWrite,
    round: u32,
) -> Result<bool, PrimitiveError> {
    let Some(last) = question.set.last() else { return Ok(true) };
    if !round.is_multiple_of(ALL_EVERY) {
        let of_last = CompareAndWrite { set: NodeSet::single(last), ..question.clone() };
        if !primitives.compare_and_write(of_last).await? {
            return Ok(false);
        }
    }
    primitives.compare_and_write(question.clone()).await
}

/// Asks until the answer is TRUE. Cancel it by dropping it.
///
/// While the answer is FALSE only one node of the set is asked, the one that
/// most likely is last, so that waiting for many nodes costs no more than
/// waiting for one; now and then all are, to learn of deaths.
pub(crate) async fn await_condition<P: Primitives>(
    primitives: &P,
    question: &CompareAndWrite,
) -> Result<(), PrimitiveError> {
    let mut backoff = Backoff::default();
    let mut round = 0;
    loop {
        let since = primitives.runtime().now();
        round += 1;
        if ask(primitives, question, round).await? {
            return Ok(());
        }
        let took = primitives.runtime().now() - since;
        primitives.runtime().sleep(backoff.after(took)).await;
    }
}
