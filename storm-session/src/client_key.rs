//! The key with which a user commands a cluster from another host.
//!
//! The key is derived from the cluster key, the user's name and a random serial number. The manager
//! derives it again from the contents of an opening, so it keeps no table. One key of a user can be
//! revoked and replaced.
//!
//! The text of a key is a line `storm-client-key-1 USER CLUSTER SERIAL HEX`.

use crate::cluster_key::{ClusterKey, ID_BYTES, KeyId};
use crate::key_text::{self, NotAKey, Secret};
use std::fmt;
use std::io;
use std::str::FromStr;
use thiserror::Error;
use zeroize::Zeroizing;

/// The form of a written key.
const LINE: &str = "storm-client-key-1 USER CLUSTER SERIAL KEY";
/// The first word.
const FORMAT: &str = "storm-client-key-1";
/// The purpose for which client keys are derived, and only they (BLAKE3's context string).
const CONTEXT: &str = "storm 2026-11-21 client key of a user";
/// Length of a serial number in bytes: long enough that no two keys share it.
const SERIAL_BYTES: usize = 8;
/// Longest user name in bytes: twice what Linux distributions allow, as some directories append a
/// domain.
const MAX_NAME_BYTES: usize = 64;
/// Length of the data that identify a key to the manager: the cluster key's name, the serial
/// number, and the user's name padded with zeros.
pub(super) const NAME_BYTES: usize = ID_BYTES + SERIAL_BYTES + MAX_NAME_BYTES;

/// A user's secret for a cluster, cleared from memory on drop and never shown by `Debug`.
#[derive(Clone)]
pub struct ClientKey {
    user: UserName,
    cluster: KeyId,
    serial: ClientSerial,
    secret: Secret,
}

/// A user's name on the Machine Manager's host: 1 to 64 visible ASCII characters without `:`, `/`
/// and `#`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(String);

/// Distinguishes the keys of a user. The number is random, but not secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientSerial([u8; SERIAL_BYTES]);

/// The text is not a user's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a user's name is 1 to {MAX_NAME_BYTES} visible ASCII characters without ':', '/' and '#'")]
pub struct NotAUserName;

/// The text is not a serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the serial number of a client key is {} hexadecimal digits", 2 * SERIAL_BYTES)]
pub struct NotASerial;

impl ClientKey {
    /// Makes a new key for `user` from the key of a cluster.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn derive(cluster: &ClusterKey, user: UserName) -> io::Result<ClientKey> {
        Ok(ClientKey::again(cluster, user, ClientSerial::random()?))
    }

    /// Derives the key of `user` with an existing serial number.
    pub(super) fn again(cluster: &ClusterKey, user: UserName, serial: ClientSerial) -> ClientKey {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        // The first two have a fixed length, so no two inputs have the same concatenation.
        hasher.update(cluster.secret().as_ref()).update(&serial.0).update(user.0.as_bytes());
        let secret = Zeroizing::new(*hasher.finalize().as_bytes());
        ClientKey { user, cluster: cluster.id(), serial, secret }
    }

    /// The key's user.
    pub fn user(&self) -> &UserName {
        &self.user
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
        key_text::written(&[FORMAT, &self.user.0, &cluster, &serial], &self.secret)
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The data that identify the key to the manager.
    pub(super) fn name(&self) -> [u8; NAME_BYTES] {
        written_name(self.cluster, self.serial, &self.user)
    }
}

impl ClientSerial {
    pub(super) fn random() -> io::Result<ClientSerial> {
        let mut serial = [0; SERIAL_BYTES];
        getrandom::fill(&mut serial).map_err(io::Error::other)?;
        Ok(ClientSerial(serial))
    }

    pub(super) fn bytes(&self) -> &[u8; SERIAL_BYTES] {
        &self.0
    }
}

/// The data that identify a user's session to the manager.
pub(super) fn written_name(
    cluster: KeyId,
    serial: ClientSerial,
    user: &UserName,
) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    let (ids, rest) = name.split_at_mut(ID_BYTES + SERIAL_BYTES);
    ids[..ID_BYTES].copy_from_slice(&cluster.0);
    ids[ID_BYTES..].copy_from_slice(&serial.0);
    rest[..user.0.len()].copy_from_slice(user.0.as_bytes());
    name
}

/// Parses the data of [`written_name`]; `None` if they are not valid.
pub(super) fn read_name(name: &[u8; NAME_BYTES]) -> Option<(KeyId, ClientSerial, UserName)> {
    let (ids, user) = name.split_at(ID_BYTES + SERIAL_BYTES);
    let (id, serial) = ids.split_at(ID_BYTES);
    let length = user.iter().position(|&byte| byte == 0).unwrap_or(user.len());
    let (user, filling) = user.split_at(length);
    let user = std::str::from_utf8(user).ok()?.parse().ok()?;
    let is_filling = filling.iter().all(|&byte| byte == 0);
    let (id, serial) = (id.try_into().ok()?, serial.try_into().ok()?);
    is_filling.then_some((KeyId(id), ClientSerial(serial), user))
}

