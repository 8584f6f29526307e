//! Keeps the lines of several ranks apart: a line is passed on when it is complete, so that no rank
//! writes into another's line. The bytes of each rank keep their order and are not changed.
//!
//! A rank may stop in the middle of a line, as at a prompt. After [`PAUSE`] without more output,
//! the part is passed on, and the rest of the line may then follow lines of other ranks. If a
//! stream stops after a multiple of [`BLOCK_BYTES`], the rank probably filled a buffer and is not
//! at a prompt, so the pause is [`BLOCK_PAUSE`].
//!
//! While a manager or nodes are away, the rest of a line may be held there. Lines that were begun
//! before wait for their rest until [`BLOCK_PAUSE`] after the return.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use storm_rm::Rank;
use storm_rm::message::Stream;

/// How long an unfinished line is held without more output: too short to be noticed at a prompt.
pub(super) const PAUSE: Duration = Duration::from_millis(200);
/// The pause if the rank seems to have written a full buffer.
const BLOCK_PAUSE: Duration = Duration::from_secs(5);
/// Size of buffers for standard output that is no terminal, or a divisor of it (C, Python).
const BLOCK_BYTES: u64 = 4096;
/// A longer line is passed on in pieces.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Most bytes of unfinished lines of all ranks. Beyond it, output is passed on as it comes.
const MAX_HELD_BYTES: usize = 16 << 20;

/// The unfinished lines of all ranks.
#[derive(Debug, Default)]
pub(super) struct WholeLines {
    lines: BTreeMap<(bool, Rank), Line>,
    held_bytes: usize,
    /// No line is due before this time.
    look_at: Option<Instant>,
    absence: Option<Absence>,
}

/// The last time for which output could not come.
#[derive(Clone, Copy, Debug)]
struct Absence {
    began: Instant,
    /// When output could come again; `None` if it cannot yet.
    ended: Option<Instant>,
}

#[derive(Debug)]
struct Line {
    unfinished: Vec<u8>,
    /// Arrival time of its last bytes.
    at: Instant,
    /// Bytes since the last pause of the rank that was noticed.
    since_pause: u64,
}

impl Line {
    /// When to pass it on unfinished; `None` while its rest cannot come.
    fn due(&self, absence: Option<Absence>) -> Option<Instant> {
        let block = self.since_pause.is_multiple_of(BLOCK_BYTES);
        let due = self.at + if block { BLOCK_PAUSE } else { PAUSE };
        match absence.filter(|absence| self.at <= absence.began) {
            Some(absence) => Some(due.max(absence.ended? + BLOCK_PAUSE)),
            None => Some(due),
        }
    }
}

impl WholeLines {
    /// Takes output of a rank, and returns the output that may be passed on now.
    pub(super) fn take(
        &mut self,
        (rank, stream): (Rank, Stream),
        data: &[u8],
        now: Instant,
    ) -> Vec<u8> {
        let new = || Line { unfinished: Vec::new(), at: now, since_pause: 0 };
        let line = self.lines.entry((is_error(stream), rank)).or_insert_with(new);
        line.at = now;
        line.since_pause = line.since_pause.saturating_add(data.len() as u64);
        self.held_bytes -= line.unfinished.len();
        let whole = data.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut out = Vec::new();
        if whole > 0 {
            out = std::mem::take(&mut line.unfinished);
            out.extend_from_slice(&data[..whole]);
        }
        line.unfinished.extend_from_slice(&data[whole..]);
        let held = line.unfinished.len();
        if held > MAX_LINE_BYTES || self.held_bytes + held > MAX_HELD_BYTES {
            out.append(&mut line.unfinished);
        }
        self.held_bytes += line.unfinished.len();
        if !line.unfinished.is_empty() {
            self.look_at.get_or_insert(now + PAUSE);
        }
        out
    }

