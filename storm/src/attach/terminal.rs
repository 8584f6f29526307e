//! Our standard output and error, as the job's.
//!
//! What comes together is written together: programs write to pipes by 4 KiB, and each write
//! here goes by way of a thread of its own.

use super::labeller::Labeller;
use crate::failure::Failure;
use std::io;
use storm_rm::Rank;
use storm_rm::message::Stream;
use tokio::io::{AsyncWriteExt, Stderr, Stdout, stderr, stdout};

/// Output that is held at most, until there is no more of it to be had at once.
const HELD_MAX_BYTES: usize = 128 << 10;

/// Where the job's output goes: byte for byte, or labelled.
#[derive(Debug)]
pub(super) struct Terminal {
    labeller: Option<Labeller>,
    stdout: Option<Stdout>,
    stderr: Option<Stderr>,
    /// What is still to be written, all to one stream.
    held: Vec<u8>,
    held_for: Stream,
}

impl Terminal {
    /// With a label before each line, or not.
    pub(super) fn new(label: bool) -> Terminal {
        let labeller = label.then(Labeller::default);
        let (stdout, stderr) = (Some(stdout()), Some(stderr()));
        Terminal { labeller, stdout, stderr, held: Vec::new(), held_for: Stream::Stdout }
    }

    /// Takes what a rank wrote: [`flush`](Self::flush) is due when nothing more is there.
    pub(super) async fn write(
        &mut self,
        rank: Rank,
        stream: Stream,
        data: &[u8],
    ) -> Result<(), Failure> {
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
    pub(super) async fn flush(&mut self) -> Result<(), Failure> {
        let held = std::mem::take(&mut self.held);
        let written = self.put(self.held_for, &held).await;
        self.held = held;
        self.held.clear();
        written
    }

    async fn hold(&mut self, stream: Stream, data: &[u8]) -> Result<(), Failure> {
        // The order of the two streams is the job's.
        if stream != self.held_for || self.held.len() + data.len() > HELD_MAX_BYTES {
            self.flush().await?;
        }
        self.held_for = stream;
        self.held.extend_from_slice(data);
        Ok(())
    }

    /// Says something that is not the job's.
    pub(super) async fn note(&mut self, text: &str) -> Result<(), Failure> {
        self.flush().await?;
        self.put(Stream::Stderr, format!("storm: {text}\n").as_bytes()).await
    }

    /// Writes what is held, and the lines that were never ended.
    pub(super) async fn finish(&mut self) -> Result<(), Failure> {
        self.flush().await?;
        let rest = self.labeller.as_mut().map(Labeller::rest).unwrap_or_default();
        for (stream, line) in rest {
            self.put(stream, &line).await?;
        }
        Ok(())
    }

    /// Nobody reads the job's standard output any more.
    pub(super) fn reader_has_left(&self) -> bool {
        self.stdout.is_none()
    }

    async fn put(&mut self, stream: Stream, data: &[u8]) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        let result = match stream {
            Stream::Stdout => write(&mut self.stdout, data).await,
            Stream::Stderr => write(&mut self.stderr, data).await,
        };
        result.map_err(|error| {
            Failure::of("output", &error).hint("is there room where the output goes?")
        })
    }
}

/// A reader that has left (`storm run ... | head`) wants no more.
async fn write<W: AsyncWriteExt + Unpin>(to: &mut Option<W>, data: &[u8]) -> io::Result<()> {
    let Some(open) = to else { return Ok(()) };
    let written = async {
        open.write_all(data).await?;
        open.flush().await
    };
    match written.await {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            *to = None;
            Ok(())
        }
        result => result,
    }
}
