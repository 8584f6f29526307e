//! A relay between a node and the root. It forwards the bytes of both sides, keeps a copy, and
//! tampers with them on request.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

/// The size of a read.
const BLOCK_BYTES: usize = 64 << 10;

/// The treatment of the next bytes of each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tampering {
    /// Nothing.
    Pass,
    /// One bit is changed.
    Flip,
    /// The first byte is passed on, then the connection ends.
    Cut,
    /// Forged bytes come first: a header that announces the longest record, and more bytes than
    /// that.
    Inject,
}

/// The direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the node.
    ToRoot,
    /// To the node.
    ToNode,
}

/// The bytes that have passed, in pieces.
type Seen = Rc<RefCell<Vec<(Way, Vec<u8>)>>>;

/// Works until the test is over.
pub(crate) struct Relay {
    addr: SocketAddr,
    seen: Seen,
    tampering: Rc<Cell<(Way, Tampering)>>,
}

impl Relay {
    /// Starts a relay before `root`.
    pub(crate) async fn start(root: SocketAddr) -> Relay {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let relay = Relay {
            addr: listener.local_addr().expect("bound"),
            seen: Rc::default(),
            tampering: Rc::new(Cell::new((Way::ToRoot, Tampering::Pass))),
        };
        let (seen, tampering) = (relay.seen.clone(), relay.tampering.clone());
        spawn_local(async move {
            while let Ok((node, _)) = listener.accept().await {
                let Ok(root) = TcpStream::connect(root).await else { return };
                let (from_node, to_node) = node.into_split();
                let (from_root, to_root) = root.into_split();
                for (way, from, to) in
                    [(Way::ToRoot, from_node, to_root), (Way::ToNode, from_root, to_node)]
                {
                    spawn_local(pass(way, from, to, seen.clone(), tampering.clone()));
                }
            }
        });
        relay
    }

    /// The address it listens on.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Tampers with the next bytes in this direction.
    pub(crate) fn tamper(&self, way: Way, tampering: Tampering) {
        self.tampering.set((way, tampering));
    }

    /// The bytes that have passed in this direction, of all connections.
    pub(crate) fn seen(&self, way: Way) -> Vec<u8> {
        let seen = self.seen.borrow();
        seen.iter().filter(|one| one.0 == way).flat_map(|one| one.1.clone()).collect()
    }
}

async fn pass(
    way: Way,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    seen: Seen,
    tampering: Rc<Cell<(Way, Tampering)>>,
) {
    let mut block = vec![0; BLOCK_BYTES];
    while let Ok(len @ 1..) = from.read(&mut block).await {
        let bytes = &mut block[..len];
        seen.borrow_mut().push((way, bytes.to_vec()));
        let (where_to, what) = tampering.get();
        let sent = match what {
            Tampering::Flip if where_to == way => {
                bytes[len / 2] ^= 1;
                to.write_all(bytes).await
            }
            Tampering::Cut if where_to == way => {
                // The connection may be closed already.
                let _ = to.write_all(&bytes[..1]).await;
                return;
            }
            Tampering::Inject if where_to == way => to.write_all(&[0xff; 2 * BLOCK_BYTES]).await,
            Tampering::Pass | Tampering::Flip | Tampering::Cut | Tampering::Inject => {
                to.write_all(bytes).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}
