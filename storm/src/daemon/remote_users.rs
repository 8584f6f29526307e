//! Users on other hosts: where they connect, and their accounts on this host.
//!
//! `storm_session` has proved their identity before.

use super::DaemonError;
use super::settings::Settings;
use crate::config::Revoked;
use nix::unistd::User;
use std::sync::Arc;
use storm_mm::api::{ApiError, ErrorCode, RemoteClients};
use storm_rm::Owner;
use storm_session::{RemoteUser, UserName, Via};
use tokio::net::TcpListener;

/// The settings with which the client API's server admits users on other hosts. `None` if the
/// configuration has none.
pub(super) fn remote_clients(
    settings: &Settings,
) -> Result<Option<(TcpListener, RemoteClients)>, DaemonError> {
    let Some((listen, revoked)) = settings.clients.clone() else { return Ok(None) };
    // The configuration check requires a key.
    let Some(trust) = settings.trust.clone() else {
        return Err(DaemonError::KeyNeeded { address: listen });
    };
    let listener = storm_session::listen(listen)
        .map_err(|source| DaemonError::ListenClients { listen, source })?;
    let admit = Arc::new(move |user: &RemoteUser| admit(user, &revoked));
    Ok(Some((listener, RemoteClients::new(trust, admit))))
}

/// The local account of the user. May send a request to a name service.
fn admit(user: &RemoteUser, revoked: &Revoked) -> Result<Owner, ApiError> {
    let name = &user.name;
    let refuse = |message| Err(ApiError::new(ErrorCode::NotPermitted, message));
    let is_revoked = || {
        let message = match user.via {
            Via::Key(serial) => format!("key {serial} of user {name} does not count any more"),
            Via::Door(serial) => {
                format!("key {serial} of this login host, or user {name}, does not count any more")
            }
        };
        refuse(message).map_err(|error| error.hint("ask the administrator of the cluster"))
    };
    if revoked.users.contains(name) || revoked.keys.contains(&user.via.serial()) {
        return is_revoked();
    }
    match User::from_name(name.as_str()) {
        // Some directories accept several spellings of a user's name.
        Ok(Some(found))
            if found.name.parse().is_ok_and(|own: UserName| revoked.users.contains(&own)) =>
        {
            is_revoked()
        }
        // Every root of a login host could be this user.
        Ok(Some(found)) if found.uid.is_root() && matches!(user.via, Via::Door(_)) => {
            refuse(format!("a login host cannot speak for root, and {name} is root"))
                .map_err(|error| error.hint("an administrator uses a key (`storm key client`)"))
        }
        Ok(Some(found)) => Ok(Owner { uid: found.uid.as_raw(), gid: found.gid.as_raw() }),
        Ok(None) => refuse(format!("the Machine Manager's host knows no user {name}")),
        Err(error) => {
            let message = format!("the Machine Manager's host cannot tell who {name} is");
            Err(ApiError::new(ErrorCode::Internal, message).why(error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(name: &str) -> RemoteUser {
        let serial = "00112233445566ff".parse().expect("a serial number");
        RemoteUser { name: name.parse().expect("a name"), via: Via::Key(serial) }
    }

    #[test]
    fn a_user_is_who_the_host_says_unless_revoked() {
        let root = key_of("root");
        assert_eq!(admit(&root, &Revoked::default()), Ok(Owner { uid: 0, gid: 0 }));
        let users = Revoked { users: [root.name.clone()].into(), ..Revoked::default() };
        let keys = Revoked { keys: [root.via.serial()].into(), ..Revoked::default() };
        for revoked in [users, keys] {
            let refused = admit(&root, &revoked).expect_err("revoked");
            assert!(refused.message.contains("does not count any more"), "{refused}");
        }
        let by_door = RemoteUser { via: Via::Door(root.via.serial()), ..root.clone() };
        let refused = admit(&by_door, &Revoked::default()).expect_err("root");
        assert!(refused.message.contains("cannot speak for root"), "{refused}");
        let daemon = RemoteUser { name: "daemon".parse().expect("a name"), ..by_door };
        assert!(admit(&daemon, &Revoked::default()).is_ok_and(|owner| owner.uid != 0));
        let refused = admit(&key_of("no-such-user"), &Revoked::default()).expect_err("unknown");
        assert_eq!(refused.code, ErrorCode::NotPermitted);
    }
}
