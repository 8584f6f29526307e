//! The configuration, and the facts that follow from the configuration alone. The configuration
//! changes only when one of its user names becomes known to the host.

mod answers;

use crate::api::UserView;
use crate::job::EndCause;
use crate::service_config::{NamedIn, UnknownUser};
use crate::{AccountConfig, CoreConfig, QosConfig};
use std::ops::Deref;

/// The configuration.
pub(super) struct Configuration {
    config: CoreConfig,
}

impl Deref for Configuration {
    type Target = CoreConfig;

    fn deref(&self) -> &CoreConfig {
        &self.config
    }
}

impl Configuration {
    pub(super) fn new(config: CoreConfig) -> Configuration {
        Configuration { config }
    }

    #[cfg(test)]
    pub(super) fn edit(&mut self) -> &mut CoreConfig {
        &mut self.config
    }

    /// A user that the configuration names is now known to the host. Returns the accounts that name
    /// the user, each with the user's shares.
    pub(super) fn learn_user(&mut self, name: &str, uid: u32) -> Vec<(String, u32)> {
        let all = std::mem::take(&mut self.config.service.unknown_users);
        let (known, unknown): (Vec<UnknownUser>, _) =
            all.into_iter().partition(|user| user.name == name);
        self.config.service.unknown_users = unknown;
        let mut accounts = Vec::new();
        for UnknownUser { named_in, shares, .. } in known {
            match named_in {
                NamedIn::Admins => self.config.admin_uids.push(uid),
                NamedIn::Account(account) => {
                    let of_name = |known: &&mut AccountConfig| known.name == account;
                    if let Some(found) = self.config.service.accounts.iter_mut().find(of_name)
                        && found.users.iter().all(|(other, _)| *other != uid)
                    {
                        found.users.push((uid, shares));
                    }
                    accounts.push((account, shares));
                }
                NamedIn::Qos(qos) => {
                    let of_name = |known: &&mut QosConfig| known.name == qos;
                    if let Some(found) = self.config.service.qos.iter_mut().find(of_name) {
                        found.users.push(uid);
                    }
                }
            }
        }
        accounts
    }

    /// Whether a user, by number or account, may have a quality of service.
    pub(super) fn may_have(&self, qos: &QosConfig, uid: u32, account: Option<&str>) -> bool {
        let unknown = || self.unknown_users_of(&NamedIn::Qos(qos.name.clone()));
        let anybody = qos.users.is_empty() && qos.accounts.is_empty() && unknown().is_none();
        let named = account.is_some_and(|own| qos.accounts.iter().any(|name| name == own));
        anybody || named || qos.users.contains(&uid)
    }

    /// The users that an entry of the configuration names and the host does not know.
    pub(super) fn unknown_users_of(&self, place: &NamedIn) -> Option<String> {
        let unknown = self.service.unknown_users.iter();
        let names: Vec<&str> =
            unknown.filter(|user| user.named_in == *place).map(|user| user.name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// A user by number and name.
    pub(super) fn user_view(&self, uid: u32) -> UserView {
        let name = (self.user_name)(uid).unwrap_or_else(|| uid.to_string());
        UserView { uid, name }
    }

    /// Why a job is ended, with the name of the user if a user ended the job.
    pub(super) fn said(&self, cause: &EndCause) -> String {
        match cause {
            EndCause::Cancelled { uid } => match (self.user_name)(*uid) {
                Some(name) => format!("cancelled by {name} ({uid})"),
                None => cause.to_string(),
            },
            cause => cause.to_string(),
        }
    }

    /// A line of a job's log with the user's name, since the record has only the number.
    pub(super) fn with_user_name(&self, text: &str) -> String {
        let named = || {
            let (before, uid) = text.rsplit_once("by user ")?;
            let name = (self.user_name)(uid.parse().ok()?)?;
            Some(format!("{before}by {name} ({uid})"))
        };
        named().unwrap_or_else(|| text.to_owned())
    }
}
