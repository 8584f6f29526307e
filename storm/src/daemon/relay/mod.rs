//! The relay of a node, or of a login host. It connects the users of this host to the Machine
//! Manager of another host, each as themselves ([decision
//! 0151](../../../../docs/decisions/0151-the-door.md)).
//!
//! The relay listens on a Unix socket and takes the peer's user from the kernel. It opens a session
//! to the manager as that user and copies bytes both ways; it interprets no bytes.
//!
//! It has a thread of its own without real-time priority, so that no upload delays a switch. The
//! Node Manager's thread sends it updates through a channel, and never waits for it.

mod bounds;
mod client;
mod login_host;
mod names;
mod places;
mod upstream;

pub(crate) use login_host::run_relay;
pub(super) use upstream::News;

use super::socket_path::SocketFile;
use crate::cli::{NmOptions, RelayAt};
use crate::target::SYSTEM_SOCKET;
use bounds::Bounds;
use names::{Asking, Names};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send, setsockopt, sockopt};
use nix::unistd::{Uid, User, geteuid};
use places::Places;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use storm_backend_tcp::TcpRuntime;
use storm_mm::api::{ApiError, ErrorCode, refusal_line};
use storm_nm::live::RelayOfNode;
use storm_pl::DescriptorLimit;
use storm_primitives::Runtime;
use storm_session::Trust;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};
use upstream::{Keys, ManagerDoor, Upstream};

/// Name of the socket in the node's own directory.
const SOCKET_NAME: &str = "mm.sock";
/// Pause before accepting again when the process is out of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Bytes of answers that the kernel buffers for a client; the kernel doubles the number. The
/// Machine Manager has the same value.
const SEND_BUFFER_BYTES: usize = 32 << 10;
/// Threads that query the name service. There is one query at a time for each user.
const NAME_THREADS: usize = 4;
/// The uid that the kernel reports for users who have none here, unless the host is configured
/// otherwise.
const OVERFLOW_UID: u32 = 65534;
/// Stack of the relay's thread.
const STACK_BYTES: usize = 1 << 20;

/// A running relay. On drop it ends, its clients' connections are closed and its sockets removed.
#[derive(Debug)]
pub(super) struct Relay {
    news: mpsc::UnboundedSender<News>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    files: Vec<SocketFile>,
}

/// The relay of a node, if it has one. A node without its relay can still work, so a failure is
/// only logged. Call it after the keeper has started, because it makes a thread.
pub(super) fn of_node(
    options: &NmOptions,
    trust: Option<Trust>,
    dir: &Path,
    (manager, own): (SocketAddr, IpAddr),
) -> Option<Relay> {
    let at = options.relay.unwrap_or_else(|| {
        let is_elsewhere = manager.ip().to_canonical() != own.to_canonical();
        match (options.once, geteuid().is_root() && is_elsewhere) {
            (true, _) => RelayAt::None,
            (false, true) => RelayAt::System,
            (false, false) => RelayAt::Own,
        }
    });
    if at == RelayAt::None {
        return None;
    }
    let Some(trust) = trust else {
        if options.relay.is_some() || options.clients.is_some() {
            tracing::warn!("no relay for users: it needs the cluster's key (--key)");
        }
        return None;
    };
    let given = options.clients.as_ref().map(|clients| vec![clients.as_str().to_owned()]);
    let door = given.map_or(ManagerDoor::Unknown, ManagerDoor::At);
    let upstream = Upstream::new(Keys::Cluster(trust), door);
    let started = bind_for_node(at, dir).and_then(|bound| Relay::start(bound, upstream, true));
    started.inspect_err(|error| tracing::warn!(%error, "no relay for users")).ok()
}

/// The sockets of a node; the first is in its own directory.
fn bind_for_node(at: RelayAt, dir: &Path) -> io::Result<Vec<Bound>> {
    let mut bound = vec![SocketFile::bind(&dir.join(SOCKET_NAME))?];
    if at == RelayAt::System {
        match bind_system_socket() {
            Ok(system) => bound.push(system),
            Err(error) => tracing::warn!(
                socket = SYSTEM_SOCKET, %error, "users of this host are not let in there"
            ),
        }
    }
    Ok(bound)
}

