//! How much of each stream was shown. Restarted managers and nodes may send output a second time.

use bytes::Bytes;
use std::collections::BTreeMap;
use storm_rm::Rank;
use storm_rm::message::Stream;

/// The position up to which each stream was shown.
#[derive(Debug, Default)]
pub(super) struct Shown(BTreeMap<(Rank, bool), u64>);

impl Shown {
    /// The part of `data`, which begins at `offset`, that was not shown yet.
    pub(super) fn fresh(
        &mut self,
        rank: Rank,
        stream: Stream,
        offset: u64,
        mut data: Bytes,
    ) -> Bytes {
        let end = offset.saturating_add(data.len() as u64);
        let shown = self.0.entry((rank, stream == Stream::Stderr)).or_insert(offset);
        let known = usize::try_from(shown.saturating_sub(offset)).unwrap_or(usize::MAX);
        *shown = end.max(*shown);
        data.split_off(known.min(data.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_output_is_not_shown_again() {
        let mut shown = Shown::default();
        let mut fresh = |offset, text: &'static str| {
            shown.fresh(Rank(1), Stream::Stdout, offset, Bytes::from_static(text.as_bytes()))
        };
        assert_eq!(fresh(7, "abc"), "abc", "whoever comes later sees what comes then");
        assert_eq!(fresh(7, "abcde"), "de");
        assert_eq!(fresh(8, "bcd"), "");
        assert_eq!(fresh(12, "f"), "f");
    }
}
