//! How much of each stream of the job's latest run was shown. Restarted managers and nodes may send
//! output a second time, and a node that stood still may send output of an earlier run.

use bytes::Bytes;
use std::collections::BTreeMap;
use storm_rm::message::Stream;
use storm_rm::{JobIncarnation, Rank};

/// The position up to which each stream of a run was shown.
#[derive(Debug, Default)]
pub(super) struct Shown {
    run: JobIncarnation,
    streams: BTreeMap<(Rank, bool), u64>,
    /// Bytes of all runs that never arrived.
    missing_bytes: u64,
}

impl Shown {
    /// The job waits after this run, or before its first.
    pub(super) fn waits(&mut self, after: JobIncarnation) {
        // An older manager does not name runs, and the next one begins anew.
        if after == JobIncarnation::default() {
            self.streams.clear();
        }
    }

    /// The bytes that never arrived though later ones did: they were on their way when a connection
    /// broke.
    pub(super) fn missing_bytes(&self) -> u64 {
        self.missing_bytes
    }

    /// The part of `data`, which begins at `offset`, that was not shown yet.
    pub(super) fn fresh(
        &mut self,
        run: JobIncarnation,
        (rank, stream): (Rank, Stream),
        offset: u64,
        mut data: Bytes,
    ) -> Bytes {
        if run < self.run {
            return Bytes::new();
        }
        if run > self.run {
            (self.run, self.streams) = (run, BTreeMap::new());
        }
        let end = offset.saturating_add(data.len() as u64);
        let shown = self.streams.entry((rank, stream == Stream::Stderr)).or_insert(offset);
        self.missing_bytes = self.missing_bytes.saturating_add(offset.saturating_sub(*shown));
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
            let data = Bytes::from_static(text.as_bytes());
            shown.fresh(JobIncarnation(3), (Rank(1), Stream::Stdout), offset, data)
        };
        assert_eq!(fresh(7, "abc"), "abc", "whoever comes later sees what comes then");
        assert_eq!(fresh(7, "abcde"), "de");
        assert_eq!(fresh(8, "bcd"), "");
        assert_eq!(fresh(12, "f"), "f");
        assert_eq!(shown.missing_bytes(), 0);
        let data = Bytes::from_static(b"after a gap");
        shown.fresh(JobIncarnation(3), (Rank(1), Stream::Stdout), 20, data);
        assert_eq!(shown.missing_bytes(), 7);
    }

    /// Regression: output of an earlier run was shown again, since the job had waited meanwhile.
    #[test]
    fn output_of_an_earlier_run_is_not_shown() {
        let mut shown = Shown::default();
        let mut fresh = |run, text: &'static str| {
            let data = Bytes::from_static(text.as_bytes());
            shown.fresh(JobIncarnation(run), (Rank(0), Stream::Stdout), 0, data)
        };
        assert_eq!(fresh(3, "first"), "first");
        assert_eq!(fresh(5, "second"), "second", "it begins again");
        assert_eq!(fresh(3, "first, and more"), "");
        assert_eq!(fresh(5, "second!"), "!");
    }
}
