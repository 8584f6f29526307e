//! The strobe: the beginning of a microphase of a slice.

/// A microphase of a slice (SC'03). The global message scheduling phase has the first two, and the
/// transmission phase the next three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// DEM: send descriptors go to the nodes of their receivers.
    DescriptorExchange,
    /// MSM: receivers match them and grant bytes; collectives that all members have posted are
    /// scheduled.
    MessageScheduling,
    /// P2P: granted bytes move.
    PointToPoint,
    /// BBM: broadcasts and barriers.
    BroadcastAndBarrier,
    /// RM: reductions.
    Reduce,
    /// The node takes arrived bytes out of the network's buffers, and reports that none of its
    /// bytes is on the way. In the paper, the end of the slice implies it.
    SliceEnd,
}

impl Phase {
    /// All phases, in the order of a slice.
    pub const ALL: [Phase; 6] = [
        Phase::DescriptorExchange,
        Phase::MessageScheduling,
        Phase::PointToPoint,
        Phase::BroadcastAndBarrier,
        Phase::Reduce,
        Phase::SliceEnd,
    ];
}

/// The beginning of a microphase. Slices count from 1, so zeroed memory names no strobe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Strobe {
    /// The slice.
    pub slice: u64,
    /// The microphase.
    pub phase: Phase,
}

/// Words per slice: a power of two above the number of phases.
const WORDS_PER_SLICE: u64 = 8;

impl Strobe {
    /// The strobe as a word that grows with time, for comparison by COMPARE-AND-WRITE.
    pub fn to_word(self) -> u64 {
        self.slice * WORDS_PER_SLICE + self.phase as u64
    }

    /// The strobe of a word, if there is one.
    pub fn from_word(word: u64) -> Option<Strobe> {
        let phase = *Phase::ALL.get((word % WORDS_PER_SLICE) as usize)?;
        let slice = word / WORDS_PER_SLICE;
        (slice > 0).then_some(Strobe { slice, phase })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_grow_with_time_and_zero_is_none() {
        assert_eq!(Strobe::from_word(0), None);
        assert_eq!(Strobe::from_word(WORDS_PER_SLICE + 7), None);
        let strobes = (1..4).flat_map(|slice| Phase::ALL.map(|phase| Strobe { slice, phase }));
        let words: Vec<u64> = strobes.clone().map(Strobe::to_word).collect();
        assert!(words.is_sorted_by(|a, b| a < b));
        assert!(words.iter().zip(strobes).all(|(w, s)| Strobe::from_word(*w) == Some(s)));
    }
}
