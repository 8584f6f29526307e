//! The exchange of a blob from each node to all nodes, through the job's PMI key-value space. It
//! takes several rounds, because the values of all nodes at a PMI barrier must fit in a node's
//! report and in a heartbeat of the manager.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use storm_mpi::pmi::wire::VALLEN_MAX_BYTES;
use thiserror::Error;

/// The part of a report (16 KiB) for a node's values. The rest is for keys and headers.
const REPORT_TEXT_BYTES: usize = 12 << 10;
/// Bytes of a key, its encoding and the header of a value, in addition to the value's text.
const HEAD_BYTES: usize = 80;
/// Longest text of a value. The number of the exchange, the round and the total length come before
/// it.
const TEXT_MAX_BYTES: usize = VALLEN_MAX_BYTES - 64;
/// Smallest portion of a node in its turn, if a heartbeat is long enough. With smaller portions,
/// keys would be most of the data.
const LEAST_BYTES: usize = 4 * HEAD_BYTES;
/// The most bytes that one fence may give to a node: the blobs of a hundred thousand ranks.
const GATHERED_MAX_BYTES: usize = 256 << 20;

/// The values of other nodes are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ExchangeError {
    /// A node's value is missing, or belongs to another exchange.
    #[error("node {node} of the job did not send its data for the others")]
    Missing { node: usize },
    /// The values are longer than a node keeps.
    #[error("the nodes of the job exchange more than {GATHERED_MAX_BYTES} bytes in one fence")]
    TooMuch,
}

/// The part of a blob that a node sends at once, and the nodes that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portion {
    /// Characters of a value.
    value_bytes: usize,
    /// Number of values in a round.
    values: usize,
    /// Distance between the nodes that send at the same time. Their neighbours follow in the next
    /// turn.
    turns: usize,
}

impl Portion {
    pub(crate) fn of(nodes: usize, heartbeat_bytes: usize) -> Portion {
        // Half of the heartbeat is used, because other data needs room too.
        let share = heartbeat_bytes / 2;
        let nodes = nodes.max(1);
        let at_once = (share / LEAST_BYTES).clamp(1, nodes);
        let turns = nodes.div_ceil(at_once);
        let room = (share / nodes.div_ceil(turns)).min(REPORT_TEXT_BYTES);
        let value_bytes = room.saturating_sub(HEAD_BYTES).clamp(64, TEXT_MAX_BYTES);
        Portion { value_bytes, values: (room / (value_bytes + HEAD_BYTES)).max(1), turns }
    }

    fn round_bytes(self) -> usize {
        self.value_bytes * self.values
    }
}

/// One exchange, as one node sees it. In each round, the nodes in turn send a portion. Once all
/// nodes have announced their lengths, a node that has sent everything is skipped.
///
/// Keys are reused, so the space does not grow with the fences of a job. Reuse is safe: a node's
/// put becomes visible to others only after a barrier, and a node enters a barrier only when it has
/// read the earlier values.
#[derive(Debug)]
pub(crate) struct Exchange {
    number: u64,
    portion: Portion,
    own: usize,
    text: String,
    round: usize,
    /// The nodes in turn.
    turn: usize,
    /// Number of earlier turns of these nodes.
    lap: usize,
    /// By node: the characters that have arrived, and the announced length.
    gathered: Vec<Gathered>,
    /// Number of announced characters.
    announced: usize,
}

#[derive(Clone, Debug, Default)]
struct Gathered {
    text: String,
    announced: Option<usize>,
}

impl Gathered {
    fn is_complete(&self) -> bool {
        self.announced.is_some_and(|announced| self.text.len() >= announced)
    }
}

impl Exchange {
    /// The `number`-th exchange of the job. `own` is this node's place among `nodes` nodes.
    pub(crate) fn new(
        number: u64,
        portion: Portion,
        (own, nodes): (usize, usize),
        blob: &[u8],
    ) -> Exchange {
        Exchange {
            number,
            portion,
            own,
            text: STANDARD_NO_PAD.encode(blob),
            round: 0,
            turn: 0,
            lap: 0,
            gathered: vec![Gathered::default(); nodes],
            announced: 0,
        }
    }

