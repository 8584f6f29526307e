//! Users on other hosts. A holder of a key is accepted as its user. A peer without a key is
//! refused, and so is a peer that replays or changes others' messages.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use storm_session::{
    ClientKey, ClientSessionError, ClusterKey, DoorKey, RemoteUser, SealedStream, SessionError,
    Trust, Via, accept, accept_client, connect_by_door, connect_client, initiate,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The limit for every step of a test. Only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Length of an opening, an answer and a proof in bytes.
const OPENING_BYTES: usize = 136;
const ANSWER_BYTES: usize = 49;
const PROOF_BYTES: usize = 16;
/// More than a record, a batch, and the buffers of sockets hold.
const LONG_BYTES: usize = 24 << 20;

fn run<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, body).await.expect("it hangs") })
}

fn cluster() -> ClusterKey {
    ClusterKey::generate().expect("random bytes")
}

fn key(cluster: &ClusterKey, user: &str) -> ClientKey {
    ClientKey::derive(cluster, user.parse().expect("a name")).expect("random bytes")
}

/// The same key under another user's name.
fn stolen(key: &ClientKey, user: &str) -> ClientKey {
    let text = key.to_text().replace(key.user().as_str(), user);
    text.parse().expect("as it is written")
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    (listener, address)
}

type Accepted = Result<(RemoteUser, SealedStream), ClientSessionError>;

async fn accepted(listener: &TcpListener, trust: &Trust) -> Accepted {
    let (tcp, _) = listener.accept().await.expect("a connection");
    accept_client(tcp, trust).await
}

/// The results of both ends of a handshake.
async fn meet(trust: &Trust, key: &ClientKey) -> (Accepted, Result<(), ClientSessionError>) {
    let (listener, address) = listen().await;
    let (manager, client) = tokio::join!(accepted(&listener, trust), connect_client(&address, key));
    (manager, client.map(drop))
}

/// The two ends of a session.
async fn session() -> (SealedStream, SealedStream) {
    let cluster = cluster();
    let (listener, address) = listen().await;
    let (trust, key) = (Trust::new(cluster.clone()), key(&cluster, "alice"));
    let (manager, client) =
        tokio::join!(accepted(&listener, &trust), connect_client(&address, &key));
    (manager.expect("the right key").1, client.expect("the right key"))
}

/// The manager's result, and its answer to these bytes.
async fn say(trust: &Trust, bytes: &[u8]) -> (Accepted, Vec<u8>) {
    let (listener, address) = listen().await;
    let stranger = async {
        let mut tcp = TcpStream::connect(address).await.expect("it listens");
        // The manager may close the connection in the middle.
        let _ = tcp.write_all(bytes).await;
        let _ = tcp.shutdown().await;
        let mut answer = Vec::new();
        let _ = tcp.read_to_end(&mut answer).await;
        answer
    };
    tokio::join!(
        async { accepted(&listener, trust).await.map(|(user, _)| panic!("{user:?}")) },
        stranger
    )
}

/// A client's first bytes up to its proof, as an eavesdropper sees them.
async fn recorded(trust: &Trust, key: &ClientKey) -> Vec<u8> {
    let (listener, address) = listen().await;
    let (relay, relay_address) = listen().await;
    let on_the_way = async {
        let (mut near, _) = relay.accept().await.expect("a connection");
        let mut far = TcpStream::connect(address).await.expect("it listens");
        let mut seen = vec![0; OPENING_BYTES + PROOF_BYTES];
        let mut answer = [0; ANSWER_BYTES];
        let (opening, proof) = seen.split_at_mut(OPENING_BYTES);
        near.read_exact(opening).await.expect("an opening");
        far.write_all(opening).await.expect("it reads");
        far.read_exact(&mut answer).await.expect("an answer");
        near.write_all(&answer).await.expect("it reads");
        near.read_exact(proof).await.expect("a proof");
        far.write_all(proof).await.expect("it reads");
        seen
    };
    let (manager, client, seen) =
        tokio::join!(accepted(&listener, trust), connect_client(&relay_address, key), on_the_way);
    assert!(manager.is_ok() && client.is_ok(), "a relay is no harm");
    seen
}

