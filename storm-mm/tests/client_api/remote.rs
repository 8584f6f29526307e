//! Clients of other hosts are served like local ones once they have proved their identity. All
//! other connections are no burden.

use crate::served::{Served, job, on_runtime, submitted};
use crate::uploads::submission;
use std::sync::Arc;
use std::time::Duration;
use storm_mm::api::{
    ApiError, Client, ClientEnd, ClientError, ErrorCode, MAX_REQUEST_LINE_BYTES, ManagerRequest,
    RemoteClients, Reply, ServerLimits, Spool,
};
use storm_rm::{ContentHash, Owner};
use storm_session::{ClientKey, ClusterKey, RemoteUser, SealedStream, Trust, connect_client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The users in the user database of the manager's host.
const USERS: [(&str, Owner); 2] =
    [("alice", Owner { uid: 4001, gid: 41 }), ("bob", Owner { uid: 4002, gid: 42 })];

/// A server with a door for other hosts.
struct Remote {
    served: Served,
    address: String,
    cluster: ClusterKey,
}

impl Remote {
    async fn start(limits: ServerLimits, strangers: usize) -> Remote {
        Remote::patient(limits, strangers, Duration::from_secs(20)).await
    }

    async fn patient(limits: ServerLimits, strangers: usize, proof_timeout: Duration) -> Remote {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let cluster = ClusterKey::generate().expect("random bytes");
        let clients = RemoteClients {
            strangers,
            proof_timeout,
            ..RemoteClients::new(Trust::new(cluster.clone()), Arc::new(admit))
        };
        let served = Served::extended(limits, Spool::DEFAULT_FILE_LIMIT_BYTES, |server| {
            server.with_remote_clients(listener, clients)
        });
        Remote { served, address, cluster }
    }

    fn key(&self, user: &str) -> ClientKey {
        let user = user.parse().expect("a name");
        ClientKey::derive(&self.cluster, user).expect("random bytes")
    }

    async fn client(&self, user: &str) -> Client {
        Client::connect_remote(&self.address, &self.key(user)).await.expect("it listens")
    }

    /// A session on which the test sends anything.
    async fn raw(&self, user: &str) -> SealedStream {
        connect_client(&self.address, &self.key(user)).await.expect("the right key")
    }
}

fn admit(user: &RemoteUser) -> Result<Owner, ApiError> {
    let known = USERS.iter().find(|(name, _)| *name == user.name.as_str());
    known.map(|(_, owner)| *owner).ok_or_else(|| {
        ApiError::new(ErrorCode::NotPermitted, format!("nobody knows {}", user.name))
    })
}

#[test]
fn the_manager_is_told_who_asks_as_the_key_says() {
    on_runtime(async {
        let remote = Remote::start(ServerLimits::default(), 8).await;
        for (user, owner) in USERS {
            let mut client = remote.client(user).await;
            let serve = async {
                let call = remote.served.call().await;
                assert_eq!((call.peer.uid, call.peer.gid), (owner.uid, owner.gid));
                let _ = call.replies.send(Reply::Ok);
            };
            let (answer, ()) = tokio::join!(client.call(ManagerRequest::Nodes), serve);
            assert_eq!(answer.expect("answered"), Reply::Ok);
        }
    });
}

/// A request of a session on which the test sends anything.
async fn ask(stream: &mut SealedStream) {
    stream
        .write_all(b"{\"storm_api\":2}\n{\"id\":1,\"request\":\"nodes\"}\n")
        .await
        .expect("it reads");
    stream.flush().await.expect("it reads");
}

#[test]
fn the_core_hears_whether_a_client_meant_to_leave() {
    on_runtime(async {
        let remote = Remote::start(ServerLimits::default(), 8).await;
        for end in [ClientEnd::Meant, ClientEnd::Broken] {
            let mut stream = remote.raw("alice").await;
            ask(&mut stream).await;
            let call = remote.served.call().await;
            // A client that follows a job is owed replies. Its end is heard all the same.
            if end == ClientEnd::Meant {
                stream.shutdown().await.expect("open");
            } else {
                // As the kernel does for a process that ended.
                drop(stream);
            }
            assert_eq!(remote.served.left().await, (call.client, end));
        }
    });
}

#[test]
fn a_client_that_asked_for_nothing_leaves_unheard() {
    on_runtime(async {
        let remote = Remote::start(ServerLimits::default(), 8).await;
        let mut silent = remote.raw("alice").await;
        silent.write_all(b"{\"storm_api\":2}\n").await.expect("it reads");
        silent.shutdown().await.expect("open");
        let mut rest = Vec::new();
        silent.read_to_end(&mut rest).await.expect("the manager means its end as well");
        assert!(remote.served.calls.is_empty());
    });
}

#[test]
fn files_come_over_the_network_as_through_a_socket() {
    on_runtime(async {
        let remote = Remote::start(ServerLimits::default(), 8).await;
        remote.served.answer_with(submitted);
        let program: Vec<u8> = (0..5 << 20).map(|at| (at % 253) as u8).collect();
        let contents: [&[u8]; 3] = [&program, b"small", b""];
        let mut client = remote.client("alice").await;
        let job = submission(job(&contents), &contents);
        client.submit(job, |_| {}).await.expect("submitted");
        let hash = ContentHash::of(&program);
        let size_bytes = |uid| remote.served.spool.size_bytes(uid, &hash);
        assert_eq!(size_bytes(USERS[0].1.uid), Some(program.len() as u64));
        assert_eq!(size_bytes(USERS[1].1.uid), None, "of nobody else");
    });
}

#[test]
fn a_refused_client_is_told_why_whatever_it_asks() {
    on_runtime(async {
        let remote = Remote::start(ServerLimits::default(), 8).await;
        let mut client = remote.client("mallory").await;
        let refused = client.call(ManagerRequest::Nodes).await.expect_err("unknown");
        assert_eq!(refused.code(), Some(ErrorCode::NotPermitted), "{refused}");
        let mut client = remote.client("mallory").await;
        let program = vec![1; 1 << 20];
        let job = submission(job(&[&program]), &[&program]);
        let refused = client.submit(job, |_| {}).await.expect_err("unknown");
        assert_eq!(refused.code(), Some(ErrorCode::NotPermitted), "{refused}");
        assert!(remote.served.calls.is_empty(), "the manager has heard of nothing");
    });
}

#[test]
fn a_user_has_no_more_places_from_other_hosts() {
    on_runtime(async {
        let limits = ServerLimits { clients_per_user: 2, ..ServerLimits::default() };
        let remote = Remote::start(limits, 8).await;
        remote.served.answer_with(|_| Reply::Ok);
        let mut clients = Vec::new();
        for number in 0..4 {
            let mut client = remote.client("alice").await;
            let answer = client.call(ManagerRequest::Nodes).await;
            match answer {
                Ok(_) => assert!(number < 2),
                Err(error) => {
                    assert!(number >= 2);
                    assert_eq!(error.code(), Some(ErrorCode::TooManyClients), "{error}");
                }
            }
            clients.push(client);
        }
        let bob = remote.client("bob").await.call(ManagerRequest::Nodes).await;
        assert!(bob.is_ok(), "there is room for others");
    });
}

#[test]
fn a_line_without_end_is_cut_off_on_a_session_too() {
    on_runtime(async {
        let remote = Remote::start(ServerLimits::default(), 8).await;
        let (mut read, mut write) = tokio::io::split(remote.raw("alice").await);
        let send = async {
            write.write_all(b"{\"storm_api\":2}\n").await.expect("it reads");
            let block = vec![b'x'; MAX_REQUEST_LINE_BYTES / 4 + 1];
            for _ in 0..4 {
                // The server may close the connection as soon as it refuses the client.
                let _ = write.write_all(&block).await;
            }
            let _ = write.flush().await;
        };
        let mut said = Vec::new();
        let (_, end) = tokio::join!(send, read.read_to_end(&mut said));
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("line-too-long"), "{said} {end:?}");
    });
}

