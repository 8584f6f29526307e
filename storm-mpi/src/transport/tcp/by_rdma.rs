//! The choice of connections that use RDMA.

use super::{Lost, SlotIndex, Tcp};
use crate::rank::Rank;
use crate::transport::connection::{Connection, Standing};
use crate::transport::greeting::{hello, hello_offering};
use crate::transport::poller::{Poller, Watched};
use crate::transport::rdma::{Adapter, Offer, Pair};
use std::error::Error;
use std::io;
use std::time::{Duration, Instant};
use storm_verbs::VerbsError;

/// Interval between checks of requests under way, for a rank that sleeps or waits for others. An
/// adapter reports a failed request by itself. Soft-RoCE does not if only arrivals were requested;
/// if its network was removed, requests neither complete nor fail.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

impl Tcp {
    /// From now on, bytes use RDMA if the other rank has an adapter too. With `only`, they use RDMA
    /// or fail.
    pub(in crate::transport) fn use_adapter(
        &mut self,
        adapter: Adapter,
        only: bool,
        poller: &Poller,
    ) -> io::Result<()> {
        poller.watch(&adapter, Watched::Adapter, false)?;
        (self.adapter, self.only_rdma) = (Some(adapter), only);
        Ok(())
    }

    /// The adapter's name for the next connection with news, if there is any.
    pub(in crate::transport) fn next_of_adapter(&self) -> io::Result<Option<usize>> {
        self.adapter.as_ref().map_or(Ok(None), Adapter::next_news)
    }

    /// Checks the connection that the adapter has named. Returns the rank to which it belongs. The
    /// connection may be gone, with another without news in its place.
    pub(in crate::transport) fn hear_adapter(&mut self, name: usize) -> Result<Option<Rank>, Lost> {
        let Some(Some(connection)) = self.connections.get_mut(name) else { return Ok(None) };
        let Standing::Open(peer) = connection.standing else { return Ok(None) };
        connection.has_news_by_rdma().map(|()| Some(peer)).map_err(|error| Lost { peer, error })
    }

    /// Longest time that a sleep may last, if it is limited.
    pub(in crate::transport) fn longest_sleep(&self) -> Option<Duration> {
        self.adapter.as_ref().map(|_| BETWEEN_LOOKS)
    }

    /// Checks requests under way by RDMA, if a check is due. Returns the ranks with news.
    pub(in crate::transport) fn look_at_requests(
        &mut self,
        mut news: impl FnMut(Rank),
    ) -> Result<(), Lost> {
        let Some(adapter) = &self.adapter else { return Ok(()) };
        let now = Instant::now();
        if self.looked.is_some_and(|last| now.duration_since(last) < BETWEEN_LOOKS) {
            return Ok(());
        }
        self.looked = Some(now);
        for connection in self.connections.iter_mut().flatten() {
            if let (Standing::Open(peer), Some(pair)) = (connection.standing, connection.pair_mut())
            {
                let looked = pair.look_at_requests(|| adapter.is_there());
                if looked.map_err(|error| Lost { peer, error })? {
                    news(peer);
                }
            }
        }
        Ok(())
    }

    /// This rank's hello on a connection that it dials, and the pair that the hello offers.
    pub(super) fn hello(&self, slot: SlotIndex) -> io::Result<(Vec<u8>, Option<Pair>)> {
        let plain = || hello(self.token, self.me).to_vec();
        let Some(adapter) = &self.adapter else { return Ok((plain(), None)) };
        match adapter.pair(slot.0 as usize) {
            Ok(pair) => {
                Ok((hello_offering(self.token, self.me, &adapter.offer(&pair)), Some(pair)))
            }
            Err(error) if self.only_rdma => Err(told_whole(&error)),
            // Without memory for a pair, the connection uses its socket.
            Err(_) => Ok((plain(), None)),
        }
    }

    /// The half that answers an offer, and its own offer. `None` means that the connection uses its
    /// socket.
    pub(super) fn joined(
        &self,
        theirs: Offer,
        slot: SlotIndex,
    ) -> io::Result<Option<(Pair, Offer)>> {
        let Some(adapter) = &self.adapter else { return Ok(None) };
        let made = adapter.pair(slot.0 as usize).map_err(|error| told_whole(&error));
        let joined = made.and_then(|mut pair| {
            adapter.join(&mut pair, theirs)?;
            let own = adapter.offer(&pair);
            Ok((pair, own))
        });
        match joined {
            Ok(joined) => Ok(Some(joined)),
            Err(error) if self.only_rdma => Err(error),
            // Without memory for a pair, or a path from one device to the other, the connection
            // uses its socket.
            Err(_) => Ok(None),
        }
    }

    /// Fails if an open connection does not use RDMA although it must.
    pub(super) fn check_way(&self, slot: SlotIndex) -> io::Result<()> {
        let by_socket = |c: &Connection| matches!(c.standing, Standing::Open(_)) && !c.is_by_rdma();
        match &self.connections[slot.0 as usize] {
            Some(connection) if self.only_rdma && by_socket(connection) => Err(io::Error::other(
                "it has no RDMA device, no memory for a queue pair, or no way to this one's",
            )),
            _ => Ok(()),
        }
    }
}

/// An error with its sources, in one line.
fn told_whole(error: &VerbsError) -> io::Error {
    let source = error.source().map(|source| format!(": {source}"));
    io::Error::other(format!("by RDMA: {error}{}", source.unwrap_or_default()))
}
