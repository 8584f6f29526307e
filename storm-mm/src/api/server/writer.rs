//! Writes a client's replies in order, several at a time when several wait.

use crate::api::halves::WriteHalf;
use crate::api::outgoing::{Life, Outgoing};
use crate::api::{
    Hello, JOBS_PER_LINE, MAX_OUTPUT_EVENT_BYTES, MAX_REPLY_LINE_BYTES, Reply, ReplyLine,
    ReplyStream,
};
use std::future::poll_fn;
use std::io;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

/// Waiting lines are written together, up to about this many bytes.
const BATCH_BYTES: usize = 64 << 10;
/// A client must take each piece of this size within its time.
const PIECE_BYTES: usize = 16 << 10;

/// Writes until there are no further replies.
///
/// # Errors
/// The client has disconnected, or was dropped because it does not read. A dropped client has taken
/// nothing for `patience`, or is owed far too much.
pub(super) async fn write_replies(
    replies: &ReplyStream,
    mut to: WriteHalf,
    patience: Duration,
) -> io::Result<()> {
    let mut batch = serde_json::to_vec(&Hello::ours())?;
    batch.push(b'\n');
    loop {
        for piece in batch.chunks(PIECE_BYTES) {
            write_piece(piece, &mut to, &replies.outgoing, patience).await?;
        }
        // Most clients are idle most of the time, so the memory is freed.
        batch = Vec::new();
        replies.outgoing.written();
        let Some(line) = replies.next().await else {
            return to.shutdown().await;
        };
        encode(line, &mut batch)?;
        while batch.len() < BATCH_BYTES
            && let Some(line) = replies.outgoing.pop_ready()
        {
            encode(line, &mut batch)?;
        }
    }
}

async fn write_piece(
    piece: &[u8],
    to: &mut WriteHalf,
    outgoing: &Outgoing,
    patience: Duration,
) -> io::Result<()> {
    let mut write = std::pin::pin!(async {
        to.write_all(piece).await?;
        to.flush().await
    });
    loop {
        tokio::select! {
            // A piece that the client has taken counts, however long it took.
            biased;
            written = &mut write => return written,
            () = poll_fn(|context| outgoing.poll_closed(context, false)) => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            () = sleep(patience) => {
                // A client that follows a job may pause: its output is held back until it reads
                // again.
                if !outgoing.is_following() {
                    outgoing.end(Life::TooSlow);
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
    }
}

/// Appends the line, or several lines if the reply is too large for one line.
fn encode(line: ReplyLine, to: &mut Vec<u8>) -> io::Result<()> {
    let ReplyLine { id, reply } = line;
    match reply {
        Reply::Jobs { mut jobs, more } => {
            while jobs.len() > JOBS_PER_LINE {
                let rest = jobs.split_off(JOBS_PER_LINE);
                append(id, Reply::Jobs { jobs, more: true }, to)?;
                jobs = rest;
            }
            append(id, Reply::Jobs { jobs, more }, to)
        }
        Reply::Output { job, run, rank, stream, mut offset, mut data } => {
            while data.len() > MAX_OUTPUT_EVENT_BYTES {
                let first = data.split_to(MAX_OUTPUT_EVENT_BYTES);
                let len = first.len() as u64;
                append(id, Reply::Output { job, run, rank, stream, offset, data: first }, to)?;
                offset = offset.saturating_add(len);
            }
            append(id, Reply::Output { job, run, rank, stream, offset, data }, to)
        }
        other => append(id, other, to),
    }
}

fn append(id: u64, reply: Reply, to: &mut Vec<u8>) -> io::Result<()> {
    let before = to.len();
    serde_json::to_writer(&mut *to, &ReplyLine { id, reply })?;
    debug_assert!(to.len() - before <= MAX_REPLY_LINE_BYTES, "a reply outgrew its line");
    to.push(b'\n');
    Ok(())
}