/// A socket with its file.
type Bound = (std::os::unix::net::UnixListener, SocketFile);

impl Relay {
    /// Serves the users of these sockets, root only if `lets_in_root`.
    fn start(bound: Vec<Bound>, upstream: Upstream, lets_in_root: bool) -> io::Result<Relay> {
        let (listeners, files): (Vec<_>, Vec<_>) = bound.into_iter().unzip();
        for file in &files {
            tracing::info!(socket = %file.path().display(), "users of this host are let in");
        }
        let (news, heard) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(NAME_THREADS)
            .build()?;
        let serving = move || {
            let served = serve(listeners, (upstream, lets_in_root), heard, ended);
            if let Err(error) = LocalSet::new().block_on(&runtime, served) {
                tracing::error!(%error, "users of this host are not let in any more");
            }
            // A name service that does not answer is not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("storm-relay".to_owned());
        let thread = Some(thread.stack_size(STACK_BYTES).spawn(serving)?);
        Ok(Relay { news, end: Some(end), thread, files })
    }

    /// The relay for the jobs of this node, which reaches the manager at `manager`. If `is_given`,
    /// the command line names the address where the manager listens, and the manager's own
    /// announcement is ignored.
    pub(super) fn for_jobs(&self, manager: SocketAddr, is_given: bool) -> RelayOfNode {
        let news = self.news.clone();
        let hear = move |clients| {
            if is_given {
                return true;
            }
            let door = ManagerDoor::told(clients, manager);
            let is_open = matches!(door, ManagerDoor::At(_));
            // A relay that has ended needs no updates.
            news.send(News::Door(door)).is_ok() && is_open
        };
        // The first is in the node's own directory.
        let socket = self.files.first().map(|file| file.path().to_owned()).unwrap_or_default();
        RelayOfNode { socket, hear: Arc::new(hear) }
    }

    /// Sends the relay an update. Never waits.
    pub(super) fn tell(&self, news: News) {
        // A relay that has ended needs no updates.
        let _ = self.news.send(news);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.files.clear();
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Binds the socket of a system-wide manager. Its directory must be root's alone: otherwise
/// somebody else could put a socket in its place.
fn bind_system_socket() -> io::Result<Bound> {
    let path = Path::new(SYSTEM_SOCKET);
    // A directory that is not there is made by root.
    if let Some(Ok(directory)) = path.parent().map(fs::metadata)
        && (directory.uid() != 0 || directory.mode() & 0o022 != 0)
    {
        let why = "its directory is not root's alone";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    SocketFile::bind(path)
}

/// Serves clients until `ended`.
async fn serve(
    listeners: Vec<std::os::unix::net::UnixListener>,
    (upstream, lets_in_root): (Upstream, bool),
    mut heard: mpsc::UnboundedReceiver<News>,
    ended: oneshot::Receiver<()>,
) -> io::Result<()> {
    let runtime = TcpRuntime::new()?;
    let own = geteuid();
    let limit = DescriptorLimit::of_this_process().0;
    let bounds = Bounds::with_descriptors(limit, vec![0, own.as_raw()]);
    let front = Rc::new(Front {
        names: Names::by(runtime.clone(), ask_host),
        runtime,
        places: Places::new(bounds.clone()),
        bounds,
        upstream,
        only: (!own.is_root()).then(|| own.as_raw()),
        lets_in_root,
        overflow: overflow_uid(),
    });
    for listener in listeners {
        spawn_local(front.clone().accept(UnixListener::from_std(listener)?));
    }
    let hear = async {
        while let Some(news) = heard.recv().await {
            front.upstream.hear(news);
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = ended => {}
        () = hear => {}
    }
    Ok(())
}

/// The side of a relay that clients see.
struct Front {
    runtime: TcpRuntime,
    names: Rc<Names<TcpRuntime>>,
    places: Places,
    bounds: Bounds,
    upstream: Upstream,
    /// The only user that is let in.
    only: Option<u32>,
    lets_in_root: bool,
    overflow: u32,
}

impl Front {
    async fn accept(self: Rc<Self>, listener: UnixListener) {
        let mut accepts = true;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    accepts = true;
                    self.welcome(stream);
                }
                Err(error) => {
                    if std::mem::take(&mut accepts) {
                        tracing::warn!(%error, "cannot accept a user of this host; users wait");
                    }
                    self.runtime.sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    fn welcome(self: &Rc<Self>, stream: UnixStream) {
        let uid = match stream.peer_cred() {
            Ok(peer) => peer.uid(),
            Err(error) => {
                tracing::warn!(%error, "cannot tell who a client is; it is not served");
                return;
            }
        };
        if let Err(error) = self.check(uid) {
            turn_away(&stream, error);
            return;
        }
        let Some(place) = self.places.take(uid) else {
            tracing::debug!(uid, "too many clients");
            turn_away(&stream, too_many_clients());
            return;
        };
        if has_spoken(&stream) {
            place.speaks();
        }
        if let Err(error) = setsockopt(&stream, sockopt::SndBuf, &SEND_BUFFER_BYTES) {
            tracing::debug!(%error, "a client has a send buffer of the usual size");
        }
        let front = self.clone();
        spawn_local(async move {
            let open = async {
                let name = front.names.of(uid).await.ok_or_else(|| no_name(uid))?;
                front.upstream.open(name, &front.runtime, front.bounds.session).await
            };
            client::serve(&front.runtime, stream, place, &front.bounds, open).await;
        });
    }

    /// Refuses users who cannot be anybody at the manager.
    fn check(&self, uid: u32) -> Result<(), ApiError> {
        if uid == self.overflow {
            let message = "this host cannot tell which user you are (an unmapped user id)";
            return Err(ApiError::new(ErrorCode::NotPermitted, message)
                .hint("are you in a container? use `storm` outside of it"));
        }
        if uid == 0 && !self.lets_in_root {
            let message = "a login host cannot speak for root";
            return Err(ApiError::new(ErrorCode::NotPermitted, message)
                .hint("an administrator uses a key (--manager and --key; `storm key client`)"));
        }
        match self.only {
            Some(only) if only != uid => {
                let message = format!("the daemon of user {only} lets in no other user here");
                Err(ApiError::new(ErrorCode::NotPermitted, message)
                    .hint("a daemon that root runs lets in every user"))
            }
            _ => Ok(()),
        }
    }
}

/// Queries the host's user database, away from this thread.
fn ask_host(uid: u32) -> Asking {
    let asking = tokio::task::spawn_blocking(move || User::from_uid(Uid::from_raw(uid)));
    Box::pin(async move {
        let user = asking.await.map_err(io::Error::other)??;
        Ok(user.and_then(|user| user.name.parse().ok()))
    })
}

/// Sends a client the reason why it is not served. It must cost nothing, so bytes that the socket
/// does not take are lost.
fn turn_away(stream: &UnixStream, error: ApiError) {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let _ = send(stream.as_raw_fd(), &refusal_line(error), flags);
}

/// Whether the client has sent something already, as `storm` does at once.
fn has_spoken(stream: &UnixStream) -> bool {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    loop {
        match recv(stream.as_raw_fd(), &mut [0], flags) {
            Err(Errno::EINTR) => {}
            seen => return seen.is_ok_and(|length| length > 0),
        }
    }
}

fn overflow_uid() -> u32 {
    let told = fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    told.and_then(|text| text.trim().parse().ok()).unwrap_or(OVERFLOW_UID)
}

fn too_many_clients() -> ApiError {
    ApiError::new(ErrorCode::TooManyClients, "this host has too many clients, or too many of yours")
        .hint("try again later")
}

fn no_name(uid: u32) -> ApiError {
    ApiError::new(ErrorCode::NotPermitted, format!("this host knows no name of user {uid}"))
        .hint("`id` must show your name on this host, and the same name on the manager's")
}
