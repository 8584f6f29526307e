//! The key of a login host's door: it vouches for the users of that host.
//!
//! A door key is derived from the cluster key and a random serial number. The secret of a user's
//! session is derived from the door key and the user's name. The manager derives both again from
//! the contents of an opening, so it keeps no table. A door key opens no session of a member, of a
//! client key or of another door.
//!
//! The text of a key is a line `storm-door-key-1 CLUSTER SERIAL HEX`. Which users a door may speak
//! for is up to the manager.

use crate::client_key::{ClientSerial, NAME_BYTES, UserName, written_name};
use crate::cluster_key::{ClusterKey, KeyId};
use crate::key_text::{self, NotAKey, Secret};
use std::fmt;
use std::io;
use std::str::FromStr;
use zeroize::Zeroizing;

/// The form of a written key.
const LINE: &str = "storm-door-key-1 CLUSTER SERIAL KEY";
/// The first word.
const FORMAT: &str = "storm-door-key-1";
/// The purpose for which door keys are derived, and only they (BLAKE3's context string).
const CONTEXT: &str = "storm 2026-11-28 key of a login host's door";
/// The purpose for which the secrets of users' sessions are derived from a door key.
const USER_CONTEXT: &str = "storm 2026-11-28 user of a login host's door";

/// A login host's secret for a cluster, cleared from memory on drop and never shown by `Debug`.
#[derive(Clone)]
pub struct DoorKey {
    cluster: KeyId,
    serial: ClientSerial,
    secret: Secret,
}

impl DoorKey {
    /// Makes a new key from the key of a cluster.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn derive(cluster: &ClusterKey) -> io::Result<DoorKey> {
        Ok(DoorKey::again(cluster, ClientSerial::random()?))
    }

    /// Derives the key with an existing serial number.
    pub(super) fn again(cluster: &ClusterKey, serial: ClientSerial) -> DoorKey {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        hasher.update(cluster.secret().as_ref()).update(serial.bytes());
        let secret = Zeroizing::new(*hasher.finalize().as_bytes());
        DoorKey { cluster: cluster.id(), serial, secret }
    }

    /// The name of the cluster key that this key was derived from.
    pub fn cluster(&self) -> KeyId {
        self.cluster
    }

    /// The key's serial number.
    pub fn serial(&self) -> ClientSerial {
        self.serial
    }

    /// The text of the key; the only way to obtain the secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        let (cluster, serial) = (self.cluster.to_string(), self.serial.to_string());
        key_text::written(&[FORMAT, &cluster, &serial], &self.secret)
    }

    /// The secret of the sessions of a user of the host.
    pub(super) fn secret_of(&self, user: &UserName) -> Secret {
        let mut hasher = blake3::Hasher::new_derive_key(USER_CONTEXT);
        // The first has a fixed length, so no two inputs have the same concatenation.
        hasher.update(self.secret.as_ref()).update(user.as_str().as_bytes());
        Zeroizing::new(*hasher.finalize().as_bytes())
    }

    /// The data that identify the session of a user to the manager.
    pub(super) fn name_of(&self, user: &UserName) -> [u8; NAME_BYTES] {
        written_name(self.cluster, self.serial, user)
    }
}

impl FromStr for DoorKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<DoorKey, NotAKey> {
        let wrong = NotAKey::Format { line: LINE };
        let [_, cluster, serial, digits] = key_text::words(text, LINE)?;
        Ok(DoorKey {
            cluster: KeyId(*key_text::from_hex(cluster).ok_or(wrong)?),
            serial: serial.parse().map_err(|_| wrong)?,
            secret: key_text::from_hex(digits).ok_or(NotAKey::Digits)?,
        })
    }
}

impl fmt::Debug for DoorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DoorKey({}, cluster {})", self.serial, self.cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_key::ClientKey;

    #[test]
    fn a_door_key_is_derived_again_and_makes_other_secrets_than_client_keys() {
        let cluster = ClusterKey::generate().expect("random bytes");
        let door = DoorKey::derive(&cluster).expect("random bytes");
        let (alice, bob): (UserName, UserName) =
            ("alice".parse().expect("a name"), "bob".parse().expect("a name"));
        let again = DoorKey::again(&cluster, door.serial);
        assert!(again.secret_of(&alice) == door.secret_of(&alice));
        assert!(door.secret_of(&alice) != door.secret_of(&bob));
        let other = DoorKey::derive(&cluster).expect("random bytes");
        assert!(other.secret_of(&alice) != door.secret_of(&alice));
        let client = ClientKey::again(&cluster, alice.clone(), door.serial);
        assert!(*client.secret() != door.secret_of(&alice) && *client.secret() != door.secret);
        assert!(door.secret != *cluster.secret());
    }

    #[test]
    fn a_door_key_survives_being_written_and_is_not_shown() {
        let cluster = ClusterKey::generate().expect("random bytes");
        let door = DoorKey::derive(&cluster).expect("random bytes");
        let text = door.to_text();
        let read: DoorKey = text.parse().expect("as written");
        assert!(read.secret == door.secret && read.serial == door.serial);
        let secret = text.split_whitespace().last().expect("four words");
        assert!(!format!("{door:?}").contains(&secret[..8]));
        assert!(text.parse::<ClientKey>().is_err() && text.parse::<ClusterKey>().is_err());
        assert!(cluster.to_text().parse::<DoorKey>().is_err());
    }
}
