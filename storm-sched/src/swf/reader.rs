//! Reads a log from bytes that come in pieces of any size.

use super::{Damage, DamagedLine, SwfHeader, SwfRecord};

/// The longest line that is read, in bytes. 18 numbers need at most 400, and longer comments are
/// cut.
pub const MAX_LINE_BYTES: usize = 4_096;
/// The most damaged lines that are kept. The others are counted.
pub const MAX_NAMED_LINES: usize = 100;

/// How exactly a log must keep to the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conformity {
    /// The form of archive logs: fields at the end may be missing, or there may be too many.
    #[default]
    Lenient,
    /// 18 fields on every line.
    Strict,
}

/// Reads a log.
#[derive(Debug, Clone, Default)]
pub struct SwfReader {
    conformity: Conformity,
    contents: SwfContents,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    /// Whether the line is longer than the limit.
    overlong: bool,
}

/// The contents of a log besides its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwfContents {
    /// The labelled comments.
    pub header: SwfHeader,
    /// The first [`MAX_NAMED_LINES`] lines that could not be used.
    pub damaged: Vec<DamagedLine>,
    /// The number of all lines that could not be used.
    pub damaged_count: u64,
    /// The number of jobs that were read.
    pub records: u64,
    /// The number of lines of the log.
    pub lines: u64,
}

impl SwfReader {
    /// Returns a reader of a log.
    #[must_use]
    pub fn new(conformity: Conformity) -> Self {
        Self { conformity, ..Self::default() }
    }

    /// Takes the next bytes. Every job that ends in them is passed to `take`.
    pub fn push(&mut self, mut bytes: &[u8], take: &mut impl FnMut(SwfRecord)) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let line = &bytes[..end];
            bytes = &bytes[end + 1..];
            if self.partial.is_empty() && line.len() <= MAX_LINE_BYTES {
                self.line(line, take);
            } else {
                self.keep(line);
                self.end_partial(take);
            }
        }
        self.keep(bytes);
    }

    /// Ends the log. The last line may lack its line feed.
    #[must_use]
    pub fn finish(mut self, take: &mut impl FnMut(SwfRecord)) -> SwfContents {
        if !self.partial.is_empty() {
            self.end_partial(take);
        }
        self.contents
    }

    /// The number of jobs so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.contents.records
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_LINE_BYTES - self.partial.len();
        self.overlong |= bytes.len() > room;
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_partial(&mut self, take: &mut impl FnMut(SwfRecord)) {
        let line = std::mem::take(&mut self.partial);
        let overlong = std::mem::take(&mut self.overlong);
        if overlong && !line.trim_ascii_start().starts_with(b";") {
            self.contents.lines += 1;
            self.damaged(Damage::TooLong);
        } else {
            self.line(&line, take);
        }
        self.partial = line;
        self.partial.clear();
    }

    fn line(&mut self, line: &[u8], take: &mut impl FnMut(SwfRecord)) {
        self.contents.lines += 1;
        let mut line = line.trim_ascii();
        if self.contents.lines == 1 {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return;
        }
        if let Some(comment) = line.strip_prefix(b";") {
            self.contents.header.read(comment);
            return;
        }
        match self.record(line) {
            Ok(record) => {
                self.contents.records += 1;
                take(record);
            }
            Err(why) => self.damaged(why),
        }
    }

    fn record(&self, line: &[u8]) -> Result<SwfRecord, Damage> {
        let record = SwfRecord::parse(line)?;
        record.check_times()?;
        match (self.conformity, SwfRecord::field_count(line)) {
            (Conformity::Lenient, _) | (Conformity::Strict, super::FIELDS) => Ok(record),
            (Conformity::Strict, found) => Err(Damage::OtherFieldCount { found }),
        }
    }

    fn damaged(&mut self, why: Damage) {
        self.contents.damaged_count += 1;
        if self.contents.damaged.len() < MAX_NAMED_LINES {
            self.contents.damaged.push(DamagedLine { line: self.contents.lines, why });
        }
    }
}