impl FromStr for ClientKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<ClientKey, NotAKey> {
        let wrong = NotAKey::Format { line: LINE };
        let [_, user, cluster, serial, digits] = key_text::words(text, LINE)?;
        Ok(ClientKey {
            user: user.parse().map_err(|_| wrong)?,
            cluster: KeyId(*key_text::from_hex(cluster).ok_or(wrong)?),
            serial: serial.parse().map_err(|_| wrong)?,
            secret: key_text::from_hex(digits).ok_or(NotAKey::Digits)?,
        })
    }
}

impl UserName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for UserName {
    type Err = NotAUserName;

    fn from_str(text: &str) -> Result<UserName, NotAUserName> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b':' | b'/' | b'#');
        let fits = (1..=MAX_NAME_BYTES).contains(&text.len());
        if fits && text.bytes().all(plain) {
            Ok(UserName(text.to_owned()))
        } else {
            Err(NotAUserName)
        }
    }
}

impl FromStr for ClientSerial {
    type Err = NotASerial;

    fn from_str(text: &str) -> Result<ClientSerial, NotASerial> {
        key_text::from_hex(text).map(|bytes| ClientSerial(*bytes)).ok_or(NotASerial)
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ClientSerial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ClientSerial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientSerial({self})")
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientKey({} of {}, cluster {})", self.serial, self.user, self.cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> ClusterKey {
        ClusterKey::generate().expect("random bytes")
    }

    fn user(name: &str) -> UserName {
        name.parse().expect("a name")
    }

    fn key(cluster: &ClusterKey, name: &str) -> ClientKey {
        ClientKey::derive(cluster, user(name)).expect("random bytes")
    }

    #[test]
    fn a_key_is_derived_again_from_its_name() {
        let cluster = cluster();
        let longest = "x".repeat(MAX_NAME_BYTES);
        for name in ["alice", "a", "LAB\\alice", "alice@lab.example.org", &longest] {
            let key = key(&cluster, name);
            let (id, serial, user) = read_name(&key.name()).expect("our own");
            assert!(id == cluster.id() && serial == key.serial && user == key.user);
            let again = ClientKey::again(&cluster, user, serial);
            assert!(again.secret == key.secret);
            let read: ClientKey = key.to_text().parse().expect("as written");
            assert!(read.secret == key.secret && read.name() == key.name());
        }
    }

    #[test]
    fn every_part_of_the_name_makes_another_key() {
        let cluster = cluster();
        let alice = key(&cluster, "alice");
        let others = [
            ClientKey::again(&cluster, user("alicf"), alice.serial),
            ClientKey::again(&cluster, user("root"), alice.serial),
            key(&cluster, "alice"),
            ClientKey::again(&self::cluster(), user("alice"), alice.serial),
        ];
        assert!(others.iter().all(|other| other.secret != alice.secret));
        assert!(alice.secret != *cluster.secret());
    }

    #[test]
    fn a_text_without_a_user_is_not_a_name() {
        let too_long = "x".repeat(MAX_NAME_BYTES + 1);
        for wrong in ["", "two words", "root:0", "../etc", "tab\t", "nül", "a\nb", &too_long] {
            assert_eq!(wrong.parse::<UserName>(), Err(NotAUserName), "{wrong:?}");
        }
        let mut name = key(&cluster(), "alice").name();
        name[NAME_BYTES - 1] = b'x';
        assert!(read_name(&name).is_none(), "what follows the name is zeros");
        name[ID_BYTES + SERIAL_BYTES..].fill(0);
        assert!(read_name(&name).is_none(), "no name");
        name[ID_BYTES + SERIAL_BYTES..].fill(0xff);
        assert!(read_name(&name).is_none(), "no text");
    }

    #[test]
    fn a_key_is_not_shown_and_another_kind_is_distinguished() {
        let cluster = cluster();
        let key = key(&cluster, "alice");
        let text = key.to_text();
        let secret = text.split_whitespace().last().expect("five words");
        let shown = format!("{key:?}");
        assert!(shown.contains("alice") && !shown.contains(&secret[..8]), "{shown}");
        let wrong = cluster.to_text().parse::<ClientKey>().map(|key| key.serial);
        assert_eq!(wrong, Err(NotAKey::Format { line: LINE }));
        assert!(text.parse::<ClusterKey>().is_err());
        let short = text[..text.len() - 3].parse::<ClientKey>().map(|key| key.serial);
        assert_eq!(short, Err(NotAKey::Digits));
    }
}