#[test]
fn a_client_key_is_valid_with_the_previous_cluster_key_too() {
    run(async {
        let (old, new) = (cluster(), cluster());
        let trust = Trust::new(new.clone()).or_previous(old.clone());
        for cluster in [&new, &old] {
            let key = key(cluster, "alice");
            let (manager, client) = meet(&trust, &key).await;
            let (user, _) = manager.expect("the right key");
            assert_eq!((user.name.as_str(), user.via), ("alice", Via::Key(key.serial())));
            client.expect("the right manager");
        }
    });
}

#[test]
fn a_key_of_another_cluster_or_user_is_reported_on_both_sides() {
    run(async {
        let (ours, other) = (cluster(), cluster());
        let trust = Trust::new(ours.clone());
        let (manager, client) = meet(&trust, &key(&other, "alice")).await;
        assert!(matches!(manager, Err(ClientSessionError::OtherKey { .. })), "{manager:?}");
        match client {
            Err(ClientSessionError::RefusedKey { theirs, ours: shown }) => {
                assert_eq!((theirs, shown), (ours.id(), other.id()));
            }
            other => panic!("{other:?}"),
        }
        for claimed in ["root", "bob"] {
            let (manager, client) = meet(&trust, &stolen(&key(&ours, "alice"), claimed)).await;
            assert!(
                matches!(&manager, Err(ClientSessionError::UnprovenUser { user }) if user.as_str() == claimed),
                "{manager:?}"
            );
            assert!(matches!(client, Err(ClientSessionError::RefusedUser { .. })), "{client:?}");
        }
    });
}

#[test]
fn a_manager_without_the_cluster_key_is_not_believed() {
    run(async {
        let cluster = cluster();
        let (listener, address) = listen().await;
        let impostor = async {
            let (mut tcp, _) = listener.accept().await.expect("a connection");
            let mut opening = [0; OPENING_BYTES];
            tcp.read_exact(&mut opening).await.expect("an opening");
            let mut answer = [7; ANSWER_BYTES];
            answer[0] = 0;
            tcp.write_all(&answer).await.expect("it reads");
            tcp
        };
        let key = key(&cluster, "alice");
        let (client, _tcp) = tokio::join!(connect_client(&address, &key), impostor);
        let client = client.map(drop);
        assert!(matches!(client, Err(ClientSessionError::UnprovenManager { .. })), "{client:?}");
    });
}

#[test]
fn a_recorded_session_opens_nothing() {
    run(async {
        let cluster = cluster();
        let trust = Trust::new(cluster.clone());
        let seen = recorded(&trust, &key(&cluster, "alice")).await;
        for length in [OPENING_BYTES, seen.len()] {
            let (manager, answer) = say(&trust, &seen[..length]).await;
            assert!(
                matches!(
                    manager,
                    Err(ClientSessionError::Closed | ClientSessionError::UnprovenUser { .. })
                ),
                "{manager:?}"
            );
            assert_eq!((answer.len(), answer[0]), (ANSWER_BYTES, 0), "and nothing more");
        }
    });
}

#[test]
fn openings_that_are_cut_short_or_changed_are_refused() {
    run(async {
        let cluster = cluster();
        let trust = Trust::new(cluster.clone());
        let seen = recorded(&trust, &key(&cluster, "alice")).await;
        for length in [0, 1, 7, 8, 40, OPENING_BYTES - 1] {
            let (manager, answer) = say(&trust, &seen[..length]).await;
            assert!(matches!(manager, Err(ClientSessionError::Closed)), "{length}: {manager:?}");
            assert!(answer.is_empty());
        }
        for at in 0..OPENING_BYTES {
            let mut changed = seen[..OPENING_BYTES].to_vec();
            changed[at] ^= 1;
            let (manager, answer) = say(&trust, &changed).await;
            assert!(manager.is_err() && answer.first() != Some(&0), "{at}: {manager:?} {answer:?}");
        }
        let (manager, _) = say(&trust, b"GET / HTTP/1.1\r\n\r\n").await;
        assert!(matches!(manager, Err(ClientSessionError::NoKey)), "{manager:?}");
    });
}

