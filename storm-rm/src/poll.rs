//! Asking again: waiting for a condition that only COMPARE-AND-WRITE can see.

use std::time::Duration;
use storm_primitives::{CompareAndWrite, NodeSet, PrimitiveError, Primitives, Runtime};

/// First pause: about the time of one question on a local network.
const FIRST_PAUSE: Duration = Duration::from_micros(20);

/// Longest pause: a condition is noticed at most this late.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Of so many questions while waiting, one goes to the whole set: a death in it is
/// noticed although the node that is asked otherwise lives.
const ALL_EVERY: u32 = 16;

/// Pauses that double, from [`FIRST_PAUSE`] to [`LONGEST_PAUSE`] (paper,
/// Algorithm 1: SLEEP with exponential backoff).
#[derive(Debug)]
pub(crate) struct Backoff {
    pause: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { pause: FIRST_PAUSE }
    }

    pub(crate) async fn pause(&mut self, runtime: &impl Runtime) {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
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
        asked = (asked + 1) % ALL_EVERY;
        let likely = asked == 0 || primitives.compare_and_write(of_last.clone()).await?;
        if likely && primitives.compare_and_write(question.clone()).await? {
            return Ok(());
        }
        backoff.pause(primitives.runtime()).await;
    }
}
