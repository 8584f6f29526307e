//! Joins the parts of reports; each incarnation of a node has an assembly of its own.

use storm_rm::message::{MAX_REPORT_BYTES, Report};
use thiserror::Error;

/// The parts of a report that have arrived so far.
#[derive(Debug, Default)]
pub(super) struct Parts {
    bytes: Vec<u8>,
    /// Whether the report was too long, so that its remaining parts are skipped.
    skips: bool,
}

/// Why parts do not form a report.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum PartsError {
    /// The parts are too long together.
    #[error("a report of a node is longer than {MAX_REPORT_BYTES} bytes")]
    TooLong,
    /// The parts do not decode.
    #[error("the parts of a report do not fit together")]
    Garbled,
}

impl Parts {
    /// Takes the next report or part; returns a report once it is complete.
    pub(super) fn take(&mut self, report: Report) -> Result<Option<Report>, PartsError> {
        let Report::Part { bytes, last } = report else {
            let cut = !std::mem::take(&mut self.bytes).is_empty();
            self.skips = false;
            return if cut { Err(PartsError::Garbled) } else { Ok(Some(report)) };
        };
        let (began, skips) = (self.bytes.len(), self.skips);
        self.skips = (skips || began + bytes.len() > MAX_REPORT_BYTES) && !last;
        if skips || began + bytes.len() > MAX_REPORT_BYTES {
            self.bytes = Vec::new();
            return if skips { Ok(None) } else { Err(PartsError::TooLong) };
        }
        self.bytes.extend_from_slice(&bytes);
        if !last {
            return Ok(None);
        }
        let whole = std::mem::take(&mut self.bytes);
        match postcard::from_bytes(&whole) {
            Ok(Report::Part { .. }) | Err(_) => Err(PartsError::Garbled),
            Ok(report) => Ok(Some(report)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_rm::{JobId, StepRef};

    fn fence(len: usize) -> Report {
        let puts = vec![("key".to_owned(), "v".repeat(len))];
        Report::Fence { step: StepRef::program(JobId(1)), sequence: 1, puts }
    }

    fn part(bytes: &[u8], last: bool) -> Report {
        Report::Part { bytes: bytes.to_vec().into(), last }
    }

    #[test]
    fn a_message_in_parts_arrives_unchanged() {
        let (report, mut parts) = (fence(1000), Parts::default());
        let encoded = postcard::to_stdvec(&report).expect("encodes");
        let (first, rest) = encoded.split_at(400);
        assert_eq!(parts.take(part(first, false)), Ok(None));
        assert_eq!(parts.take(part(rest, true)), Ok(Some(report.clone())));
        assert_eq!(parts.take(report.clone()), Ok(Some(report)));
    }

    #[test]
    fn nonsense_is_told_once_and_forgotten() {
        let (report, mut parts) = (fence(10), Parts::default());
        assert_eq!(parts.take(part(&[255; 9], true)), Err(PartsError::Garbled));
        assert_eq!(parts.take(part(&[1], false)), Ok(None));
        assert_eq!(parts.take(report.clone()), Err(PartsError::Garbled));
        let nested = postcard::to_stdvec(&part(&[1], true)).expect("encodes");
        assert_eq!(parts.take(part(&nested, true)), Err(PartsError::Garbled));
        let long = vec![0; MAX_REPORT_BYTES];
        assert_eq!(parts.take(part(&long, false)), Ok(None));
        assert_eq!(parts.take(part(&long, false)), Err(PartsError::TooLong));
        assert_eq!(parts.take(part(&long, false)), Ok(None));
        assert_eq!(parts.take(part(&long, true)), Ok(None));
        assert_eq!(parts.take(report.clone()), Ok(Some(report)));
    }
}