    /// Output of some ranks cannot come from now on.
    pub(super) fn may_be_late(&mut self, now: Instant) {
        match self.absence {
            Some(Absence { ended: None, .. }) => {}
            Some(_) | None => self.absence = Some(Absence { began: now, ended: None }),
        }
    }

    /// Output of all ranks can come again.
    pub(super) fn is_in_time(&mut self, now: Instant) {
        if let Some(absence) = self.absence.as_mut().filter(|absence| absence.ended.is_none()) {
            absence.ended = Some(now);
            self.look_at.get_or_insert(now + PAUSE);
        }
    }

    /// When to call [`due`](Self::due).
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// The unfinished lines of ranks that have paused.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(Stream, Vec<u8>)> {
        let mut next: Option<Instant> = None;
        let mut out = Vec::new();
        for ((error, _), line) in &mut self.lines {
            if line.unfinished.is_empty() {
                continue;
            }
            let Some(due) = line.due(self.absence) else { continue };
            if due <= now {
                line.since_pause = 0;
                self.held_bytes -= line.unfinished.len();
                out.push((stream(*error), std::mem::take(&mut line.unfinished)));
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        // Bounds the number of scans if many ranks pause one after the other.
        self.look_at = next.map(|next| next.max(now + PAUSE / 4));
        out
    }

    /// The remaining unfinished lines.
    pub(super) fn rest(&mut self) -> Vec<(Stream, Vec<u8>)> {
        self.look_at = None;
        self.held_bytes = 0;
        let lines = std::mem::take(&mut self.lines).into_iter();
        let rest = lines.map(|((error, _), line)| (stream(error), line.unfinished));
        rest.filter(|(_, unfinished)| !unfinished.is_empty()).collect()
    }
}

fn is_error(stream: Stream) -> bool {
    match stream {
        Stream::Stdout => false,
        Stream::Stderr => true,
    }
}

fn stream(is_error: bool) -> Stream {
    if is_error { Stream::Stderr } else { Stream::Stdout }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OUT: Stream = Stream::Stdout;

    fn of(rank: u32) -> (Rank, Stream) {
        (Rank(rank), OUT)
    }

    #[test]
    fn lines_of_ranks_do_not_mix() {
        let (mut lines, now) = (WholeLines::default(), Instant::now());
        assert_eq!(lines.take(of(0), b"hel", now), b"");
        assert_eq!(lines.take(of(1), b"one\ntwo\nth", now), b"one\ntwo\n");
        assert_eq!(lines.take((Rank(0), Stream::Stderr), b"oops\n", now), b"oops\n");
        assert_eq!(lines.take(of(0), b"lo\n\n", now), b"hello\n\n");
        assert_eq!(lines.rest(), [(OUT, b"th".to_vec())]);
        assert!(lines.rest().is_empty());
    }

    #[test]
    fn a_prompt_goes_on_after_a_pause() {
        let (mut lines, now) = (WholeLines::default(), Instant::now());
        assert_eq!(lines.look_at(), None);
        assert_eq!(lines.take(of(0), b"name? ", now), b"");
        assert_eq!(lines.look_at(), Some(now + PAUSE));
        assert!(lines.due(now + PAUSE / 2).is_empty());
        let later = now + PAUSE;
        assert_eq!(lines.due(later), [(OUT, b"name? ".to_vec())]);
        assert_eq!(lines.look_at(), None);
        assert_eq!(lines.take(of(0), b"\n", later), b"\n");
    }

    /// A program that writes full buffers pauses in the middle of lines.
    #[test]
    fn a_full_buffer_is_no_prompt() {
        let (mut lines, now) = (WholeLines::default(), Instant::now());
        let mut block = vec![b'x'; BLOCK_BYTES as usize];
        block[4000] = b'\n';
        assert_eq!(lines.take(of(0), &block, now).len(), 4001);
        assert!(lines.due(now + PAUSE).is_empty());
        assert_eq!(lines.look_at(), Some(now + BLOCK_PAUSE));
        assert_eq!(lines.take(of(0), b"\n", now + PAUSE).len(), 96);
        assert!(lines.due(now + BLOCK_PAUSE).is_empty());
    }

    /// Regression: the rest of a line was in a node whose Node Manager was restarted, and lines of
    /// other ranks came between.
    #[test]
    fn a_line_waits_for_its_rest_while_a_node_is_away() {
        let (mut lines, now) = (WholeLines::default(), Instant::now());
        assert_eq!(lines.take(of(0), b"begun, ", now), b"");
        lines.may_be_late(now + PAUSE / 2);
        let later = now + 10 * PAUSE;
        assert_eq!(lines.take(of(1), b"name? ", later), b"");
        let due = lines.due(later + PAUSE);
        assert_eq!(due, [(OUT, b"name? ".to_vec())], "a rank that is not away");
        lines.is_in_time(later + PAUSE);
        assert!(lines.due(later + 2 * PAUSE).is_empty());
        assert_eq!(lines.take(of(0), b"finished\n", later + 2 * PAUSE), b"begun, finished\n");
    }

    #[test]
    fn a_line_whose_rest_does_not_come_after_an_absence_is_passed_on() {
        let (mut lines, now) = (WholeLines::default(), Instant::now());
        assert_eq!(lines.take(of(0), b"begun", now), b"");
        lines.may_be_late(now);
        assert!(lines.due(now + BLOCK_PAUSE).is_empty());
        assert_eq!(lines.look_at(), None);
        let back = now + 2 * BLOCK_PAUSE;
        lines.is_in_time(back);
        assert!(lines.look_at().is_some() && lines.due(back + PAUSE).is_empty());
        assert_eq!(lines.look_at(), Some(back + BLOCK_PAUSE));
        assert_eq!(lines.due(back + BLOCK_PAUSE), [(OUT, b"begun".to_vec())]);
    }

    #[test]
    fn held_lines_are_bounded() {
        let (mut lines, now) = (WholeLines::default(), Instant::now());
        let piece = vec![b'x'; 4096];
        let mut out = 0;
        for _ in 0..100 {
            out += lines.take(of(0), &piece, now).len();
            assert!(lines.held_bytes <= MAX_LINE_BYTES);
        }
        assert!(out > 0);
        for rank in 1..10_000 {
            out += lines.take(of(rank), &piece, now).len();
            assert!(lines.held_bytes <= MAX_HELD_BYTES);
        }
        let rest: usize = lines.rest().iter().map(|(_, line)| line.len()).sum();
        assert_eq!(out + rest, 4096 * (100 + 9_999));
    }

    proptest! {
        #[test]
        fn each_ranks_bytes_stay_in_their_order_and_lines_whole(
            writes in proptest::collection::vec(
                (0u32..3, proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a')], 0..20)),
                0..40,
            ),
        ) {
            let (mut lines, now) = (WholeLines::default(), Instant::now());
            let mut sent = BTreeMap::<u32, Vec<u8>>::new();
            let mut got = BTreeMap::<u32, Vec<u8>>::new();
            for (rank, data) in writes {
                // Each rank writes a letter of its own.
                let letter = b'a' + rank as u8;
                let data: Vec<u8> =
                    data.into_iter().map(|byte| if byte == b'a' { letter } else { byte }).collect();
                let out = lines.take(of(rank), &data, now);
                prop_assert!(out.is_empty() || out.ends_with(b"\n"));
                got.entry(rank).or_default().extend(out);
                sent.entry(rank).or_default().extend(data);
            }
            let mut left: Vec<Vec<u8>> = lines.rest().into_iter().map(|(_, line)| line).collect();
            for (rank, sent) in sent {
                let mut got = got.remove(&rank).unwrap_or_default();
                let letter = b'a' + rank as u8;
                let own = left.iter().position(|line| line.contains(&letter));
                got.extend(own.map(|own| left.remove(own)).unwrap_or_default());
                prop_assert_eq!(got, sent);
            }
        }
    }
}