    /// The values to put before the next barrier. The length of the whole comes first.
    pub(crate) fn puts(&self) -> Vec<(String, String)> {
        if self.own % self.portion.turns != self.turn {
            return Vec::new();
        }
        let mut puts = Vec::new();
        for value in 0..self.portion.values {
            let from = self.lap * self.portion.round_bytes() + value * self.portion.value_bytes;
            let to = from.saturating_add(self.portion.value_bytes).min(self.text.len());
            // The text is ASCII, so any position lies between two characters.
            let text = self.text.get(from..to).unwrap_or_default();
            let length = self.length_is_due(value).then(|| format!("{} ", self.text.len()));
            if length.is_some() || !text.is_empty() {
                let value_text = [&self.head(), length.as_deref().unwrap_or_default(), text];
                puts.push((key(self.own, value), value_text.concat()));
            }
        }
        puts
    }

    /// Call it after the barrier. Reads the values of the nodes in turn with `get`. Returns the
    /// blobs one after the other once they are complete. Until then, another round follows.
    pub(crate) fn take<E: From<ExchangeError>>(
        &mut self,
        mut get: impl FnMut(&str) -> Result<Option<String>, E>,
    ) -> Result<Option<Vec<u8>>, E> {
        let head = self.head();
        for node in (self.turn..self.gathered.len()).step_by(self.portion.turns) {
            for value in 0..self.portion.values {
                if self.gathered[node].is_complete() {
                    break;
                }
                let said = get(&key(node, value))?;
                let text = said.as_deref().and_then(|said| said.strip_prefix(&head));
                self.add(node, value, text.ok_or(ExchangeError::Missing { node })?)?;
            }
        }
        self.round += 1;
        if self.gathered.iter().all(Gathered::is_complete) {
            return Ok(Some(self.blobs()?));
        }
        self.next_turn();
        Ok(None)
    }

    fn add(&mut self, node: usize, value: usize, mut text: &str) -> Result<(), ExchangeError> {
        let missing = ExchangeError::Missing { node };
        if self.length_is_due(value) {
            let (length, rest) = text.split_once(' ').ok_or(missing)?;
            let length = length.parse().map_err(|_| missing)?;
            self.gathered[node].announced = Some(length);
            self.announced = self.announced.saturating_add(length);
            if self.announced > GATHERED_MAX_BYTES {
                return Err(ExchangeError::TooMuch);
            }
            text = rest;
        }
        let gathered = &mut self.gathered[node];
        if text.is_empty() && !gathered.is_complete() {
            return Err(missing);
        }
        gathered.text.push_str(text);
        Ok(())
    }

    /// Moves to the next nodes that have data left. There must be such nodes.
    fn next_turn(&mut self) {
        loop {
            self.turn += 1;
            if self.turn >= self.portion.turns {
                (self.turn, self.lap) = (0, self.lap + 1);
            }
            let mut nodes = self.gathered.iter().skip(self.turn).step_by(self.portion.turns);
            if !nodes.all(Gathered::is_complete) {
                return;
            }
        }
    }

    fn blobs(&self) -> Result<Vec<u8>, ExchangeError> {
        let mut blobs = Vec::new();
        for (node, gathered) in self.gathered.iter().enumerate() {
            let blob = STANDARD_NO_PAD.decode(&gathered.text);
            blobs.extend(blob.map_err(|_| ExchangeError::Missing { node })?);
        }
        Ok(blobs)
    }

    fn length_is_due(&self, value: usize) -> bool {
        self.lap == 0 && value == 0
    }

    /// The header of each value of this round. It distinguishes the value from an older one under
    /// the same key.
    pub(crate) fn head(&self) -> String {
        format!("{}.{} ", self.number, self.round)
    }
}

