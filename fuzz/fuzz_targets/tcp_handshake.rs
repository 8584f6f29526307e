//! The handshake with a relay between its ends that changes bytes. If an end's message is changed,
//! the other end refuses; if not, both agree. Also any bytes instead of an opening, or of an
//! answer.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::net::SocketAddr;
use std::sync::LazyLock;
use storm_session::fuzzing::{accept, accept_user, initiate};
use storm_session::{ClusterKey, Trust};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};

/// More than an end says before it hears.
const ROOM_BYTES: usize = 4096;

#[derive(Arbitrary, Debug)]
enum Play<'a> {
    /// The relay changes these bytes in each direction.
    Relay { there: Vec<(u8, u8)>, back: Vec<(u8, u8)>, remote: bool },
    /// A stranger sends these bytes to the accepting end.
    Opening(&'a [u8]),
    /// A stranger says this where users connect.
    User(&'a [u8]),
    /// A stranger answers these bytes to the connecting end.
    Answer(&'a [u8]),
}

/// Our end of the handshake.
enum Side {
    Acceptor,
    AcceptorOfUsers,
    Initiator,
}

static KEY: LazyLock<ClusterKey> = LazyLock::new(|| ClusterKey::generate().expect("random bytes"));

fn ends(remote: bool) -> (SocketAddr, SocketAddr) {
    let host = if remote { [10, 0, 0, 1] } else { [127, 0, 0, 1] };
    (SocketAddr::from((host, 7117)), SocketAddr::from((host, 40_000)))
}

/// Passes bytes on, with these changed. Returns whether any were changed.
async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    changes: &[(u8, u8)],
) -> bool {
    let (mut at, mut changed) = (0, false);
    let mut piece = [0; 256];
    while let Ok(len @ 1..) = from.read(&mut piece).await {
        let before = piece;
        for (place, with) in changes {
            let place = usize::from(*place).checked_sub(at);
            if let Some(byte) = place.and_then(|place| piece[..len].get_mut(place)) {
                *byte ^= with;
            }
        }
        changed |= before != piece;
        at += len;
        if to.write_all(&piece[..len]).await.is_err() {
            break;
        }
    }
    // The other end may be gone.
    let _ = to.shutdown().await;
    changed
}

async fn through_relay(there: &[(u8, u8)], back: &[(u8, u8)], remote: bool) {
    let trust = Trust::new(KEY.clone());
    let (here, far) = ends(remote);
    let (mut initiator, to_initiator) = duplex(ROOM_BYTES);
    let (mut acceptor, to_acceptor) = duplex(ROOM_BYTES);
    let (mut from_initiator, mut to_initiator) = tokio::io::split(to_initiator);
    let (mut from_acceptor, mut to_acceptor) = tokio::io::split(to_acceptor);
    // Each end closes once it has its answer, which ends the relay.
    let accepting = async move { accept(&mut acceptor, (here, far), &trust).await };
    let trust = Trust::new(KEY.clone());
    let initiating = async move { initiate(&mut initiator, (far, here), &trust, &KEY).await };
    let (accepted, initiated, forth, answered) = tokio::join!(
        accepting,
        initiating,
        pass(&mut from_initiator, &mut to_acceptor, there),
        pass(&mut from_acceptor, &mut to_initiator, back),
    );
    assert!(!forth || accepted.is_err(), "what was changed was accepted");
    assert!(!answered || initiated.is_err(), "a changed answer was believed");
    if !forth && !answered {
        assert_eq!((accepted.expect("own"), initiated.expect("own")), (remote, remote));
    }
}

/// The answer to a stranger that sends `said` and nothing more.
async fn with_stranger(said: &[u8], ours: Side) {
    let (mut own, mut stranger) = duplex(said.len() + ROOM_BYTES);
    stranger.write_all(said).await.expect("there is room");
    stranger.shutdown().await.expect("it is open");
    let trust = Trust::new(KEY.clone());
    let (here, far) = ends(true);
    let is_refused = match ours {
        Side::Acceptor => accept(&mut own, (here, far), &trust).await.is_err(),
        Side::AcceptorOfUsers => accept_user(&mut own, &trust).await.is_err(),
        Side::Initiator => initiate(&mut own, (far, here), &trust, &KEY).await.is_err(),
    };
    assert!(is_refused, "a stranger holds the key");
}

fuzz_target!(|play: Play<'_>| {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        match &play {
            Play::Relay { there, back, remote } => through_relay(there, back, *remote).await,
            Play::Opening(said) => with_stranger(said, Side::Acceptor).await,
            Play::User(said) => with_stranger(said, Side::AcceptorOfUsers).await,
            Play::Answer(said) => with_stranger(said, Side::Initiator).await,
        }
    });
});
