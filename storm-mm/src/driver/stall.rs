//! Detects a transfer that hangs. A Node Manager that runs and answers may have a disk that hangs,
//! and the job would wait for the disk for ever.

use bytes::Bytes;
use std::cell::Cell;
use std::io;
use std::time::Duration;
use storm_primitives::{Instant, Runtime};
use storm_rm::ContentSum;
use storm_rm::file_transfer::ChunkSource;

/// A transfer hangs if no chunk has left for this long. Once the slots are full, a chunk leaves
/// each time that the nodes have written one. Writing a chunk takes milliseconds, on an overrun
/// disk seconds.
pub(super) const STALL_LIMIT: Duration = Duration::from_secs(60);

/// When a transfer moved last.
pub(super) struct Movement {
    last: Cell<Instant>,
}

impl Movement {
    pub(super) fn begin(now: Instant) -> Movement {
        Movement { last: Cell::new(now) }
    }

    /// Returns when nothing has moved for [`STALL_LIMIT`].
    pub(super) async fn stalled(&self, runtime: &impl Runtime) {
        while runtime.now() - self.last.get() < STALL_LIMIT {
            runtime.sleep_until(self.last.get() + STALL_LIMIT).await;
        }
    }
}

/// A source that records its reads as movement.
pub(super) struct MovingSource<'a, S, R> {
    pub(super) source: S,
    pub(super) movement: &'a Movement,
    pub(super) runtime: R,
}

impl<S: ChunkSource, R: Runtime> ChunkSource for MovingSource<'_, S, R> {
    async fn read(&mut self, len: usize) -> io::Result<Bytes> {
        let chunk = self.source.read(len).await;
        self.movement.last.set(self.runtime.now());
        chunk
    }

    fn sum(&self) -> Option<ContentSum> {
        self.source.sum()
    }
}
