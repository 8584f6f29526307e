//! Detects that a program of Open MPI reports a missing PMIx server. No other sign shows that a
//! script or an interpreter has loaded Open MPI.

use storm_rm::message::Stream;

/// The message of Open MPI 4 on standard error when ranks may not run as jobs of their own:
/// `OPAL_ERROR_LOG` of `OPAL_ERR_UNREACH` where its PMIx client starts (`ext3x_client.c`,
/// `pmix3x_client.c`).
const UNREACHABLE: &[u8] = b"OPAL ERROR: Unreachable";

/// Searches for the message in the output of ranks.
#[derive(Debug, Default)]
pub(super) struct WithoutPmix {
    said: bool,
}

impl WithoutPmix {
    /// Takes output of a rank. Open MPI writes its line in one piece, so blocks are searched one by
    /// one.
    pub(super) fn look(&mut self, stream: Stream, data: &[u8]) {
        self.said = self.said
            || stream == Stream::Stderr
                && data.windows(UNREACHABLE.len()).any(|part| part == UNREACHABLE);
    }

    /// Whether a rank has written the message.
    pub(super) fn was_said(&self) -> bool {
        self.said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_line_on_standard_error_counts() {
        let said = |stream, text: &str| {
            let mut without = WithoutPmix::default();
            without.look(stream, b"first\n");
            without.look(stream, text.as_bytes());
            without.look(stream, b"last\n");
            without.was_said()
        };
        let line = "[n1:7] OPAL ERROR: Unreachable in file ext3x_client.c at line 112\n";
        assert!(said(Stream::Stderr, line));
        assert!(!said(Stream::Stdout, line));
        assert!(!said(Stream::Stderr, "OPAL ERROR: Unreach"));
    }
}
