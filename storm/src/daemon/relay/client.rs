//! One client of a relay: its first bytes, its session with the Machine Manager, and the bytes of
//! both until one of them ends.
//!
//! Nothing here reads the contents of the bytes. An idle client holds no memory for them.

use super::bounds::Bounds;
use super::places::Place;
use std::future::{pending, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::ready;
use storm_mm::api::{ApiError, ErrorCode, refusal_line};
use storm_primitives::Runtime;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Most bytes that are held in one direction of a client, besides a record of the session.
pub(super) const PIECE_BYTES: usize = 16 << 10;

/// Serves a client until it leaves, or the Machine Manager ends the session. `open` makes the
/// session; it is polled only after the client's first byte.
pub(super) async fn serve<R, C, S>(
    runtime: &R,
    mut client: C,
    place: Place,
    bounds: &Bounds,
    open: impl Future<Output = Result<S, ApiError>>,
) where
    R: Runtime,
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let first = tokio::select! {
        first = runtime.timeout(bounds.first_byte, read_piece(&mut client)) => first,
        () = place.gives_way() => return,
    };
    // A client without a first byte has left, or was silent for too long.
    let Some(Ok(first)) = first else { return };
    if first.is_empty() || !place.speaks() {
        return;
    }
    match runtime.timeout(bounds.session, open).await {
        Some(Ok(session)) => {
            relay(runtime, client, session, first, bounds).await;
        }
        Some(Err(error)) => refuse(runtime, client, bounds, error).await,
        None => refuse(runtime, client, bounds, late()).await,
    }
}

/// Sends a client the reason why it is not served.
async fn refuse<R: Runtime, C: AsyncWrite + Unpin>(
    runtime: &R,
    mut client: C,
    bounds: &Bounds,
    error: ApiError,
) {
    let line = refusal_line(error);
    let telling = async {
        client.write_all(&line).await?;
        client.shutdown().await
    };
    // Whether the refusal arrived does not matter.
    let _ = runtime.timeout(bounds.refusal, telling).await;
}

fn late() -> ApiError {
    ApiError::new(
        ErrorCode::ManagerAway,
        "this host got no session with the Machine Manager in time",
    )
    .hint("try again; `storm nodes` on the manager's host tells whether it is busy")
}

/// Why the bytes of a client are not carried any more.
enum End {
    /// The client has left or was killed: the kernel closed its socket.
    Client(io::Error),
    /// The session is over.
    Session(io::Result<()>),
}

/// Carries the bytes of both directions. The end of the client's requests is passed on, and the
/// manager may still answer. The end of the manager's answers ends everything.
///
/// The manager hears of every client that leaves. If this future is dropped, as when the Node
/// Manager ends, the manager hears nothing, and the client may return.
async fn relay<R, C, S>(runtime: &R, client: C, session: S, first: Vec<u8>, bounds: &Bounds)
where
    R: Runtime,
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_manager, mut to_manager) = tokio::io::split(session);
    let requests = async {
        let mut piece = first;
        loop {
            if let Err(error) = send(&mut to_manager, &piece).await {
                tracing::debug!(%error, "the session takes no more requests");
                // The manager may have sent the reason before it closed the connection.
                return pending::<End>().await;
            }
            piece = Vec::new();
            piece = match read_piece(&mut from_client).await {
                Ok(read) if read.is_empty() => break,
                Ok(read) => read,
                Err(error) => return End::Client(error),
            };
        }
        drop(piece);
        if let Err(error) = to_manager.shutdown().await {
            tracing::debug!(%error, "the session is gone");
        }
        pending().await
    };
    let answers = async {
        loop {
            let piece = match read_piece(&mut from_manager).await {
                Ok(piece) if piece.is_empty() => return End::Session(to_client.shutdown().await),
                Ok(piece) => piece,
                Err(error) => return End::Session(Err(error)),
            };
            if let Err(error) = send(&mut to_client, &piece).await {
                return End::Client(error);
            }
        }
    };
    let ended = tokio::select! {
        ended = requests => ended,
        ended = answers => ended,
    };
    match ended {
        End::Client(error) => {
            tracing::debug!(%error, "a client is gone");
            // Whether the manager hears of it in time does not matter: it waits longer otherwise.
            let _ = runtime.timeout(bounds.refusal, to_manager.shutdown()).await;
        }
        End::Session(Err(error)) => tracing::debug!(%error, "a session is gone"),
        End::Session(Ok(())) => {}
    }
}

async fn send(to: &mut (impl AsyncWrite + Unpin), piece: &[u8]) -> io::Result<()> {
    to.write_all(piece).await?;
    to.flush().await
}

