//! The damage of a line of a log.

/// A line that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct DamagedLine {
    /// Its number in the file, from 1; comments and blank lines count.
    pub line: u64,
    /// The damage.
    pub why: Damage,
}

/// The damage of a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Some field is no number.
    #[error("field {number} ({name}) is {text:?}, which is not a number")]
    NotANumber {
        /// The field, from 1.
        number: usize,
        /// The meaning of the field.
        name: &'static str,
        /// The beginning of the field's text.
        text: String,
    },
    /// Some field is a number that no log holds.
    #[error("field {number} ({name}) is {text:?}, which is out of range")]
    OutOfRange {
        /// The field, from 1.
        number: usize,
        /// The meaning of the field.
        name: &'static str,
        /// The beginning of the field's text.
        text: String,
    },
    /// Too few fields to know what the job was.
    #[error("there are {found} fields, and a job needs at least {}", super::MIN_FIELDS)]
    TooFewFields {
        /// Fields of the line.
        found: usize,
    },
    /// Not as many fields as the format has; noted of strict reading only.
    #[error("there are {found} fields, and the format has {}", super::FIELDS)]
    OtherFieldCount {
        /// Fields of the line.
        found: usize,
    },
    /// A line longer than any of the format.
    #[error("it is longer than {} bytes", super::MAX_LINE_BYTES)]
    TooLong,
}
