//! The user that a job runs as: user, group, supplementary groups.

use std::ffi::CString;
use std::io;

use nix::unistd::{Uid, User, getegid, geteuid, getgroups};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::Errno;

/// A user with all groups. The groups are looked up before the launch, so a PL never queries a name
/// service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary group ids.
    pub groups: Vec<u32>,
}

/// The reason why the groups of a user are not known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CredentialsError {
    /// The user database answered with an error.
    #[error("the user database of this node cannot be read for user id {uid}: {errno}")]
    Database {
        /// The user id that was looked up.
        uid: u32,
        /// The reason.
        errno: Errno,
    },
    /// No user has this id here.
    #[error("no user has the id {uid} on this node")]
    Unknown {
        /// The user id that was looked up.
        uid: u32,
    },
}

impl Credentials {
    /// Looks a user up in this node's user database, as `initgroups` does.
    ///
    /// # Errors
    /// The user does not exist on this node, or the database cannot be read.
    pub fn lookup(uid: u32) -> Result<Self, CredentialsError> {
        let failed =
            |errno: nix::errno::Errno| CredentialsError::Database { uid, errno: errno.into() };
        let user = User::from_uid(Uid::from_raw(uid))
            .map_err(failed)?
            .ok_or(CredentialsError::Unknown { uid })?;
        let name = CString::new(user.name).map_err(|_| failed(nix::errno::Errno::EINVAL))?;
        let groups = nix::unistd::getgrouplist(&name, user.gid).map_err(failed)?;
        Ok(Self {
            uid,
            gid: user.gid.as_raw(),
            groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
        })
    }

    /// The credentials of the calling process.
    #[must_use]
    pub fn own() -> Self {
        let groups = getgroups().unwrap_or_default();
        Self {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
        }
    }

    /// Whether this process has these groups already. In a user namespace it may not set any
    /// groups, not even its own (user_namespaces(7)).
    pub(crate) fn has_groups(&self) -> bool {
        Self::own().groups == self.groups
    }
}

/// Becomes the user for good. Refuses another user if the daemon is not root.
pub(crate) fn become_user(wanted: &Credentials) -> io::Result<()> {
    if !geteuid().is_root() {
        return if wanted.uid == geteuid().as_raw() {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::EPERM))
        };
    }
    // SAFETY: `groups` is an array of that many gids; the others take integers. The process has
    // one thread, so changing it changes all of it.
    let done = unsafe {
        (libc::setgroups(wanted.groups.len(), wanted.groups.as_ptr()) == 0 || wanted.has_groups())
            && libc::setresgid(wanted.gid, wanted.gid, wanted.gid) == 0
            && libc::setresuid(wanted.uid, wanted.uid, wanted.uid) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}