fn key(node: usize, value: usize) -> String {
    format!("pmix.{node}.{value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use storm_mpi::pmi::wire::KEYLEN_MAX_BYTES;

    /// Puts blobs of all nodes for all nodes, and returns the number of rounds.
    fn exchange(
        number: u64,
        blobs: &[Vec<u8>],
        heartbeat_bytes: usize,
        space: &mut HashMap<String, String>,
    ) -> usize {
        let nodes = blobs.len();
        let portion = Portion::of(nodes, heartbeat_bytes);
        let of =
            |(own, blob): (usize, &Vec<u8>)| Exchange::new(number, portion, (own, nodes), blob);
        let mut all: Vec<Exchange> = blobs.iter().enumerate().map(of).collect();
        for round in 1.. {
            let mut heartbeat = 0;
            for exchange in &all {
                let puts = exchange.puts();
                let bytes: usize =
                    puts.iter().map(|(key, value)| key.len() + value.len() + 10).sum();
                assert!(bytes <= 16 << 10, "{bytes} bytes are too much for a report");
                heartbeat += bytes;
                for (key, value) in puts {
                    assert!(key.len() <= KEYLEN_MAX_BYTES && value.len() <= VALLEN_MAX_BYTES);
                    space.insert(key, value);
                }
            }
            assert!(heartbeat_bytes < 1024 || heartbeat <= heartbeat_bytes, "{heartbeat} bytes");
            let get = |key: &str| Ok::<_, ExchangeError>(space.get(key).cloned());
            let taken: Vec<_> =
                all.iter_mut().map(|one| one.take(get).expect("all said")).collect();
            assert!(taken.iter().all(|one| *one == taken[0]));
            if let Some(gathered) = &taken[0] {
                assert_eq!(gathered, &blobs.concat());
                return round;
            }
        }
        unreachable!("rounds have no end")
    }

    proptest! {
        #[test]
        fn all_nodes_have_all_blobs_after_as_many_rounds(
            blobs in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20_000), 1..8),
            heartbeat_bytes in 0usize..100_000,
        ) {
            let mut space = HashMap::new();
            exchange(6, &blobs, heartbeat_bytes, &mut space);
            let keys = space.len();
            exchange(7, &blobs, heartbeat_bytes, &mut space);
            prop_assert_eq!(space.len(), keys, "keys are used again");
        }
    }

    #[test]
    fn more_nodes_than_a_heartbeat_has_room_for_take_turns() {
        let blobs: Vec<Vec<u8>> = (0..5000_u32).map(|node| node.to_le_bytes().repeat(50)).collect();
        let few = &blobs[..100];
        assert_eq!(exchange(1, few, 256 << 10, &mut HashMap::new()), 1);
        // It would be too slow if each node read all values, so one node reads them for all.
        let (nodes, portion) = (blobs.len(), Portion::of(blobs.len(), 256 << 10));
        let of = |(own, blob): (usize, &Vec<u8>)| Exchange::new(2, portion, (own, nodes), blob);
        let mut all: Vec<Exchange> = blobs.iter().enumerate().map(of).collect();
        let (mut space, mut last) = (HashMap::new(), all.pop().expect("there are some"));
        let gathered = loop {
            let puts: Vec<_> = all.iter().chain([&last]).flat_map(Exchange::puts).collect();
            let bytes: usize = puts.iter().map(|(key, value)| key.len() + value.len() + 10).sum();
            assert!(bytes <= 256 << 10, "{bytes} bytes");
            space.extend(puts);
            let get = |key: &str| Ok::<_, ExchangeError>(space.get(key).cloned());
            let taken = last.take(get).expect("all was said");
            for one in &mut all {
                (one.round, one.turn, one.lap) = (last.round, last.turn, last.lap);
            }
            if let Some(gathered) = taken {
                break gathered;
            }
        };
        assert_eq!(gathered, blobs.concat());
    }

    #[test]
    fn a_node_with_a_missing_or_stale_value_is_named() {
        let mut exchange = Exchange::new(1, Portion::of(2, 1 << 16), (0, 2), b"own");
        let mut puts: HashMap<_, _> = exchange.puts().into_iter().collect();
        let taken = exchange.take(|key| Ok::<_, ExchangeError>(puts.get(key).cloned()));
        assert_eq!(taken, Err(ExchangeError::Missing { node: 1 }));
        let mut later = Exchange::new(2, Portion::of(2, 1 << 16), (0, 2), b"own");
        let other = Exchange::new(1, Portion::of(2, 1 << 16), (1, 2), b"other");
        puts.extend(later.puts().into_iter().chain(other.puts()));
        let taken = later.take(|key| Ok::<_, ExchangeError>(puts.get(key).cloned()));
        assert_eq!(taken, Err(ExchangeError::Missing { node: 1 }));
        puts.insert("pmix.1.0".to_owned(), format!("2.0 {} x", GATHERED_MAX_BYTES));
        let mut later = Exchange::new(2, Portion::of(2, 1 << 16), (0, 2), b"own");
        let taken = later.take(|key| Ok::<_, ExchangeError>(puts.get(key).cloned()));
        assert_eq!(taken, Err(ExchangeError::TooMuch));
    }
}