/// The mark that some editors put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(conformity: Conformity, pieces: &[&[u8]]) -> (Vec<SwfRecord>, SwfContents) {
        let mut records = Vec::new();
        let mut reader = SwfReader::new(conformity);
        for piece in pieces {
            reader.push(piece, &mut |record| records.push(record));
        }
        let contents = reader.finish(&mut |record| records.push(record));
        (records, contents)
    }

    const LOG: &[u8] = b"\xef\xbb\xbf; MaxProcs: 8\r\n\r\n1 0 -1 10 4 9.5 -1 4 40 -1 1\r\n\
        broken line\n2 5 -1 1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n; Note: late\n3 6 -1 2";

    #[test]
    fn comments_blank_lines_and_either_line_end_are_read_and_damage_has_its_number() {
        let (records, contents) = read(Conformity::Lenient, &[LOG]);
        assert_eq!(records.iter().map(|record| record.job).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(contents.header.max_procs(), Some(8));
        assert_eq!(contents.header.get("Note"), Some("late"));
        let told: Vec<String> = contents.damaged.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "line 4: field 1 (job number) is \"broken\", which is not a number",
                "line 7: there are 4 fields, and a job needs at least 5",
            ]
        );
        assert_eq!((contents.damaged_count, contents.records, contents.lines), (2, 2, 7));
    }

    #[test]
    fn strict_reading_wants_eighteen_fields() {
        let (records, contents) = read(Conformity::Strict, &[LOG]);
        assert_eq!(records.len(), 1);
        let first = &contents.damaged[0];
        assert_eq!(first.to_string(), "line 3: there are 11 fields, and the format has 18");
    }

    #[test]
    fn an_impossible_time_is_damage() {
        let log = b"1 0 -1 10 4\n2 5000000000 -1 10 4\n3 0 -1 4294967295 4\n4 9 -1 268435456 4\n";
        let (records, contents) = read(Conformity::Lenient, &[log]);
        assert_eq!(records.iter().map(|record| record.job).collect::<Vec<_>>(), [1, 4]);
        let told: Vec<String> = contents.damaged.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "line 2: field 2 (submit time) is \"5000000000\", which is out of range",
                "line 3: field 4 (run time) is \"4294967295\", which is out of range",
            ]
        );
    }

    #[test]
    fn a_line_without_end_costs_a_line_of_memory_and_the_next_one_is_read() {
        let mut reader = SwfReader::default();
        let mut jobs = Vec::new();
        for _ in 0..1_000 {
            reader.push(&[b'7'; 1_000], &mut |record| jobs.push(record));
            assert!(reader.partial.capacity() <= 2 * MAX_LINE_BYTES);
        }
        reader.push(b"\n1 2 3 4 5\n", &mut |record| jobs.push(record));
        let contents = reader.finish(&mut |_| {});
        assert_eq!(contents.damaged, [DamagedLine { line: 1, why: Damage::TooLong }]);
        assert_eq!(jobs.len(), 1);
    }

    #[test]
    fn a_thousand_damaged_lines_are_counted_and_a_hundred_named() {
        let (_, contents) = read(Conformity::Lenient, &[&b"x\n".repeat(1_000)]);
        assert_eq!((contents.damaged.len(), contents.damaged_count), (MAX_NAMED_LINES, 1_000));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_pieces_do_not_matter(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(b'\n'), Just(b' '), Just(b'-'), b'0'..=b'9'],
                0..2_000,
            ),
            cuts in prop::collection::vec(0..2_000_usize, 0..10),
            strict in any::<bool>(),
        ) {
            let conformity = if strict { Conformity::Strict } else { Conformity::Lenient };
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            let (whole, in_pieces) = (read(conformity, &[&bytes]), read(conformity, &pieces));
            // Damage names a field that is no number, so it compares; -1 is a number.
            prop_assert_eq!(whole.1, in_pieces.1);
            prop_assert_eq!(whole.0, in_pieces.0);
        }
    }
}
