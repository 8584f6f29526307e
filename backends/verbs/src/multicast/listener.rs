//! The receiving part of a group. Every member but the root has it.

use super::address::{GroupAddress, own_address};
use super::assembly::{Assembler, Layout, Store};
use super::datagram::HEAD_BYTES;
use crate::VerbsError;
use crate::adapter::{Adapter, PAYLOAD_AT};
use crate::guard::{DatagramPair, Room, Taken};
use crate::pool::{Block, Pool};
use std::cell::RefCell;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Instant;

/// Chunks assembled at a time.
pub(crate) const WINDOW: u64 = 16;
/// Chunks that may arrive before this member processes them.
const CHUNKS_ARRIVING: u32 = 8;

/// Listens to the group.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(super) address: GroupAddress,
    pub(super) pair: DatagramPair,
    pub(super) assembler: RefCell<Assembler<InBlock>>,
    pool: Pool,
    /// While this socket is open, the host accepts datagrams of the group.
    _host: UdpSocket,
}

/// A block with room for a header in front of the payload.
#[derive(Debug)]
pub(crate) struct InBlock(pub(crate) Block);

impl Store for InBlock {
    fn write(&mut self, at: usize, piece: &[u8]) {
        self.0.write(PAYLOAD_AT + at, piece);
    }
}

impl Listener {
    /// Joins the group.
    ///
    /// # Errors
    /// [`VerbsError`].
    pub(super) fn new(
        adapter: &Adapter,
        name: usize,
        address: GroupAddress,
    ) -> Result<Listener, VerbsError> {
        let Adapter { device, port, gid, pool, .. } = adapter;
        let none = |why| VerbsError::NoMulticast { device: device.name().to_owned(), why };
        let (Some(group), Some(own)) = (address.ip(), own_address(*gid)) else {
            return Err(none("its port has no IPv4 address"));
        };
        if port.mtu_bytes() < address.datagram_bytes {
            return Err(none("its MTU is smaller than that of the root"));
        }
        // On RoCE, the network knows only hosts as members of a group, by IGMP. The adapter must be
        // attached as well.
        let joined = |group: Ipv4Addr| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.join_multicast_v4(&group, &own)?;
            Ok(socket)
        };
        let host = joined(group).map_err(|source| device.io("joining a group", source))?;
        let piece_bytes = address.piece_bytes();
        let room = Room {
            sends: 0,
            receives: CHUNKS_ARRIVING * adapter.config.chunk_bytes.div_ceil(piece_bytes),
            datagram_bytes: address.datagram_bytes,
            head_bytes: HEAD_BYTES as u32,
        };
        let channel = (adapter.poller.channel(), name);
        let pair = DatagramPair::new(pool.domain(), channel, port, address.qkey, room, None)?;
        pair.attach(address.gid())?;
        let layout = Layout {
            tag: address.tag,
            piece_bytes,
            max_bytes: (pool.block_bytes() - PAYLOAD_AT) as u32,
            window: WINDOW as usize,
        };
        let (assembler, pool) = (RefCell::new(Assembler::new(layout)), pool.clone());
        Ok(Listener { address, pair, assembler, pool, _host: host })
    }

    /// Takes the datagrams that have come.
    pub(super) fn take(&self) -> Result<Taken, VerbsError> {
        let mut assembler = self.assembler.borrow_mut();
        let now = Instant::now();
        self.pair.take(|datagram| {
            // A refused datagram changes nothing. If its data is needed, the member asks for it
            // later.
            let _ = assembler.take(now, datagram, || self.pool.take().map(InBlock));
        })
    }
}
