//! Check sums of distributed data that come to the same however the data is divided.

use storm_mpi::{CommError, Communicator, ReduceOp};

/// Spreads a number over all bits: the output function of SplitMix64 (Steele, Lea, Flood, OOPSLA
/// 2014).
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The number at this place of a pseudo-random sequence, at least 0 and below 1.
pub fn unit(place: u64) -> f64 {
    (mix(place.wrapping_add(0x9e37_79b9_7f4a_7c15)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// The term of the word at `place`. A checksum is the wrapping sum of all terms, in any order.
pub fn term(place: u64, word: u64) -> u64 {
    mix(word ^ mix(place))
}

/// The checksum of the whole, from every rank's own sum.
///
/// # Errors
/// [`CommError`].
pub fn of_all(comm: &Communicator, mine: u64) -> Result<u64, CommError> {
    let mut all = [0];
    comm.allreduce(&[mine], &mut all, ReduceOp::Sum)?;
    Ok(all[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_by_its_place() {
        let sum = |words: [u64; 2]| term(0, words[0]).wrapping_add(term(1, words[1]));
        assert_eq!(sum([3, 4]), term(1, 4).wrapping_add(term(0, 3)), "not by its turn");
        assert_ne!(sum([3, 4]), sum([4, 3]));
        assert_ne!(sum([0, 0]), sum([0, 1]));
    }

    #[test]
    fn units_fill_their_interval() {
        let (low, high) = (0..1000).map(unit).fold((1.0_f64, 0.0_f64), |(low, high), x| {
            assert!((0.0..1.0).contains(&x));
            (low.min(x), high.max(x))
        });
        assert!(low < 0.01 && high > 0.99, "{low} {high}");
    }
}
