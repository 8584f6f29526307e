//! Collectives in which all members get data from all: barrier, allgather, all-to-all.

use super::blocks::in_a_row;
use super::rooted::copy;
use super::{Blocks, BlocksMut, Party, Step};
use crate::envelope::SendMode;
use crate::error::CommError;
use crate::segment::Call;

/// Largest block that is gathered at one member and broadcast, in `2 (n - 1)` messages. Longer
/// blocks are passed round a ring in `n (n - 1)` messages, and no member carries more than another.
const GATHERED_MAX_BYTES: usize = 8 << 10;

impl Party<'_> {
    /// Returns when every member has called it.
    ///
    /// # Errors
    /// [`CommError`].
    pub async fn barrier(&self) -> Result<(), CommError> {
        if self.in_slices(0, Call::Barrier)?.is_some() {
            return Ok(());
        }
        if self.one_at_once(0) {
            return self.meet_at_once().await;
        }
        let nothing: &mut [u8] = &mut [];
        if self.are_two() {
            return self.swap(&[], nothing).await;
        }
        let tree = self.tree(0);
        for child in tree.children() {
            self.take(nothing, child, Step::Up).await?;
        }
        if let Some(parent) = tree.parent() {
            self.give(nothing, parent, Step::Up).await?;
        }
        self.down(&tree, nothing, Step::Release).await
    }

    /// Brings every member's block to all. The own block is `mine`, or already in its place when
    /// `mine` is `None`. All members pass places of the same lengths.
    ///
    /// # Errors
    /// Like [`Party::gather`].
    pub async fn allgather(
        &self,
        mine: Option<&[u8]>,
        into: &mut BlocksMut<'_>,
    ) -> Result<(), CommError> {
        if let Some(mine) = mine {
            copy(mine, into.of(self.me))?;
        }
        // Lengths are the same at all members, so all members decide alike.
        if self.all_at_once(into.largest()) {
            return self.allgather_at_once(into).await;
        }
        // In a ring of two, each member gives its own block to the other.
        if into.largest() > GATHERED_MAX_BYTES || self.are_two() {
            return self.around(into).await;
        }
        let places = in_a_row((0..self.size()).map(|member| into.bytes_of(member)));
        let mut all = vec![0; places.last().map_or(0, |place| place.end)];
        let own = into.of(self.me).to_vec();
        self.gather(Some(&own), Some(&mut BlocksMut::new(&mut all, &places)?), 0).await?;
        self.bcast(&mut all, 0).await?;
        for (member, place) in places.iter().enumerate() {
            copy(&all[place.clone()], into.of(member))?;
        }
        Ok(())
    }

    /// Sends each member its block of `from`, and receives one from each.
    ///
    /// # Errors
    /// Like [`Party::gather`].
    pub async fn alltoall(
        &self,
        from: Blocks<'_>,
        into: &mut BlocksMut<'_>,
    ) -> Result<(), CommError> {
        let size = self.size();
        let mut requests = Vec::with_capacity(2 * size);
        // Each member begins with its neighbour, so that no member is the first of all others.
        for member in (1..size).map(|step| (self.me + size - step) % size) {
            let pattern = self.pattern(member, Step::Exchange)?;
            let place = into.of(member);
            // SAFETY: both stay borrowed until `finish` has waited for all, or the engine ended.
            requests.push(unsafe {
                self.process.start_recv(pattern, place.as_mut_ptr(), place.len())?
            });
        }
        for member in (1..size).map(|step| (self.me + step) % size) {
            let address = self.address(member, Step::Exchange)?;
            let block = from.of(member);
            // SAFETY: as above.
            requests.push(unsafe {
                let (start, bytes) = (block.as_ptr(), block.len());
                self.process.start_send(address, SendMode::Standard, start, bytes)?
            });
        }
        let own = copy(from.of(self.me), into.of(self.me));
        self.finish(&requests).await.and(own)
    }

    /// Passes blocks round the ring: each step passes on one block, first the own, then those
    /// received.
    pub(super) async fn around(&self, into: &mut BlocksMut<'_>) -> Result<(), CommError> {
        let size = self.size();
        let (next, previous) = ((self.me + 1) % size, (self.me + size - 1) % size);
        for step in 0..size - 1 {
            let received = (self.me + size - step - 1) % size;
            let passed_on = (self.me + size - step) % size;
            let place = into.of(received);
            let (place, room) = (place.as_mut_ptr(), place.len());
            let block = into.of(passed_on);
            let (block, bytes) = (block.as_ptr(), block.len());
            let pattern = self.pattern(previous, Step::Around)?;
            let address = self.address(next, Step::Around)?;
            // SAFETY: `into` stays borrowed until `finish` has waited for both, or the engine
            // ended.
            let requests = unsafe {
                let recv = self.process.start_recv(pattern, place, room)?;
                let send = self.process.start_send(address, SendMode::Standard, block, bytes)?;
                [recv, send]
            };
            self.finish(&requests).await?;
        }
        Ok(())
    }
}
