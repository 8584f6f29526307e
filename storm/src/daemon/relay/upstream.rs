//! The way from a relay to the Machine Manager, as a user of this host.
//!
//! The relay derives the user's key from the cluster's, with a fresh serial number for each client.
//! No byte of the client is sent before the manager has proved that it holds the cluster key.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;
use storm_mm::api::{ApiError, ErrorCode};
use storm_primitives::Instant;
use storm_rm::message::ClientsAddress;
use storm_session::{
    ClientKey, ClientSessionError, ClusterKey, SealedStream, Trust, UserName, connect_client,
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
    /// At an address, `HOST:PORT`.
    At(String),
}

impl ManagerDoor {
    /// Where this node finds what the manager tells, if it reaches the manager at `manager`.
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
            false => ManagerDoor::At(address.to_string()),
        }
    }
}

/// News for a relay.
#[derive(Debug)]
pub(in crate::daemon) enum News {
    /// The node's keys, read anew.
    Trust(Trust),
    /// Where the manager listens.
    Door(ManagerDoor),
}

/// What a relay knows of the manager.
#[derive(Debug)]
pub(super) struct Upstream {
    present: RefCell<(Trust, ManagerDoor)>,
    logged: RefCell<Option<Instant>>,
}

impl Upstream {
    pub(super) fn new(trust: Trust, door: ManagerDoor) -> Upstream {
        Upstream { present: RefCell::new((trust, door)), logged: RefCell::default() }
    }

    pub(super) fn hear(&self, news: News) {
        let mut present = self.present.borrow_mut();
        match news {
            News::Trust(trust) => present.0 = trust,
            News::Door(door) => present.1 = door,
        }
    }

    /// Opens a session as this user.
    pub(super) async fn open(
        &self,
        user: UserName,
        now: Instant,
    ) -> Result<SealedStream, ApiError> {
        let (trust, door) = self.present.borrow().clone();
        let address = match door {
            ManagerDoor::Unknown => return Err(not_joined()),
            ManagerDoor::Closed => return Err(closed()),
            ManagerDoor::At(address) => address,
        };
        let failed = match connect(&address, trust.key(), &user).await {
            Ok(session) => return Ok(session),
            // While the cluster key is being replaced, the manager may have the former one.
            Err(ClientSessionError::RefusedKey { theirs, ours }) => match trust.find(theirs) {
                Some(key) if theirs != ours => match connect(&address, key, &user).await {
                    Ok(session) => return Ok(session),
                    Err(error) => error,
                },
                _ => ClientSessionError::RefusedKey { theirs, ours },
            },
            Err(error) => error,
        };
        self.log(&address, &failed, now);
        Err(refusal(&address, &failed))
    }

    fn log(&self, address: &str, error: &ClientSessionError, now: Instant) {
        let mut logged = self.logged.borrow_mut();
        if logged.is_none_or(|last| now >= last + LOG_INTERVAL) {
            *logged = Some(now);
            tracing::warn!(address, %error, "users of this host do not reach the manager");
        }
    }
}

async fn connect(
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
            format!("the Machine Manager cannot be reached from this node at {address}"),
            "is it up, and does it listen there for users (`listen` in its [clients])?",
        ),
        ClientSessionError::UnprovenManager { .. } => (
            ErrorCode::Internal,
            format!("{address} does not prove that it is the Machine Manager of this cluster"),
            "tell the administrator: another program may listen there",
        ),
        ClientSessionError::Version { .. } => (
            ErrorCode::VersionMismatch,
            format!("the Machine Manager at {address} has another version than this node"),
            "all daemons of a cluster need the same version",
        ),
        ClientSessionError::RefusedKey { .. }
        | ClientSessionError::RefusedUser { .. }
        | ClientSessionError::NoKey
        | ClientSessionError::NoUser
        | ClientSessionError::OtherKey { .. }
        | ClientSessionError::UnprovenUser { .. } => (
            ErrorCode::Internal,
            format!("the Machine Manager at {address} refuses the key of this node"),
            "tell the administrator: the node needs the cluster's present key",
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
        let at = |address: &str| ManagerDoor::At(address.to_owned());
        assert_eq!(told("10.0.0.9:7118", "10.0.0.1:7117"), at("10.0.0.9:7118"));
        assert_eq!(told("0.0.0.0:7118", "10.0.0.1:7117"), at("10.0.0.1:7118"));
        assert_eq!(told("[::]:7118", "[fd00::1]:7117"), at("[fd00::1]:7118"));
        assert_eq!(told("127.0.0.1:7118", "127.0.0.1:7117"), at("127.0.0.1:7118"));
        assert_eq!(told("127.0.0.1:7118", "10.0.0.1:7117"), ManagerDoor::Closed, "its loopback");
        let manager = "10.0.0.1:7117".parse().expect("an address");
        assert_eq!(ManagerDoor::told(None, manager), ManagerDoor::Closed);
    }
}
