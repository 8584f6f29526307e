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

/// Pauses that double, from [`FIRST_PAUSE`] (paper, Algorithm 1: SLEEP with
/// exponential backoff).
#[derive(Debug)]
struct Backoff {
    pause: Duration,
}

impl Backoff {
    fn new() -> Backoff {
        Backoff { pause: FIRST_PAUSE }
    }

    /// A pause after a question that took so long.
    async fn pause(&mut self, runtime: &impl Runtime, question: Duration) {
        let pause = self.pause;
        let longest = (question * PAUSE_PER_QUESTION).clamp(LONGEST_PAUSE, LONGEST_OF_ALL);
        self.pause = (pause * 2).min(longest);
        runtime.sleep(pause).await;
    }
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
    let mut backoff = Backoff::new();
    let last = question.set.last().map_or_else(NodeSet::new, NodeSet::single);
    let of_last = CompareAndWrite { set: last, ..question.clone() };
    let mut asked = 0;
    loop {
        let since = primitives.runtime().now();
        asked = (asked + 1) % ALL_EVERY;
        let likely = asked == 0 || primitives.compare_and_write(of_last.clone()).await?;
        if likely && primitives.compare_and_write(question.clone()).await? {
            return Ok(());
        }
        let took = primitives.runtime().now() - since;
        backoff.pause(primitives.runtime(), took).await;
    }
}
