//! Our standard output and error, as the job's.
//!
//! What comes together is written together: programs write to pipes by 4 KiB, and each write
//! here goes by way of a thread of its own.

use super::labeller::Labeller;
use crate::failure::{EXIT_STORM_FAILED, Failure};
use crate::standard_streams::StandardOutput;
use std::io;
use storm_rm::message::Stream;
use storm_rm::{JobId, Rank};
use tokio::task::spawn_blocking;

/// Output that is held at most, until there is no more of it to be had at once.
const HELD_MAX_BYTES: usize = 128 << 10;

/// Where the job's output goes: byte for byte, or labelled.
#[derive(Debug)]
pub(super) struct Terminal {
    labeller: Option<Labeller>,
    /// As long as somebody reads it.
    stdout: Option<StandardOutput>,
    stderr: Option<StandardOutput>,
    /// What is still to be written, all to one stream.
    held: Vec<u8>,
    held_for: Stream,
    /// What could not be written first.
    failed: Option<(Stream, io::Error)>,
}

impl Terminal {
    /// With a label before each line, or not.
    pub(super) fn new(label: bool) -> Terminal {
        let labeller = label.then(Labeller::default);
        let (stdout, stderr) = (Some(StandardOutput::Stdout), Some(StandardOutput::Stderr));
        let (held, held_for) = (Vec::new(), Stream::Stdout);
        Terminal { labeller, stdout, stderr, held, held_for, failed: None }
    }

    /// Takes what a rank wrote: [`flush`](Self::flush) is due when nothing more is there.
    pub(super) async fn write(&mut self, rank: Rank, stream: Stream, data: &[u8]) {
        match self.labeller.as_mut().map(|labeller| labeller.take(rank, stream, data)) {
            None => self.hold(stream, data).await,
            Some(lines) => self.hold(stream, &lines).await,
        }
    }

    /// Whether something is still to be written.
    pub(super) fn holds_output(&self) -> bool {
        !self.held.is_empty()
    }

    /// Writes what is held.
    pub(super) async fn flush(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.put(self.held_for, &held).await;
        self.held = held;
        self.held.clear();
    }

    async fn hold(&mut self, stream: Stream, data: &[u8]) {
        // The order of the two streams is the job's.
        if stream != self.held_for || self.held.len() + data.len() > HELD_MAX_BYTES {
            self.flush().await;
        }
        self.held_for = stream;
        self.held.extend_from_slice(data);
    }

    /// Says something that is not the job's.
    pub(super) async fn note(&mut self, text: &str) {
        self.flush().await;
        self.put(Stream::Stderr, format!("storm: {text}\n").as_bytes()).await;
    }

    /// Writes what is held, and the lines that were never ended.
    pub(super) async fn finish(&mut self) {
        self.flush().await;
        let rest = self.labeller.as_mut().map(Labeller::rest).unwrap_or_default();
        for (stream, line) in rest {
            self.put(stream, &line).await;
        }
    }

    /// Nobody reads the job's standard output any more, or nobody can.
    pub(super) fn reader_has_left(&self) -> bool {
        self.stdout.is_none() || self.has_failed()
    }

    /// Something could not be written.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// What could not be written of this job, which has ended.
    pub(super) fn failure(&self, job: JobId) -> Option<Failure> {
        let (stream, error) = self.failed.as_ref()?;
        let stream = match stream {
            Stream::Stdout => "output",
            Stream::Stderr => "error",
        };
        let text = format!("what job {job} writes cannot be written to standard {stream}");
        let mut failure = Failure::new("output", text)
            .hint("is there room where it goes? A job that had not ended is cancelled")
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

/// A reader that has left (`storm run ... | head`) wants no more.
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
