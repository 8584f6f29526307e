//! The way from a relay to the Machine Manager, as a user of this host.
//!
//! A node derives the user's key from the cluster's, with a fresh serial number for each client. A
//! login host has a door key, which vouches for all its users but root.
//!
//! No byte of the client is sent before the manager has proved that it holds the cluster key.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use storm_mm::api::{ApiError, ErrorCode};
use storm_primitives::{Instant, Runtime};
use storm_rm::message::ClientsAddress;
use storm_session::{
    ClientKey, ClientSessionError, ClusterKey, DoorKey, SealedStream, Trust, UserName,
    connect_by_door, connect_client,
};

/// Least time between two lines of the log about a manager that cannot be reached.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Where the Machine Manager listens for users of other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::daemon) enum ManagerDoor {
    /// This node has not joined its cluster yet.
    Unknown,
    /// It lets in no users of other hosts, or listens on the loopback of another host.
    Closed,
    /// At one of these addresses, `HOST:PORT`.
    At(Vec<String>),
}

/// The key by which a relay vouches for users.
#[derive(Clone, Debug)]
pub(super) enum Keys {
    /// A node's.
    Cluster(Trust),
    /// A login host's.
    Door(DoorKey),
}

impl ManagerDoor {
    /// The door that the manager announces in `clients`, as this node reaches it. The node reaches
    /// the manager itself at `manager`.
    pub(super) fn told(clients: Option<ClientsAddress>, manager: SocketAddr) -> ManagerDoor {
        let Some(ClientsAddress { host, port }) = clients else { return ManagerDoor::Closed };
        let mut address = manager;
        if let Some(host) = host {
            address.set_ip(host);
        }
        address.set_port(port);
        let is_inside = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        match is_inside(address) && !is_inside(manager) {
            true => ManagerDoor::Closed,
            false => ManagerDoor::At(vec![address.to_string()]),
        }
    }
}

/// An update for a relay.
#[derive(Debug)]
pub(in crate::daemon) enum News {
    /// The node's keys, read anew.
    Trust(Trust),
    /// Where the manager listens.
    Door(ManagerDoor),
}

/// The keys of a relay, and its view of the manager.
#[derive(Debug)]
pub(super) struct Upstream {
    present: RefCell<(Keys, ManagerDoor)>,
    /// The address that was good last, by its number.
    good: Cell<usize>,
    logged: RefCell<Option<Instant>>,
}

impl Upstream {
    pub(super) fn new(keys: Keys, door: ManagerDoor) -> Upstream {
        let (good, logged) = (Cell::default(), RefCell::default());
        Upstream { present: RefCell::new((keys, door)), good, logged }
    }

    pub(super) fn hear(&self, news: News) {
        let mut present = self.present.borrow_mut();
        match news {
            News::Trust(trust) => present.0 = Keys::Cluster(trust),
            News::Door(door) => present.1 = door,
        }
    }

    /// Opens a session as this user with the first manager that proves itself, the last good one
    /// first. All of them together take `patience` at most.
    pub(super) async fn open<R: Runtime>(
        &self,
        user: UserName,
        runtime: &R,
        patience: Duration,
    ) -> Result<SealedStream, ApiError> {
        let (keys, door) = self.present.borrow().clone();
        let addresses = match door {
            ManagerDoor::Unknown => return Err(not_joined()),
            ManagerDoor::Closed => return Err(closed()),
            ManagerDoor::At(addresses) => addresses,
        };
        let count = addresses.len();
        let patience = patience / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let first = self.good.get();
        let mut failed = None;
        for number in (0..count).map(|step| (first + step) % count) {
            let address = addresses[number].as_str();
            let tried = runtime.timeout(patience, keys.connect(address, &user)).await;
            let late = || Err(io::Error::from(io::ErrorKind::TimedOut).into());
            match tried.unwrap_or_else(late) {
                Ok(session) => {
                    self.good.set(number);
                    return Ok(session);
                }
                Err(error) => {
                    self.log(address, &error, runtime.now());
                    failed = Some(refusal(address, &error));
                }
            }
        }
        Err(failed.unwrap_or_else(closed))
    }

