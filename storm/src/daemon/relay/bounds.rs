//! How many clients a relay has at once, and how long it waits for them.

use std::time::Duration;

/// Most clients, as at the Machine Manager.
const CLIENTS_MAX: usize = 4096;
/// Most clients of one user. Four users together can fill a relay, one user cannot.
const CLIENTS_PER_USER_MAX: usize = 1024;
/// Most clients that have sent nothing yet. Users of a large range of subordinate uids count as
/// many users, so a bound for each user is not enough.
const SILENT_MAX: usize = 256;
/// Most clients of one user that have sent nothing yet.
const SILENT_PER_USER_MAX: usize = 16;
/// Places beyond all others for root and for the Node Manager's own user.
const TRUSTED_PLACES: usize = 8;
/// How long a client may send nothing: as long as at the Machine Manager.
const FIRST_BYTE: Duration = Duration::from_secs(10);
/// How long the session with the Machine Manager may take to be made. A client waits 10 s for the
/// first line.
const SESSION: Duration = Duration::from_secs(5);
/// How long a client may take to accept a refusal, which any socket has room for.
const REFUSAL: Duration = Duration::from_secs(1);

/// Descriptors that a client takes: its socket and its session.
const DESCRIPTORS_OF_A_CLIENT: u64 = 2;
/// One descriptor out of this number is for clients. Launches need the others.
const DESCRIPTOR_PART: u64 = 8;
/// Fewest clients, however few descriptors there are.
const CLIENTS_MIN: usize = 8;

/// The bounds of one relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Clients at once.
    pub(super) clients: usize,
    /// Clients of one user.
    pub(super) clients_per_user: usize,
    /// Clients that have sent nothing yet. Beyond this number, the oldest of these clients gives
    /// way.
    pub(super) silent: usize,
    /// Clients of one user that have sent nothing yet.
    pub(super) silent_per_user: usize,
    /// Places beyond `clients` for users who are `trusted`.
    pub(super) trusted_places: usize,
    /// Users whom `clients_per_user` does not hold.
    pub(super) trusted: Vec<u32>,
    /// How long a client may send nothing.
    pub(super) first_byte: Duration,
    /// How long the session may take to be made.
    pub(super) session: Duration,
    /// How long a client may take to accept a refusal.
    pub(super) refusal: Duration,
}

impl Bounds {
    /// The bounds for a process that may have this many descriptors open.
    pub(super) fn with_descriptors(limit: u64, trusted: Vec<u32>) -> Bounds {
        let clients = limit / DESCRIPTOR_PART / DESCRIPTORS_OF_A_CLIENT;
        let clients = usize::try_from(clients).unwrap_or(usize::MAX);
        let clients = clients.clamp(CLIENTS_MIN, CLIENTS_MAX);
        let quarter = clients / 4;
        Bounds {
            clients,
            clients_per_user: quarter.min(CLIENTS_PER_USER_MAX),
            silent: quarter.min(SILENT_MAX),
            silent_per_user: quarter.min(SILENT_PER_USER_MAX),
            trusted_places: TRUSTED_PLACES,
            trusted,
            first_byte: FIRST_BYTE,
            session: SESSION,
            refusal: REFUSAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_a_part_of_few_descriptors_and_a_bounded_number_of_many() {
        let counts = |limit| {
            let Bounds { clients, clients_per_user, silent, silent_per_user, .. } =
                Bounds::with_descriptors(limit, Vec::new());
            [clients, clients_per_user, silent, silent_per_user]
        };
        assert_eq!(counts(1 << 20), [4096, 1024, 256, 16]);
        assert_eq!(counts(u64::MAX), [4096, 1024, 256, 16]);
        assert_eq!(counts(1024), [64, 16, 16, 16]);
        assert_eq!(counts(0), [8, 2, 2, 2]);
    }
}
