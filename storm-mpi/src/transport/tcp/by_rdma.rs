//! Which connections go by RDMA.

use super::{Lost, SlotIndex, Tcp};
use crate::rank::Rank;
use crate::transport::connection::{Connection, Standing};
use crate::transport::greeting::{hello, hello_offering};
use crate::transport::poller::{Poller, Watched};
use crate::transport::rdma::{Adapter, Pair};
use std::io;

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

    /// What this rank says first on a connection that it dials, and what it offers in it.
    pub(super) fn hello(&self, slot: SlotIndex) -> (Vec<u8>, Option<Pair>) {
        let plain = || hello(self.token, self.me).to_vec();
        let Some(adapter) = &self.adapter else { return (plain(), None) };
        match adapter.pair(slot.0 as usize) {
            Ok(pair) => (hello_offering(self.token, self.me, &adapter.offer(&pair)), Some(pair)),
            // Without memory for it, it goes by the socket.
            Err(_) => (plain(), None),
        }
    }

    /// A connection that is open goes by RDMA if it has to.
    pub(super) fn check_way(&self, slot: SlotIndex) -> io::Result<()> {
        let by_socket = |c: &Connection| matches!(c.standing, Standing::Open(_)) && !c.is_by_rdma();
        match &self.connections[slot.0 as usize] {
            Some(connection) if self.only_rdma && by_socket(connection) => {
                Err(io::Error::other("one of the two has no RDMA device, or no memory for it"))
            }
            _ => Ok(()),
        }
    }
}