#[test]
fn daemons_and_clients_refuse_each_others_handshake() {
    run(async {
        let cluster = cluster();
        let trust = Trust::new(cluster.clone());
        let (listener, address) = listen().await;
        let daemon = async {
            let mut tcp = TcpStream::connect(&address).await.expect("it listens");
            initiate(&mut tcp, &trust, &cluster).await
        };
        let (manager, daemon) = tokio::join!(accepted(&listener, &trust), daemon);
        assert!(matches!(manager, Err(ClientSessionError::NoKey)), "{manager:?}");
        assert!(daemon.is_err());
        let member = async {
            let (mut tcp, _) = listener.accept().await.expect("a connection");
            accept(&mut tcp, &trust).await
        };
        let key = key(&cluster, "alice");
        let (member, client) = tokio::join!(member, connect_client(&address, &key));
        assert!(matches!(member, Err(SessionError::NoKey { .. })), "{member:?}");
        assert!(client.is_err());
    });
}

#[test]
fn data_flows_both_ways_at_once_and_the_end_is_seen() {
    run(async {
        let (one, other) = session().await;
        let text: Vec<u8> = (0..LONG_BYTES).map(|at| (at % 251) as u8).collect();
        let both = |end: SealedStream| {
            let (mut read, mut write) = tokio::io::split(end);
            let text = &text;
            async move {
                let send = async {
                    for piece in text.chunks(100_003) {
                        write.write_all(piece).await.expect("it reads");
                    }
                    write.shutdown().await.expect("it reads");
                };
                let mut got = Vec::new();
                let (_, read) = tokio::join!(send, read.read_to_end(&mut got));
                assert_eq!(read.expect("an end"), LONG_BYTES);
                assert!(got == *text);
            }
        };
        tokio::join!(both(one), both(other));
    });
}

#[test]
fn flushed_data_arrives_without_further_calls() {
    run(async {
        let (mut one, mut other) = session().await;
        let text = vec![9; LONG_BYTES];
        let send = async {
            one.write_all(&text).await.expect("it reads");
            one.flush().await.expect("it reads");
        };
        let mut got = vec![0; LONG_BYTES];
        let (_, read) = tokio::join!(send, other.read_exact(&mut got));
        read.expect("all of it");
        assert!(got == text);
    });
}

#[test]
fn a_stream_that_is_cut_within_a_record_or_changed_is_an_error() {
    run(async {
        for garbage in [&[5][..], &[20, 0, 1, 2, 3], &[18, 0].repeat(30)] {
            let cluster = cluster();
            let (listener, address) = listen().await;
            let (relay, relay_address) = listen().await;
            let trust = Trust::new(cluster.clone());
            let on_the_way = async {
                let (mut near, _) = relay.accept().await.expect("a connection");
                let mut far = TcpStream::connect(address).await.expect("it listens");
                let mut hello = vec![0; OPENING_BYTES];
                near.read_exact(&mut hello).await.expect("an opening");
                far.write_all(&hello).await.expect("it reads");
                hello.truncate(ANSWER_BYTES);
                far.read_exact(&mut hello).await.expect("an answer");
                near.write_all(&hello).await.expect("it reads");
                hello.truncate(PROOF_BYTES);
                near.read_exact(&mut hello).await.expect("a proof");
                far.write_all(&hello).await.expect("it reads");
                far.write_all(garbage).await.expect("it reads");
                far.shutdown().await.expect("it is open");
                (near, far)
            };
            let key = key(&cluster, "alice");
            let (manager, _client, _relay) = tokio::join!(
                accepted(&listener, &trust),
                connect_client(&relay_address, &key),
                on_the_way
            );
            let (_, mut manager) = manager.expect("the right key");
            let read = manager.read(&mut [0; 100]).await.expect_err("no record");
            let kinds = [ErrorKind::UnexpectedEof, ErrorKind::InvalidData];
            assert!(kinds.contains(&read.kind()), "{read:?}");
        }
    });
}

