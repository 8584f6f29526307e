//! Collectives of members that are neighbours in a grid (MPI-4.1, section 8.6).

use super::{Blocks, BlocksMut, Party, Step};
use crate::envelope::SendMode;
use crate::error::CommError;

impl Party<'_> {
    /// Sends each neighbour its block of `from`, and receives one from each.
    ///
    /// Neighbours are, for each dimension of a grid, that below and that above; `None` beyond its edges,
    /// where blocks are left alone. In a short ring both may be the same member, or this one.
    ///
    /// # Errors
    /// As [`Party::gather`].
    pub async fn exchange(
        &self,
        neighbours: &[Option<usize>],
        from: Blocks<'_>,
        into: &mut BlocksMut<'_>,
    ) -> Result<(), CommError> {
        // What goes up comes from below.
        let steps = |at: usize| match at.is_multiple_of(2) {
            true => (Step::ToLower, Step::ToUpper),
            false => (Step::ToUpper, Step::ToLower),
        };
        let there = || neighbours.iter().enumerate().filter_map(|(at, &who)| Some((at, who?)));
        let mut requests = Vec::with_capacity(2 * neighbours.len());
        for (at, member) in there() {
            let pattern = self.pattern(member, steps(at).1)?;
            let place = into.of(at);
            // SAFETY: both stay borrowed until `finish` has waited for all, or the engine ended.
            requests.push(unsafe {
                self.process.start_recv(pattern, place.as_mut_ptr(), place.len())?
            });
        }
        for (at, member) in there() {
            let address = self.address(member, steps(at).0)?;
            let block = from.of(at);
            // SAFETY: as above.
            requests.push(unsafe {
                let (start, bytes) = (block.as_ptr(), block.len());
                self.process.start_send(address, SendMode::Standard, start, bytes)?
            });
        }
        self.finish(&requests).await
    }
}
