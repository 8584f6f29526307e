//! Checks that one total order explains the observations of concurrent operations (paper, section
//! 2.4.1: sequential consistency).
//!
//! The check is a brute-force search over all orders that keep each node's own order. The search
//! abandons an order that contradicts an answer, and a situation that it has already met. The check
//! is meant for histories of a few dozen operations.

use crate::{NodeId, NodeSet, Relation};
use std::collections::{BTreeMap, HashSet};
use thiserror::Error;

/// Situations that a search visits before it gives up.
const MAX_SITUATIONS: usize = 2_000_000;

/// One operation and its observed answer. Words are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An XFER-AND-SIGNAL of `value` to one word that succeeded.
    Put { dest: NodeSet, word: usize, value: u64 },
    /// A COMPARE-AND-WRITE and its answer.
    Caw {
        set: NodeSet,
        word: usize,
        relation: Relation,
        value: u64,
        write: Option<(usize, u64)>,
        answer: bool,
    },
}

/// The observations of a run that began with all words zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The operations of each node, in the order of their issue.
    pub(crate) issued: BTreeMap<NodeId, Vec<Event>>,
    /// The words of each node after the run.
    pub(crate) finals: BTreeMap<NodeId, Vec<u64>>,
}

/// Why there is no order to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum OrderError {
    /// Every order contradicts an observation.
    #[error("no total order explains the history")]
    Inexplicable,
    /// The search was too long.
    #[error("no total order found among {MAX_SITUATIONS} situations")]
    TooLong,
}

/// The progress of each node, and the memory at that point.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Situation {
    done: Vec<usize>,
    memory: BTreeMap<NodeId, Vec<u64>>,
}

impl History {
    /// An order of the operations, by initiator, that explains the history.
    ///
    /// # Errors
    /// [`OrderError`] if none was found.
    pub(crate) fn total_order(&self) -> Result<Vec<NodeId>, OrderError> {
        let memory =
            self.finals.iter().map(|(node, words)| (*node, vec![0; words.len()])).collect();
        let start = Situation { done: vec![0; self.issued.len()], memory };
        let mut met = HashSet::from([start.clone()]);
        let mut stack = vec![(start, Vec::new())];
        while let Some((situation, order)) = stack.pop() {
            if self.is_end(&situation) {
                return Ok(order);
            }
            for (index, (initiator, events)) in self.issued.iter().enumerate() {
                let Some(event) = events.get(situation.done[index]) else { continue };
                let mut next = situation.clone();
                if !event.take_effect(&mut next.memory) {
                    continue;
                }
                next.done[index] += 1;
                if met.len() >= MAX_SITUATIONS {
                    return Err(OrderError::TooLong);
                }
                if met.insert(next.clone()) {
                    let mut order = order.clone();
                    order.push(*initiator);
                    stack.push((next, order));
                }
            }
        }
        Err(OrderError::Inexplicable)
    }

    fn is_end(&self, situation: &Situation) -> bool {
        let all_done = self.issued.values().zip(&situation.done).all(|(e, done)| e.len() == *done);
        all_done && situation.memory == self.finals
    }
}

impl Event {
    /// Applies the operation to `memory`. Returns false if the operation would have given another
    /// answer.
    fn take_effect(&self, memory: &mut BTreeMap<NodeId, Vec<u64>>) -> bool {
        match self {
            Event::Put { dest, word, value } => {
                write(memory, dest, *word, *value);
                true
            }
            Event::Caw { set, word, relation, value, write: to, answer } => {
                let asked = memory.iter().filter(|(node, _)| set.contains(**node));
                let holds =
                    asked.fold(true, |all, (_, words)| all && relation.holds(words[*word], *value));
                if let (true, Some((word, value))) = (holds, to) {
                    write(memory, set, *word, *value);
                }
                holds == *answer
            }
        }
    }
}

fn write(memory: &mut BTreeMap<NodeId, Vec<u64>>, set: &NodeSet, word: usize, value: u64) {
    for (_, words) in memory.iter_mut().filter(|(node, _)| set.contains(**node)) {
        words[word] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [NodeId; 2] = [NodeId(1), NodeId(2)];

    fn put(value: u64) -> Event {
        Event::Put { dest: BOTH.into_iter().collect(), word: 0, value }
    }

    fn caw(word: usize, value: u64, write: Option<(usize, u64)>, answer: bool) -> Event {
        let set = BOTH.into_iter().collect();
        Event::Caw { set, word, relation: Relation::Equal, value, write, answer }
    }

    fn history(one: Vec<Event>, two: Vec<Event>, finals: [[u64; 2]; 2]) -> History {
        let issued = BTreeMap::from([(NodeId(1), one), (NodeId(2), two)]);
        let finals = BOTH.into_iter().zip(finals.map(|words| words.to_vec())).collect();
        History { issued, finals }
    }

    #[test]
    fn an_order_is_found_where_there_is_one() {
        let seen = history(vec![put(1), caw(0, 2, None, true)], vec![put(2)], [[2, 0], [2, 0]]);
        assert_eq!(seen.total_order(), Ok(vec![NodeId(1), NodeId(2), NodeId(1)]));
    }

    #[test]
    fn divergent_values_are_caught() {
        let seen = history(vec![put(1)], vec![put(2)], [[1, 0], [2, 0]]);
        assert_eq!(seen.total_order(), Err(OrderError::Inexplicable));
    }

    #[test]
    fn a_node_overtaking_itself_is_caught() {
        let seen = history(vec![put(1), put(2)], vec![], [[1, 0], [1, 0]]);
        assert_eq!(seen.total_order(), Err(OrderError::Inexplicable));
    }

    #[test]
    fn write_skew_is_caught() {
        let one = vec![caw(0, 0, Some((1, 1)), true)];
        let two = vec![caw(1, 0, Some((0, 1)), true)];
        let seen = history(one, two, [[1, 1], [1, 1]]);
        assert_eq!(seen.total_order(), Err(OrderError::Inexplicable));
    }

    #[test]
    fn two_winners_are_caught() {
        let win = |value| vec![caw(0, 0, Some((0, value)), true)];
        let seen = history(win(1), win(2), [[2, 0], [2, 0]]);
        assert_eq!(seen.total_order(), Err(OrderError::Inexplicable));
    }

    #[test]
    fn a_lost_write_is_caught() {
        let seen = history(vec![put(1)], vec![], [[1, 0], [0, 0]]);
        assert_eq!(seen.total_order(), Err(OrderError::Inexplicable));
    }
}
