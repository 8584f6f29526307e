//! Users that an option names.

use nix::unistd::User;

/// Users by number and by name. The manager's host knows the names.
#[derive(Debug, Default)]
pub(super) struct Users {
    pub(super) uids: Vec<u32>,
    pub(super) names: Vec<String>,
    /// The complaints about names that nobody has.
    pub(super) notes: Vec<String>,
}

/// Reads names and numbers. A name that this host does not know is complained about.
pub(super) fn users(named: &[String], complaint: &str) -> Users {
    let mut users = Users::default();
    for name in named {
        match (name.parse(), User::from_name(name)) {
            (Ok(uid), _) => users.uids.push(uid),
            (Err(_), Ok(None)) => users.notes.push(format!("{complaint}{name}")),
            // A failing database of users is no reason to list nothing.
            (Err(_), Ok(Some(_)) | Err(_)) => users.names.push(name.clone()),
        }
    }
    users
}