    fn log(&self, address: &str, error: &ClientSessionError, now: Instant) {
        let mut logged = self.logged.borrow_mut();
        if logged.is_none_or(|last| now >= last + LOG_INTERVAL) {
            *logged = Some(now);
            tracing::warn!(address, %error, "users of this host do not reach the manager");
        }
    }
}

impl Keys {
    async fn connect(
        &self,
        address: &str,
        user: &UserName,
    ) -> Result<SealedStream, ClientSessionError> {
        let trust = match self {
            Keys::Door(door) => return connect_by_door(address, door, user).await,
            Keys::Cluster(trust) => trust,
        };
        match connect_as(address, trust.key(), user).await {
            // While the cluster key is being replaced, the manager may have the former one.
            Err(ClientSessionError::RefusedKey { theirs, ours }) => match trust.find(theirs) {
                Some(key) if theirs != ours => connect_as(address, key, user).await,
                _ => Err(ClientSessionError::RefusedKey { theirs, ours }),
            },
            connected => connected,
        }
    }
}

async fn connect_as(
    address: &str,
    key: &ClusterKey,
    user: &UserName,
) -> Result<SealedStream, ClientSessionError> {
    connect_client(address, &ClientKey::derive(key, user.clone())?).await
}

fn not_joined() -> ApiError {
    ApiError::new(ErrorCode::ManagerAway, "this node has not joined its cluster yet")
        .hint("try again; the log of the Node Manager (`storm nm`) says what it waits for")
}

fn closed() -> ApiError {
    let message = "the Machine Manager does not listen for users of this host";
    ApiError::new(ErrorCode::NotPermitted, message).hint(
        "the administrator sets `listen` in [clients] of its configuration, to an address that nodes \
         reach",
    )
}

/// The refusal for a client whose session could not be made. Only errors that may pass are
/// [`ErrorCode::ManagerAway`].
fn refusal(address: &str, error: &ClientSessionError) -> ApiError {
    let (code, message, hint) = match error {
        ClientSessionError::Io(_) | ClientSessionError::Closed => (
            ErrorCode::ManagerAway,
            format!("the Machine Manager cannot be reached from this host at {address}"),
            "is it up, and does it listen there for users (`listen` in its [clients])?",
        ),
        ClientSessionError::UnprovenManager { .. } => (
            ErrorCode::Internal,
            format!("{address} does not prove that it is the Machine Manager of this cluster"),
            "tell the administrator: another program may listen there",
        ),
        ClientSessionError::Version { .. } => (
            ErrorCode::VersionMismatch,
            format!("the Machine Manager at {address} has another version than this host"),
            "all daemons of a cluster need the same version",
        ),
        ClientSessionError::RefusedKey { .. }
        | ClientSessionError::RefusedUser { .. }
        | ClientSessionError::NoKey
        | ClientSessionError::NoUser
        | ClientSessionError::OtherKey { .. }
        | ClientSessionError::UnprovenUser { .. } => (
            ErrorCode::Internal,
            format!("the Machine Manager at {address} refuses the key of this host"),
            "tell the administrator: this host needs the cluster's present key, or a door key made from it",
        ),
    };
    ApiError::new(code, message).why(error.to_string()).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_where_it_says_or_where_the_node_reaches_it() {
        let told = |listens: &str, manager: &str| {
            let listens: SocketAddr = listens.parse().expect("an address");
            ManagerDoor::told(Some(listens.into()), manager.parse().expect("an address"))
        };
        let at = |address: &str| ManagerDoor::At(vec![address.to_owned()]);
        assert_eq!(told("10.0.0.9:7118", "10.0.0.1:7117"), at("10.0.0.9:7118"));
        assert_eq!(told("0.0.0.0:7118", "10.0.0.1:7117"), at("10.0.0.1:7118"));
        assert_eq!(told("[::]:7118", "[fd00::1]:7117"), at("[fd00::1]:7118"));
        assert_eq!(told("127.0.0.1:7118", "127.0.0.1:7117"), at("127.0.0.1:7118"));
        assert_eq!(told("127.0.0.1:7118", "10.0.0.1:7117"), ManagerDoor::Closed, "its loopback");
        let manager = "10.0.0.1:7117".parse().expect("an address");
        assert_eq!(ManagerDoor::told(None, manager), ManagerDoor::Closed);
    }
}