/// The next bytes, at most [`PIECE_BYTES`]; none at the end of the stream. Memory for them is only
/// taken when they are there.
async fn read_piece(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    poll_fn(|context| {
        let mut room = [MaybeUninit::<u8>::uninit(); PIECE_BYTES];
        let mut room = ReadBuf::uninit(&mut room);
        ready!(Pin::new(&mut *from).poll_read(context, &mut room))?;
        std::task::Poll::Ready(Ok(room.filled().to_vec()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::super::places::Places;
    use super::*;
    use std::time::Duration;
    use storm_primitives::sim::{SimRuntime, Simulation};
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    /// Room of a stream in the kernel.
    const KERNEL_BYTES: usize = 4 << 10;

    /// Runs a test in virtual time.
    fn in_virtual_time<F: Future<Output = ()> + 'static>(test: impl FnOnce(SimRuntime) -> F) {
        let world = Simulation::new(1);
        world.run(test(world.runtime())).expect("the test ends");
    }

    /// A client that the relay serves, and the manager's end of its session.
    fn served(runtime: &SimRuntime, opens: Duration) -> (DuplexStream, DuplexStream) {
        let bounds = Bounds::with_descriptors(1 << 20, Vec::new());
        let place = Places::new(bounds.clone()).take(7).expect("room");
        let (client, ours) = duplex(KERNEL_BYTES);
        let (session, manager) = duplex(KERNEL_BYTES);
        let (own, timer) = (runtime.clone(), runtime.clone());
        let serving = async move {
            let open = async {
                timer.sleep(opens).await;
                Ok(session)
            };
            serve(&own, ours, place, &bounds, open).await;
        };
        runtime.spawn(serving).detach();
        (client, manager)
    }

    async fn rest(stream: &mut DuplexStream) -> Vec<u8> {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.expect("it ends");
        all
    }

    #[test]
    fn a_silent_client_goes_after_its_time_and_the_manager_hears_nothing() {
        in_virtual_time(|runtime| async move {
            let (mut client, mut manager) = served(&runtime, Duration::ZERO);
            let began = runtime.now();
            assert_eq!(rest(&mut client).await, b"");
            assert_eq!(runtime.now() - began, Duration::from_secs(10));
            assert_eq!(rest(&mut manager).await, b"", "no session was made");
        });
    }

    #[test]
    fn a_client_hears_that_no_session_was_made_in_time() {
        in_virtual_time(|runtime| async move {
            let (mut client, _manager) = served(&runtime, Duration::from_secs(3600));
            let began = runtime.now();
            client.write_all(b"hello\n").await.expect("room");
            let said = String::from_utf8(rest(&mut client).await).expect("text");
            assert_eq!(runtime.now() - began, Duration::from_secs(5));
            assert!(
                said.starts_with("{\"storm_api\":2") && said.contains("manager-away"),
                "{said}"
            );
        });
    }

    #[test]
    fn a_client_that_gives_way_is_closed_without_a_word() {
        in_virtual_time(|runtime| async move {
            let bounds = Bounds::with_descriptors(0, Vec::new());
            let places = Places::new(bounds.clone());
            let (mut client, ours) = duplex(KERNEL_BYTES);
            let place = places.take(7).expect("room");
            let timer = runtime.clone();
            let serving = async move {
                let open = pending::<Result<DuplexStream, ApiError>>();
                serve(&timer, ours, place, &bounds, open).await;
            };
            runtime.spawn(serving).detach();
            let _later = [places.take(8).expect("room"), places.take(9).expect("the first goes")];
            let began = runtime.now();
            assert_eq!(rest(&mut client).await, b"");
            assert_eq!(runtime.now(), began);
        });
    }

    #[test]
    fn bytes_go_both_ways_and_answers_follow_the_end_of_requests() {
        in_virtual_time(|runtime| async move {
            let (mut client, mut manager) = served(&runtime, Duration::from_secs(1));
            let requests: Vec<u8> = (0..100_000_u32).map(|at| (at * 7 % 251) as u8).collect();
            let answers: Vec<u8> = requests.iter().map(|byte| byte ^ 0x55).collect();
            let (wanted, answered) = (requests.clone(), answers.clone());
            let serving = async move {
                assert!(rest(&mut manager).await == wanted);
                manager.write_all(&answered).await.expect("it reads");
            };
            let task = runtime.spawn(serving);
            client.write_all(&requests).await.expect("it reads");
            client.shutdown().await.expect("open");
            assert!(rest(&mut client).await == answers);
            drop(task);
        });
    }

    /// The end of a process with unread answers resets its socket: not an end of the stream. The
    /// manager must hear that the client has left.
    #[test]
    fn the_manager_hears_of_a_client_that_was_killed() {
        in_virtual_time(|runtime| async move {
            let (mut client, mut manager) = served(&runtime, Duration::ZERO);
            client.write_all(b"hello\n").await.expect("room");
            let mut heard = [0; 6];
            manager.read_exact(&mut heard).await.expect("the session is open");
            drop(client);
            assert_eq!(rest(&mut manager).await, b"");
        });
    }

    #[test]
    fn a_client_that_does_not_read_holds_the_manager_back() {
        in_virtual_time(|runtime| async move {
            let (mut client, mut manager) = served(&runtime, Duration::ZERO);
            client.write_all(b"hello\n").await.expect("room");
            let block = [0; 1 << 10];
            let mut sent = 0;
            let full = Duration::from_secs(60);
            while let Some(written) = runtime.timeout(full, manager.write(&block)).await {
                sent += written.expect("open");
            }
            assert!(sent <= PIECE_BYTES + 2 * KERNEL_BYTES, "{sent} bytes are held");
            drop(manager);
            assert_eq!(rest(&mut client).await.len(), sent, "and none is lost");
        });
    }

    #[test]
    fn an_upload_that_the_manager_does_not_take_holds_the_client_back() {
        in_virtual_time(|runtime| async move {
            let (mut client, manager) = served(&runtime, Duration::ZERO);
            let block = [0; 1 << 10];
            let mut sent = 0;
            let full = Duration::from_secs(60);
            while let Some(written) = runtime.timeout(full, client.write(&block)).await {
                sent += written.expect("open");
            }
            assert!(sent <= PIECE_BYTES + 2 * KERNEL_BYTES, "{sent} bytes are held");
            drop(manager);
            assert_eq!(rest(&mut client).await, b"", "the end of the session is the client's end");
        });
    }
}