#[test]
fn silent_connections_give_way_to_a_client() {
    on_runtime(async {
        let remote = Remote::start(ServerLimits::default(), 4).await;
        remote.served.answer_with(|_| Reply::Ok);
        let mut silent = Vec::new();
        for _ in 0..100 {
            silent.push(TcpStream::connect(&remote.address).await.expect("it listens"));
        }
        let mut client = remote.client("alice").await;
        assert!(client.call(ManagerRequest::Nodes).await.is_ok());
        let mut closed = 0;
        for stream in &mut silent[..90] {
            closed += usize::from(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)));
        }
        assert_eq!(closed, 90, "only the last are still waited for");
    });
}

#[test]
fn an_unproven_connection_is_dropped() {
    on_runtime(async {
        let patience = Duration::from_millis(20);
        let remote = Remote::patient(ServerLimits::default(), 4, patience).await;
        let mut half = TcpStream::connect(&remote.address).await.expect("it listens");
        half.write_all(b"\xffSTORMC\x01").await.expect("it reads");
        assert!(matches!(half.read(&mut [0]).await, Ok(0) | Err(_)));
    });
}

#[test]
fn a_server_that_ends_answers_and_closes_the_door() {
    on_runtime(async {
        let remote = Remote::start(ServerLimits::default(), 8).await;
        let mut client = remote.client("alice").await;
        let key = remote.key("alice");
        let Remote { served, address, .. } = remote;
        let end = async {
            let call = served.call().await;
            let _ = call.replies.send(Reply::Ok);
            served.calls.close();
        };
        let (answer, ()) = tokio::join!(client.call(ManagerRequest::Shutdown), end);
        assert_eq!(answer.expect("answered"), Reply::Ok);
        served.server.await.expect("it ends");
        let gone = Client::connect_remote(&address, &key).await.map(drop);
        let gone = gone.expect_err("nobody is there");
        assert!(matches!(gone, ClientError::ConnectRemote { .. }) && gone.may_pass(), "{gone}");
    });
}
