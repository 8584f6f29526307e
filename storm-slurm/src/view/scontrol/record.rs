//! Lines of keys and values.

/// A record that is being written. `Key=Value` pairs share a line until the next line begins.
#[derive(Debug, Default)]
pub(super) struct Record {
    lines: Vec<String>,
}

impl Record {
    /// Begins a line with a text.
    pub(super) fn line(&mut self, text: impl Into<String>) -> &mut Record {
        // A foreign text with a line feed must not begin a line of its own.
        let safe = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        self.lines.push(text.into().chars().map(safe).collect());
        self
    }

    /// The record on several lines, or on one.
    pub(super) fn text(&self, one_line: bool) -> String {
        match one_line {
            true => self.lines.join(" ") + "\n",
            false => self.lines.join("\n   ") + "\n\n",
        }
    }
}

/// Slurm's text for a text that is not set.
pub(super) const NULL: &str = "(null)";

pub(super) fn or_null(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or(NULL)
}
