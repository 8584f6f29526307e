//! Writes the job's output and errors to ours.
//!
//! Output that arrives together is written together, because programs write to pipes in pieces of 4
//! KiB, and each write here uses another thread.

use super::labeller::Labeller;
use super::whole_lines::WholeLines;
use crate::failure::{EXIT_STORM_FAILED, Failure};
use crate::standard_streams::StandardOutput;
use std::io;
use std::time::Instant;
use storm_rm::message::Stream;
use storm_rm::{JobId, Rank};
use tokio::task::spawn_blocking;

/// Most output that is held while more is available at once.
const HELD_MAX_BYTES: usize = 128 << 10;

/// How output is changed before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputForm {
    /// Unchanged, as there is only one rank.
    AsItComes,
    /// Lines are held until they are complete.
    WholeLines,
    /// Each line begins with the rank.
    Labelled,
}

impl OutputForm {
    /// The form for a job with this many ranks.
    pub(crate) fn of(procs: u32, label: bool) -> OutputForm {
        match (label, procs) {
            (true, _) => OutputForm::Labelled,
            (false, 0 | 1) => OutputForm::AsItComes,
            (false, _) => OutputForm::WholeLines,
        }
    }
}

/// The destination of the job's output.
#[derive(Debug)]
pub(super) struct Terminal {
    labeller: Option<Labeller>,
    lines: Option<WholeLines>,
    /// `None` once its reader has left.
    stdout: Option<StandardOutput>,
    stderr: Option<StandardOutput>,
    /// Output that is not written yet, all for the same stream.
    held: Vec<u8>,
    held_for: Stream,
    /// The first failure to write.
    failed: Option<(Stream, io::Error)>,
}

impl Terminal {
    /// A destination for output in this form.
    pub(super) fn new(form: OutputForm) -> Terminal {
        let labeller = (form == OutputForm::Labelled).then(Labeller::default);
        let lines = (form == OutputForm::WholeLines).then(WholeLines::default);
        let (stdout, stderr) = (Some(StandardOutput::Stdout), Some(StandardOutput::Stderr));
        let (held, held_for) = (Vec::new(), Stream::Stdout);
        Terminal { labeller, lines, stdout, stderr, held, held_for, failed: None }
    }

    /// Takes output of a rank. Call [`flush`](Self::flush) when no more is available.
    pub(super) async fn write(&mut self, rank: Rank, stream: Stream, data: &[u8]) {
        match (&mut self.labeller, &mut self.lines) {
            (Some(labeller), _) => {
                let lines = labeller.take(rank, stream, data);
                self.hold(stream, &lines).await;
            }
            (None, Some(lines)) => {
                let whole = lines.take((rank, stream), data, Instant::now());
                self.hold(stream, &whole).await;
            }
            (None, None) => self.hold(stream, data).await,
        }
    }

    /// Completes when unfinished lines are due; never if there are none.
    pub(super) async fn overdue(&self) {
        match self.lines.as_ref().and_then(WholeLines::look_at) {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Passes on unfinished lines of ranks that have paused.
    pub(super) async fn pass_on(&mut self) {
        let due = self.lines.as_mut().map(|lines| lines.due(Instant::now()));
        for (stream, unfinished) in due.into_iter().flatten() {
            self.hold(stream, &unfinished).await;
        }
    }

    /// Takes note of whether output of some ranks may come late, since the manager or nodes are
    /// away.
    pub(super) fn may_be_late(&mut self, late: bool) {
        let Some(lines) = &mut self.lines else { return };
        match late {
            true => lines.may_be_late(Instant::now()),
            false => lines.is_in_time(Instant::now()),
        }
    }

    /// Whether there is output that is not written yet.
    pub(super) fn holds_output(&self) -> bool {
        !self.held.is_empty()
    }

    /// Writes the held output.
    pub(super) async fn flush(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.put(self.held_for, &held).await;
        self.held = held;
        self.held.clear();
    }

    async fn hold(&mut self, stream: Stream, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        // Keeps the order of the two streams.
        if stream != self.held_for || self.held.len() + data.len() > HELD_MAX_BYTES {
            self.flush().await;
        }
        self.held_for = stream;
        self.held.extend_from_slice(data);
    }

    /// Writes a note of our own to standard error.
    pub(super) async fn note(&mut self, text: &str) {
        self.say(&format!("storm: {text}")).await;
    }

    /// Writes a line to standard error.
    pub(super) async fn say(&mut self, line: &str) {
        self.flush().await;
        self.put(Stream::Stderr, format!("{line}\n").as_bytes()).await;
    }

    /// Writes the held output and the unfinished lines.
    pub(super) async fn finish(&mut self) {
        self.flush().await;
        let labelled = self.labeller.as_mut().map(Labeller::rest).unwrap_or_default();
        let rest = self.lines.as_mut().map(WholeLines::rest).unwrap_or_default();
        for (stream, line) in labelled.into_iter().chain(rest) {
            self.put(stream, &line).await;
        }
    }

    /// Whether the reader of the job's standard output has left, or writing to it failed.
    pub(super) fn reader_has_left(&self) -> bool {
        self.stdout.is_none() || self.has_failed()
    }

    /// Whether something could not be written.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The failure to write output of this job, which has ended.
    pub(super) fn failure(&self, job: JobId) -> Option<Failure> {
        let (stream, error) = self.failed.as_ref()?;
        let stream = match stream {
            Stream::Stdout => "output",
            Stream::Stderr => "error",
        };
        let text = format!("the output of job {job} cannot be written to standard {stream}");
        let mut failure = Failure::new("output", text)
            .hint("is there space left on its disk? If the job had not ended, it is cancelled")
            .exit(EXIT_STORM_FAILED);
        failure.causes.push(error.to_string());
        Some(failure)
    }

    async fn put(&mut self, stream: Stream, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let result = match stream {
            Stream::Stdout => write(&mut self.stdout, data).await,
            Stream::Stderr => write(&mut self.stderr, data).await,
        };
        if let Err(error) = result {
            self.failed.get_or_insert((stream, error));
        }
    }
}

/// Writes data. A reader that has left (`storm run ... | head`) is not an error.
async fn write(to: &mut Option<StandardOutput>, data: &[u8]) -> io::Result<()> {
    let Some(open) = *to else { return Ok(()) };
    let data = data.to_vec();
    let written = spawn_blocking(move || open.write_whole(&data)).await;
    match written.map_err(io::Error::other).flatten() {
        Ok(()) => Ok(()),
        Err(error) => {
            *to = None;
            if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
        }
    }
}
