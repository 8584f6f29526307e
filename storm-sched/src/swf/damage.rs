//! The damage of a line of a log.

/// A line that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct DamagedLine {
    /// The number of the line in the file, from 1. Comments and blank lines count.
    pub line: u64,
    /// The damage.
    pub why: Damage,
}

/// The damage of a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A field is not a number.
    #[error("field {number} ({name}) is {text:?}, which is not a number")]
    NotANumber {
        /// The field, from 1.
        number: usize,
        /// The meaning of the field.
        name: &'static str,
        /// The beginning of the field's text.
        text: String,
    },
    /// A field is a number that no log holds.
    #[error("field {number} ({name}) is {text:?}, which is out of range")]
    OutOfRange {
        /// The field, from 1.
        number: usize,
        /// The meaning of the field.
        name: &'static str,
        /// The beginning of the field's text.
        text: String,
    },
    /// The line has too few fields to describe a job.
    #[error("there are {found} fields, and a job needs at least {}", super::MIN_FIELDS)]
    TooFewFields {
        /// The number of fields of the line.
        found: usize,
    },
    /// The line does not have as many fields as the format. Only strict reading reports this
    /// damage.
    #[error("there are {found} fields, and the format has {}", super::FIELDS)]
    OtherFieldCount {
        /// Fields of the line.
        found: usize,
    },
    /// The line is longer than any line of the format.
    #[error("it is longer than {} bytes", super::MAX_LINE_BYTES)]
    TooLong,
}
