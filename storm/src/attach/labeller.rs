//! Puts the rank before each line: `3: text`. Lines are output whole, so that lines of several
//! ranks do not mix.

use std::collections::BTreeMap;
use storm_rm::Rank;
use storm_rm::message::Stream;

/// A longer line is broken, so that a rank cannot use up all memory.
const MAX_LINE_BYTES: usize = 64 << 10;

/// The unfinished lines of all ranks.
#[derive(Debug, Default)]
pub(super) struct Labeller {
    stdout: BTreeMap<Rank, Vec<u8>>,
    stderr: BTreeMap<Rank, Vec<u8>>,
}

impl Labeller {
    /// Takes output of a rank, and returns the lines that it completes.
    pub(super) fn take(&mut self, rank: Rank, stream: Stream, mut data: &[u8]) -> Vec<u8> {
        let mut whole = Vec::new();
        let unfinished = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let line = unfinished.entry(rank).or_default();
        while !data.is_empty() {
            let end = data.iter().position(|&byte| byte == b'\n');
            let room = MAX_LINE_BYTES - line.len();
            let length = end.unwrap_or(data.len()).min(room);
            line.extend_from_slice(&data[..length]);
            data = &data[length..];
            let complete = data.first() == Some(&b'\n');
            if complete || line.len() == MAX_LINE_BYTES {
                emit(rank, line, &mut whole);
                data = &data[usize::from(complete)..];
            }
        }
        if line.is_empty() {
            unfinished.remove(&rank);
        }
        whole
    }

    /// The remaining lines without a line feed, each with a line feed added.
    pub(super) fn rest(&mut self) -> Vec<(Stream, Vec<u8>)> {
        let stdout = std::mem::take(&mut self.stdout).into_iter();
        let stderr = std::mem::take(&mut self.stderr).into_iter();
        stdout
            .map(|unfinished| (Stream::Stdout, unfinished))
            .chain(stderr.map(|unfinished| (Stream::Stderr, unfinished)))
            .map(|(stream, (rank, mut line))| {
                let mut out = Vec::new();
                emit(rank, &mut line, &mut out);
                (stream, out)
            })
            .collect()
    }
}

fn emit(rank: Rank, line: &mut Vec<u8>, to: &mut Vec<u8>) {
    to.extend_from_slice(format!("{rank}: ").as_bytes());
    to.append(line);
    to.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OUT: Stream = Stream::Stdout;

    #[test]
    fn lines_of_ranks_do_not_mix() {
        let mut labeller = Labeller::default();
        assert_eq!(labeller.take(Rank(0), OUT, b"hel"), b"");
        assert_eq!(labeller.take(Rank(1), OUT, b"one\ntwo\nth"), b"1: one\n1: two\n");
        assert_eq!(labeller.take(Rank(0), Stream::Stderr, b"oops\n"), b"0: oops\n");
        assert_eq!(labeller.take(Rank(0), OUT, b"lo\n\n"), b"0: hello\n0: \n");
        assert_eq!(labeller.rest(), [(OUT, b"1: th\n".to_vec())]);
        assert!(labeller.rest().is_empty());
    }

    #[test]
    fn an_endless_line_is_broken() {
        let mut labeller = Labeller::default();
        let out = labeller.take(Rank(0), OUT, &vec![b'x'; 3 * MAX_LINE_BYTES + 1]);
        assert_eq!(out.iter().filter(|&&byte| byte == b'\n').count(), 3);
        assert_eq!(labeller.rest(), [(OUT, b"0: x\n".to_vec())]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_however_it_is_cut(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            cut in 0usize..200,
        ) {
            let cut = cut.min(text.len());
            let mut labeller = Labeller::default();
            let mut out = labeller.take(Rank(7), OUT, &text[..cut]);
            out.extend(labeller.take(Rank(7), OUT, &text[cut..]));
            for (_, rest) in labeller.rest() {
                out.extend(rest);
            }
            let mut expected = Vec::new();
            let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
            if lines.last().is_some_and(|line| line.is_empty()) {
                lines.pop();
            }
            for line in lines {
                expected.extend_from_slice(b"7: ");
                expected.extend_from_slice(line);
                expected.push(b'\n');
            }
            prop_assert_eq!(out, expected);
        }
    }
}