#[test]
fn a_door_speaks_for_its_users_and_says_that_it_does() {
    run(async {
        let (ours, other) = (cluster(), cluster());
        let trust = Trust::new(ours.clone());
        let alice = "alice".parse().expect("a name");
        let meet = async |door: &DoorKey| {
            let (listener, address) = listen().await;
            let (manager, client) =
                tokio::join!(accepted(&listener, &trust), connect_by_door(&address, door, &alice));
            (manager, client.map(drop))
        };
        let door = DoorKey::derive(&ours).expect("random bytes");
        let (manager, client) = meet(&door).await;
        let (user, _) = manager.expect("the right key");
        assert_eq!((user.name.as_str(), user.via), ("alice", Via::Door(door.serial())));
        client.expect("the right manager");
        let foreign = DoorKey::derive(&other).expect("random bytes");
        let (manager, client) = meet(&foreign).await;
        assert!(matches!(manager, Err(ClientSessionError::OtherKey { .. })), "{manager:?}");
        assert!(matches!(client, Err(ClientSessionError::RefusedKey { .. })), "{client:?}");
    });
}

#[test]
fn neither_kind_of_key_can_be_shown_as_the_other() {
    run(async {
        let cluster = cluster();
        let trust = Trust::new(cluster.clone());
        let (magic_at, kinds) = (6, [b'C', b'D']);
        // The opening of each kind under the magic of the other.
        let mut client = recorded(&trust, &key(&cluster, "alice")).await;
        assert_eq!(client[magic_at], kinds[0]);
        client[magic_at] = kinds[1];
        let (manager, _) = say(&trust, &client[..OPENING_BYTES]).await;
        assert!(matches!(manager, Err(ClientSessionError::UnprovenUser { .. })), "{manager:?}");
        // A door key's secret as that of a client key of the same serial number.
        let door = DoorKey::derive(&cluster).expect("random bytes");
        let text = door.to_text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let [_, cluster_id, serial, secret] = words[..] else { panic!("four words") };
        let posed = format!("storm-client-key-1 root {cluster_id} {serial} {secret}");
        let (manager, client) = meet(&trust, &posed.parse().expect("a form")).await;
        assert!(matches!(manager, Err(ClientSessionError::UnprovenUser { .. })), "{manager:?}");
        assert!(matches!(client, Err(ClientSessionError::RefusedUser { .. })), "{client:?}");
    });
}

/// A reader gets the end of a stream only if the other end meant it: a process that dies closes its
/// connection as well.
#[tokio::test]
async fn an_end_is_read_only_if_it_is_meant() {
    let (mut manager, mut client) = session().await;
    client.write_all(b"one").await.expect("open");
    client.shutdown().await.expect("open");
    let mut said = Vec::new();
    manager.read_to_end(&mut said).await.expect("the end is meant");
    assert_eq!(said, b"one");
    manager.write_all(b"an answer").await.expect("the other direction is open");
    manager.flush().await.expect("the other direction is open");
    drop(manager);
    let mut said = Vec::new();
    let cut = client.read_to_end(&mut said).await.expect_err("the manager has not said so");
    assert_eq!((cut.kind(), said.as_slice()), (ErrorKind::UnexpectedEof, &b"an answer"[..]));
    let written = client.write_all(b"more").await.expect_err("this end has ended");
    assert_eq!(written.kind(), ErrorKind::BrokenPipe);
}
