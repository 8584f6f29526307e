//! A blob of each node to all nodes, through the job's PMI key-value space: in rounds, since what
//! nodes say at one PMI barrier has to fit one report of a node and one heartbeat of the manager.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use storm_mpi::pmi::wire::VALLEN_MAX_BYTES;
use thiserror::Error;

/// Of a report (16 KiB), what a node's values may take: the rest is for keys and heads.
const REPORT_TEXT_BYTES: usize = 12 << 10;
/// What a key and its encoding take beside a value.
const KEY_TEXT_BYTES: usize = 64;
/// Most bytes that one fence may give to a node: the blobs of a hundred thousand ranks.
const GATHERED_MAX_BYTES: usize = 256 << 20;

/// What other nodes said makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("node {node} of the job did not say what it has for the others")]
pub(crate) struct Missing {
    node: usize,
}

/// How much of a blob a node says at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portion {
    /// Characters of a value.
    value_bytes: usize,
    /// Values of a round.
    values: usize,
}

impl Portion {
    /// Where `nodes` nodes say it in one heartbeat of so many bytes.
    pub(crate) fn of(nodes: usize, heartbeat_bytes: usize) -> Portion {
        // Half of it: others have something to say as well.
        let of_heartbeat = heartbeat_bytes / 2 / nodes.max(1);
        let room = of_heartbeat.min(REPORT_TEXT_BYTES);
        let value_bytes = room.saturating_sub(KEY_TEXT_BYTES).clamp(64, VALLEN_MAX_BYTES);
        Portion { value_bytes, values: (room / (value_bytes + KEY_TEXT_BYTES)).max(1) }
    }

    fn round_bytes(self) -> usize {
        self.value_bytes * self.values
    }
}

/// One exchange, as one node sees it.
#[derive(Debug)]
pub(crate) struct Exchange {
    number: u64,
    portion: Portion,
    own: usize,
    text: String,
    round: usize,
    /// Of each node what has come, and of how much.
    gathered: Vec<Gathered>,
}

#[derive(Clone, Debug, Default)]
struct Gathered {
    text: String,
    announced: Option<usize>,
}

impl Exchange {
    /// The `number`-th of the job; `own` is our place among so many `nodes`.
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
            gathered: vec![Gathered::default(); nodes],
        }
    }

    /// What to put before the next barrier. First of all, the length of the whole.
    pub(crate) fn puts(&self) -> Vec<(String, String)> {
        let mut puts = Vec::new();
        if self.round == 0 {
            puts.push((self.length_key(self.own), self.text.len().to_string()));
        }
        for value in 0..self.portion.values {
            let from = self.round * self.portion.round_bytes() + value * self.portion.value_bytes;
            let to = (from + self.portion.value_bytes).min(self.text.len());
            // It is ASCII: any place is between two characters.
            if let Some(text) = self.text.get(from..to).filter(|text| !text.is_empty()) {
                puts.push((self.key(self.own, value), text.to_owned()));
            }
        }
        puts
    }

    /// After the barrier: takes what all nodes put, as `get` finds it. The blobs one after
    /// the other once they are complete; until then there is another round.
    pub(crate) fn take<E: From<Missing>>(
        &mut self,
        mut get: impl FnMut(&str) -> Result<Option<String>, E>,
    ) -> Result<Option<Vec<u8>>, E> {
        let mut total = 0;
        for node in 0..self.gathered.len() {
            if self.round == 0 {
                let length = get(&self.length_key(node))?.and_then(|text| text.parse().ok());
                self.gathered[node].announced = Some(length.ok_or(Missing { node })?);
            }
            let announced = self.gathered[node].announced.unwrap_or_default();
            total = announced.saturating_add(total);
            if total > GATHERED_MAX_BYTES {
                return Err(Missing { node }.into());
            }
            for value in 0..self.portion.values {
                if self.gathered[node].text.len() >= announced {
                    break;
                }
                let text = get(&self.key(node, value))?.filter(|text| !text.is_empty());
                self.gathered[node].text.push_str(&text.ok_or(Missing { node })?);
            }
        }
        self.round += 1;
        let complete = |node: &Gathered| node.text.len() >= node.announced.unwrap_or_default();
        if !self.gathered.iter().all(complete) {
            return Ok(None);
        }
        let mut blobs = Vec::new();
        for (node, gathered) in self.gathered.iter().enumerate() {
            let blob = STANDARD_NO_PAD.decode(&gathered.text).map_err(|_| Missing { node })?;
            blobs.extend(blob);
        }
        Ok(Some(blobs))
    }

    fn length_key(&self, node: usize) -> String {
        format!("pmix.{}.{node}", self.number)
    }

    fn key(&self, node: usize, value: usize) -> String {
        format!("pmix.{}.{node}.{}.{value}", self.number, self.round)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use storm_mpi::pmi::wire::KEYLEN_MAX_BYTES;

    proptest! {
        #[test]
        fn all_nodes_have_all_blobs_after_as_many_rounds(
            blobs in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40_000), 1..5),
            heartbeat_bytes in 0usize..100_000,
        ) {
            let portion = Portion::of(blobs.len(), heartbeat_bytes);
            let nodes = blobs.len();
            let mut all: Vec<Exchange> = blobs.iter().enumerate()
                .map(|(own, blob)| Exchange::new(7, portion, (own, nodes), blob)).collect();
            let mut space = HashMap::new();
            loop {
                for exchange in &all {
                    let puts = exchange.puts();
                    let bytes: usize = puts.iter().map(|(key, value)| key.len() + value.len() + 10).sum();
                    prop_assert!(bytes <= 16 << 10, "{bytes} bytes are too much for a report");
                    for (key, value) in puts {
                        prop_assert!(key.len() <= KEYLEN_MAX_BYTES && value.len() <= VALLEN_MAX_BYTES);
                        prop_assert!(space.insert(key, value).is_none(), "a key is used once");
                    }
                }
                let get = |key: &str| Ok::<_, Missing>(space.get(key).cloned());
                let taken: Vec<_> = all.iter_mut()
                    .map(|exchange| exchange.take(get).expect("all was said")).collect();
                prop_assert!(taken.iter().all(|one| *one == taken[0]));
                if let Some(gathered) = &taken[0] {
                    prop_assert_eq!(gathered, &blobs.concat());
                    break;
                }
            }
        }
    }

    #[test]
    fn a_node_that_says_nothing_is_named() {
        let mut exchange = Exchange::new(1, Portion::of(2, 1 << 16), (0, 2), b"own");
        let puts: HashMap<_, _> = exchange.puts().into_iter().collect();
        let taken = exchange.take(|key| Ok::<_, Missing>(puts.get(key).cloned()));
        assert_eq!(taken, Err(Missing { node: 1 }));
    }
}
