//! Cuts the stream of one rank into whole lines.

use std::time::{Duration, Instant};

/// How long an unfinished line is held while no more of it arrives. A user may follow the growing
/// file, but no user waits for a prompt in it.
const PAUSE: Duration = Duration::from_secs(5);
/// Buffers of standard output have this size, or a multiple, if it is not a terminal (C, Python).
const BLOCK_BYTES: u64 = 4096;
/// A longer line is written in pieces.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

/// The unfinished line of a rank.
#[derive(Debug)]
pub(super) struct Line {
    unfinished: Vec<u8>,
    /// The time of the last data of the stream.
    at: Instant,
    /// Bytes of the stream since its last pause.
    since_pause: u64,
}

impl Line {
    pub(super) fn new(now: Instant) -> Self {
        Self { unfinished: Vec::new(), at: now, since_pause: 0 }
    }

    /// Takes output of the rank, and appends the lines that it completes to `out`.
    pub(super) fn take(&mut self, data: &[u8], now: Instant, out: &mut Vec<u8>) {
        if now.saturating_duration_since(self.at) >= PAUSE {
            self.since_pause = 0;
        }
        self.at = now;
        self.since_pause = self.since_pause.saturating_add(data.len() as u64);
        let whole = data.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        if whole > 0 {
            self.flush(out);
            out.extend_from_slice(&data[..whole]);
        }
        self.unfinished.extend_from_slice(&data[whole..]);
        if self.unfinished.len() > LINE_BYTES_MAX {
            self.flush(out);
        }
    }

    /// The time at which the unfinished line is written as it is. A stream that stops after full
    /// buffers is in the middle of a line only by chance, so its line has no such time.
    pub(super) fn due(&self) -> Option<Instant> {
        let is_full_buffer = self.since_pause.is_multiple_of(BLOCK_BYTES);
        (!self.unfinished.is_empty() && !is_full_buffer).then(|| self.at + PAUSE)
    }

    /// Appends the unfinished line to `out` as it is.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.unfinished);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(line: &mut Line, data: &[u8], now: Instant) -> Vec<u8> {
        let mut out = Vec::new();
        line.take(data, now, &mut out);
        out
    }

    #[test]
    fn a_line_goes_on_when_it_is_whole() {
        let now = Instant::now();
        let mut line = Line::new(now);
        assert_eq!(taken(&mut line, b"hel", now), b"");
        assert_eq!(taken(&mut line, b"lo\none\ntw", now), b"hello\none\n");
        let mut rest = Vec::new();
        line.flush(&mut rest);
        assert_eq!(rest, b"tw");
        assert_eq!(line.due(), None);
    }

    #[test]
    fn an_unfinished_line_goes_on_after_a_pause_unless_a_buffer_was_full() {
        let now = Instant::now();
        let mut line = Line::new(now);
        taken(&mut line, b"working", now);
        assert_eq!(line.due(), Some(now + PAUSE));
        let mut line = Line::new(now);
        taken(&mut line, &[b'x'; BLOCK_BYTES as usize], now);
        assert_eq!(line.due(), None);
        taken(&mut line, &[b'x'; BLOCK_BYTES as usize], now);
        assert_eq!(line.due(), None);
        taken(&mut line, b"x", now);
        assert_eq!(line.due(), Some(now + PAUSE));
    }

    /// Otherwise a program that flushes once and then fills buffers has its lines cut.
    #[test]
    fn a_buffer_that_is_filled_after_a_pause_is_a_full_one() {
        let now = Instant::now();
        let mut line = Line::new(now);
        taken(&mut line, b"begins\n", now);
        let later = now + PAUSE;
        taken(&mut line, &[b'x'; BLOCK_BYTES as usize], later);
        assert_eq!(line.due(), None);
    }

    #[test]
    fn a_very_long_line_goes_on_in_pieces() {
        let now = Instant::now();
        let mut line = Line::new(now);
        let mut out = Vec::new();
        for _ in 0..100 {
            line.take(&[b'x'; 4096], now, &mut out);
            assert!(line.unfinished.len() <= LINE_BYTES_MAX);
        }
        line.flush(&mut out);
        assert_eq!(out.len(), 100 * 4096);
    }

    proptest! {
        #[test]
        fn the_bytes_stay_as_they_are_and_lines_whole(
            writes in proptest::collection::vec(
                proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a')], 0..20),
                0..40,
            ),
        ) {
            let now = Instant::now();
            let mut line = Line::new(now);
            let mut all = Vec::new();
            for data in &writes {
                let out = taken(&mut line, data, now);
                prop_assert!(out.is_empty() || out.ends_with(b"\n"));
                all.extend(out);
            }
            line.flush(&mut all);
            prop_assert_eq!(all, writes.concat());
        }
    }
}
