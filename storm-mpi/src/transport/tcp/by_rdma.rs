//! Which connections go by RDMA.

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

/// How often what is under way is looked at by who sleeps, or waits for others. Of a request that has failed an adapter
/// tells by itself. Soft-RoCE does not where only arrivals were asked for, and where its network was taken out requests
/// neither complete nor fail.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

impl Tcp {
    /// From now on bytes go by RDMA where the other rank has an adapter, too; `only`: or not at all.
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

    /// What the adapter calls a connection that it has news of, if there is another.
    pub(in crate::transport) fn next_of_adapter(&self) -> io::Result<Option<usize>> {
        self.adapter.as_ref().map_or(Ok(None), Adapter::next_news)
    }

    /// Looks at the connection that the adapter has named: tells whose it is. It may be gone, and another in its
    /// place, of which there is nothing new.
    pub(in crate::transport) fn hear_adapter(&mut self, name: usize) -> Result<Option<Rank>, Lost> {
        let Some(Some(connection)) = self.connections.get_mut(name) else { return Ok(None) };
        let Standing::Open(peer) = connection.standing else { return Ok(None) };
        connection.has_news_by_rdma().map(|()| Some(peer)).map_err(|error| Lost { peer, error })
    }

    /// How long a sleep may last at most, where it is not for ever.
    pub(in crate::transport) fn longest_sleep(&self) -> Option<Duration> {
        self.adapter.as_ref().map(|_| BETWEEN_LOOKS)
    }

    /// Looks at what is under way by RDMA, if it is time to: tells of whom there is news.
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

    /// What this rank says first on a connection that it dials, and what it offers in it.
    pub(super) fn hello(&self, slot: SlotIndex) -> io::Result<(Vec<u8>, Option<Pair>)> {
        let plain = || hello(self.token, self.me).to_vec();
        let Some(adapter) = &self.adapter else { return Ok((plain(), None)) };
        match adapter.pair(slot.0 as usize) {
            Ok(pair) => {
                Ok((hello_offering(self.token, self.me, &adapter.offer(&pair)), Some(pair)))
            }
            Err(error) if self.only_rdma => Err(told_whole(&error)),
            // Without memory for it, it goes by the socket.
            Err(_) => Ok((plain(), None)),
        }
    }

    /// The half that answers an offer, and what the other end has to know of it. `None`: by the socket.
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
            // Without memory for it, or a way from one device to the other, it goes by the socket.
            Err(_) => Ok(None),
        }
    }

    /// A connection that is open goes by RDMA if it has to.
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

/// An error with what it comes from, in one line.
fn told_whole(error: &VerbsError) -> io::Error {
    let source = error.source().map(|source| format!(": {source}"));
    io::Error::other(format!("by RDMA: {error}{}", source.unwrap_or_default()))
}
