//! Our standard output and error, as the job's.

use super::labeller::Labeller;
use crate::failure::Failure;
use std::io;
use storm_rm::Rank;
use storm_rm::message::Stream;
use tokio::io::{AsyncWriteExt, Stderr, Stdout, stderr, stdout};

/// Where the job's output goes: byte for byte, or labelled.
#[derive(Debug)]
pub(super) struct Terminal {
    labeller: Option<Labeller>,
    stdout: Option<Stdout>,
    stderr: Option<Stderr>,
}

impl Terminal {
    /// With a label before each line, or not.
    pub(super) fn new(label: bool) -> Terminal {
        let labeller = label.then(Labeller::default);
        Terminal { labeller, stdout: Some(stdout()), stderr: Some(stderr()) }
    }

    /// Writes what a rank wrote.
    pub(super) async fn write(
        &mut self,
        rank: Rank,
        stream: Stream,
        data: &[u8],
    ) -> Result<(), Failure> {
        match self.labeller.as_mut().map(|labeller| labeller.take(rank, stream, data)) {
            None => self.put(stream, data).await,
            Some(lines) => self.put(stream, &lines).await,
        }
    }

    /// Says something that is not the job's.
    pub(super) async fn note(&mut self, text: &str) -> Result<(), Failure> {
        self.put(Stream::Stderr, format!("storm: {text}\n").as_bytes()).await
    }

    /// Writes the lines that were never ended.
    pub(super) async fn finish(&mut self) -> Result<(), Failure> {
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
