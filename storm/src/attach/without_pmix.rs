//! Whether a program of Open MPI says that it found no PMIx server. Nothing else tells of a script or an
//! interpreter that it has loaded Open MPI.

use storm_rm::message::Stream;

/// How Open MPI 4 says so on standard error when ranks may not be jobs by themselves: `OPAL_ERROR_LOG` of
/// `OPAL_ERR_UNREACH` where its client of PMIx begins (`ext3x_client.c`, `pmix3x_client.c`).
const UNREACHABLE: &[u8] = b"OPAL ERROR: Unreachable";

/// Looks at what ranks write.
#[derive(Debug, Default)]
pub(super) struct WithoutPmix {
    said: bool,
}

impl WithoutPmix {
    /// Takes what a rank wrote. Open MPI writes its line at once: it is not looked for over two blocks.
    pub(super) fn look(&mut self, stream: Stream, data: &[u8]) {
        self.said = self.said
            || stream == Stream::Stderr
                && data.windows(UNREACHABLE.len()).any(|part| part == UNREACHABLE);
    }

    /// Whether a rank has said it.
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
