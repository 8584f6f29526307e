//! The comments at the head of a log: labels with values.

use std::fmt;

/// The most labelled comments that are kept. Archive logs have a few dozen.
pub const MAX_HEADER_ENTRIES: usize = 1_000;

/// Labelled comments in the order of the log (`; MaxProcs: 100`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwfHeader {
    entries: Vec<(String, String)>,
}

impl SwfHeader {
    /// The labels with their values, in order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(label, value)| (label.as_str(), value.as_str()))
    }

    /// The first value of a label. The label's letters may have any case.
    #[must_use]
    pub fn get(&self, label: &str) -> Option<&str> {
        self.entries().find(|(known, _)| known.eq_ignore_ascii_case(label)).map(|(_, value)| value)
    }

    /// Adds a label at the end, unless there are [`MAX_HEADER_ENTRIES`].
    pub fn push(&mut self, label: impl Into<String>, value: impl Into<String>) {
        if self.entries.len() < MAX_HEADER_ENTRIES {
            self.entries.push((label.into(), value.into()));
        }
    }

    /// The processors of the machine (`MaxProcs`), if the log gives a number above 0.
    #[must_use]
    pub fn max_procs(&self) -> Option<u32> {
        self.count("MaxProcs")
    }

    /// The nodes of the machine (`MaxNodes`), likewise.
    #[must_use]
    pub fn max_nodes(&self) -> Option<u32> {
        self.count("MaxNodes")
    }

    /// When the log begins, in seconds since 1970 (`UnixStartTime`).
    #[must_use]
    pub fn unix_start_time_s(&self) -> Option<i64> {
        self.get("UnixStartTime")?.split_whitespace().next()?.parse().ok()
    }

    /// Takes a comment, without its semicolon. A comment without a label is ignored.
    pub(super) fn read(&mut self, comment: &[u8]) {
        let text = String::from_utf8_lossy(comment);
        let Some((label, value)) = text.trim_start_matches([';', ' ', '\t']).split_once(':') else {
            return;
        };
        let label = label.trim();
        if !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric()) {
            self.push(label, value.trim());
        }
    }

    /// The number at the beginning of a label's value. Some logs add an explanation behind the
    /// number.
    fn count(&self, label: &str) -> Option<u32> {
        let values = self.entries().filter(|(known, _)| known.eq_ignore_ascii_case(label));
        let numbers = values.filter_map(|(_, value)| {
            let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
            value[..digits].parse().ok()
        });
        numbers.into_iter().find(|count| *count > 0)
    }
}

impl fmt::Display for SwfHeader {
    /// Writes one line for each label.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries().try_for_each(|(label, value)| writeln!(f, "; {label}: {value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_the_archive_are_understood() {
        let mut header = SwfHeader::default();
        for comment in [
            " Version: 2.2",
            " a remark: with a colon",
            "MaxProcs:1024",
            "\tMaxNodes:   144 (8 processors each)",
            " UnixStartTime: 843480031",
            "; Note: twice a semicolon",
            "",
            "no label",
        ] {
            header.read(comment.as_bytes());
        }
        assert_eq!((header.max_procs(), header.max_nodes()), (Some(1024), Some(144)));
        assert_eq!(header.unix_start_time_s(), Some(843_480_031));
        assert_eq!(header.get("note"), Some("twice a semicolon"));
        assert_eq!(header.entries().count(), 5);
    }

    #[test]
    fn an_invalid_processor_count_is_none() {
        let mut header = SwfHeader::default();
        for value in ["-1", "0", "unknown", "99999999999"] {
            header.read(format!(" MaxProcs: {value}").as_bytes());
        }
        assert_eq!(header.max_procs(), None);
        header.read(b" MaxProcs: 128");
        assert_eq!(header.max_procs(), Some(128));
    }
}
