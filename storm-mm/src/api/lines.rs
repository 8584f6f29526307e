//! Lines of bounded length, and raw bytes between them, from a byte stream.

use std::io;
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// Bytes read at a time for lines: most lines are shorter, and thousands of connections have a
/// buffer each.
const BUFFER_BYTES: usize = 8 << 10;

/// Why a line could not be read.
#[derive(Debug, Error)]
pub enum LineError {
    /// More bytes than the limit arrived without a line feed.
    #[error("the line is longer than {limit_bytes} bytes")]
    TooLong {
        /// The limit.
        limit_bytes: usize,
    },
    /// The stream ended inside a line or inside raw bytes.
    #[error("the connection ended in the middle")]
    Truncated,
    /// The stream failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
}

/// The first part of a line.
#[derive(Debug)]
pub(super) enum LineStart {
    /// The whole line, without its line feed.
    Whole(Vec<u8>),
    /// The line is longer than requested: [`LineReader::line`] reads the rest.
    Long,
    /// The stream is at its end.
    End,
}

/// Reads lines and raw bytes.
#[derive(Debug)]
pub struct LineReader<R> {
    inner: BufReader<R>,
    limit_bytes: usize,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Lines of at most `limit_bytes`, the line feed not counted.
    pub fn new(inner: R, limit_bytes: usize) -> LineReader<R> {
        let inner = BufReader::with_capacity(BUFFER_BYTES, inner);
        LineReader { inner, limit_bytes, line: Vec::new() }
    }

    /// The next line without its line feed; `None` at the end. Cancelling the call loses no bytes.
    ///
    /// # Errors
    /// See [`LineError`]; after the first error the stream cannot be used.
    pub async fn line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        match self.line_start(usize::MAX).await? {
            LineStart::Whole(line) => Ok(Some(line)),
            LineStart::End => Ok(None),
            LineStart::Long => Err(LineError::TooLong { limit_bytes: self.limit_bytes }),
        }
    }

    /// Whether the next line is here already, so that [`line`](Self::line) does not wait for it.
    pub(super) fn has_line(&self) -> bool {
        self.line.is_empty() && self.inner.buffer().contains(&b'\n')
    }

    /// The next line if it has at most about `short_bytes`. A longer line is not read any further.
    ///
    /// # Errors
    /// Those of [`line`](Self::line).
    pub(super) async fn line_start(&mut self, short_bytes: usize) -> Result<LineStart, LineError> {
        while self.line.len() <= short_bytes {
            let available = self.inner.fill_buf().await?;
            if available.is_empty() {
                let is_end = self.line.is_empty();
                return if is_end { Ok(LineStart::End) } else { Err(LineError::Truncated) };
            }
            let end = available.iter().position(|&byte| byte == b'\n');
            let taken = end.unwrap_or(available.len());
            if self.line.len() + taken > self.limit_bytes {
                return Err(LineError::TooLong { limit_bytes: self.limit_bytes });
            }
            self.line.extend_from_slice(&available[..taken]);
            self.inner.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(LineStart::Whole(std::mem::take(&mut self.line)));
            }
        }
        Ok(LineStart::Long)
    }

    /// Reads raw bytes into `into`: at least one, at most its length. Returns how many.
    ///
    /// # Errors
    /// The stream ended or failed.
    pub(super) async fn raw(&mut self, into: &mut [u8]) -> Result<usize, LineError> {
        // If `into` is larger than the buffer of lines, reads directly into it.
        match self.inner.read(into).await? {
            0 => Err(LineError::Truncated),
            length => Ok(length),
        }
    }
}
