//! Accounts, qualities of service and priorities in a configuration file.
//!
//! ```toml
//! [priority]
//! age = 1000
//! fair-share = 10000
//! qos = 5000
//! half-life = "7d"
//!
//! [[accounts]]
//! name = "physics"
//! shares = 3
//! users = ["alice", { user = "bob", shares = 2 }]
//!
//! [[qos]]
//! name = "high"
//! priority = 100
//! accounts = ["physics"]
//! ```
//!
//! This module does not ask the host about users. A user that the host does not know yet is
//! skipped.

use super::user_name::UserName;
use super::users::{KnownUsers, NamedUser};
use super::written_time::WrittenTime;
use super::{MmConfig, PlannedPartition};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use storm_mm::{
    AccountConfig, DEFAULT_ACCOUNT, DEFAULT_PRIORITY_INTERVAL, NamedIn, PriorityConfig, QosConfig,
    ServiceConfig, UnknownUser,
};
use storm_sched::PreemptMode;
use storm_sched::priority::{HalfLife, Weights};

/// The `[priority]` of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct PriorityEntry {
    /// Weight of the age.
    age: u32,
    /// Weight of the size.
    size: u32,
    /// Whether small jobs are preferred to large ones.
    favour_small: bool,
    /// Weight of the fair share.
    fair_share: u32,
    /// Weight of the quality of service.
    qos: u32,
    /// Weight of the partition.
    partition: u32,
    /// The age beyond which a job's priority grows no more; a week by default.
    max_age: Option<WrittenTime>,
    /// The time in which half of a usage is forgotten; a week by default.
    half_life: Option<WrittenTime>,
    /// The time between two computations of priorities; five minutes by default.
    interval: Option<WrittenTime>,
    /// Priorities of partitions relative to each other, by name.
    partitions: BTreeMap<String, u32>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct AccountEntry {
    name: String,
    parent: Option<String>,
    #[serde(default = "one_share")]
    shares: u32,
    /// Whether users without an account are in this one.
    #[serde(default)]
    default: bool,
    #[serde(default)]
    users: Vec<UserEntry>,
}

/// A user of an account.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a user is a name, a number, or { user = ..., shares = ... }")]
enum UserEntry {
    One(UserName),
    #[serde(rename_all = "kebab-case")]
    WithShares {
        user: UserName,
        shares: u32,
    },
}

/// A quality of service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct QosEntry {
    name: String,
    #[serde(default)]
    priority: u32,
    #[serde(default)]
    default: bool,
    #[serde(default)]
    users: Vec<UserName>,
    #[serde(default)]
    accounts: Vec<String>,
    max_jobs_per_user: Option<NonZeroU32>,
    /// Names of the qualities of service whose jobs this one's jobs may preempt.
    #[serde(default)]
    preempts: Vec<String>,
    /// The fate of its own jobs when they are preempted.
    preempt_mode: Option<PreemptMode>,
}

fn one_share() -> u32 {
    1
}

/// An error in accounts, qualities of service or priorities.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServiceProblem {
    #[error("priority.{key}: it must be at least a second, and less than {most} seconds")]
    Time { key: &'static str, most: u32 },
    #[error("priority.partitions: there is no partition {name:?}")]
    NoSuchPartition { name: String },
    #[error("{key}: another one is called {name:?} too")]
    Twice { key: String, name: String },
    #[error("{key}.name: {name:?} is not a name; names have letters, digits, '_', '-' and '.'")]
    Name { key: String, name: String },
    #[error("{key}.parent: there is no account {name:?}")]
    NoSuchParent { key: String, name: String },
    #[error("{key}.parent: the account would be above itself")]
    Circle { key: String },
    #[error("{key}.default: another one is the default already")]
    TwoDefaults { key: String },
    #[error("{key}.users: user {name} is named twice")]
    UserTwice { key: String, name: String },
    #[error("{key}.accounts: there is no account {name:?}")]
    NoSuchAccount { key: String, name: String },
    #[error("{key}.preempts: there is no quality of service {name:?}")]
    NoSuchQos { key: String, name: String },
    #[error(
        "{key}.preempts: no job of {name:?} makes room, as it has no preempt-mode: \
         \"suspend\", \"requeue\" or \"cancel\""
    )]
    NeverPreempted { key: String, name: String },
    #[error("{key}.preempts: its jobs and those of {name:?} would preempt each other")]
    PreemptsItself { key: String, name: String },
}

impl MmConfig {
    /// The uids of the administrators whom the host knows.
    pub(crate) fn admin_uids(&self) -> Vec<u32> {
        self.admins.iter().filter_map(|user| self.users.uid(user)).collect()
    }

    /// Every user whom the configuration gives by name, not by number.
    pub(super) fn named_users(&self) -> impl Iterator<Item = NamedUser> + '_ {
        let admins = self.admins.iter().map(|user| ("admins".to_owned(), user));
        let of_accounts = self.accounts.iter().zip(0..).flat_map(|(account, index)| {
            let key = format!("accounts[{index}].users");
            account.users.iter().map(move |entry| (key.clone(), entry.parts().0))
        });
        let of_qos = self.qos.iter().zip(0..).flat_map(|(qos, index)| {
            qos.users.iter().map(move |user| (format!("qos[{index}].users"), user))
        });
        admins.chain(of_accounts).chain(of_qos).filter_map(|(key, user)| match user {
            UserName::Name(name) => Some(NamedUser { key, name: name.clone() }),
            UserName::Number(_) => None,
        })
    }

    /// The named users whom the host does not know.
    pub(crate) fn unknown_users(&self) -> impl Iterator<Item = NamedUser> + '_ {
        self.named_users()
            .filter(|named| self.users.uid(&UserName::Name(named.name.clone())).is_none())
    }

    /// Accounts, qualities of service and priorities, checked.
    pub(super) fn planned_service(
        &self,
        partitions: &[PlannedPartition],
    ) -> Result<ServiceConfig, ServiceProblem> {
        let accounts = planned_accounts(&self.accounts, &self.users)?;
        let qos = planned_qos(&self.qos, &accounts, &self.users)?;
        let priority = self.priority.as_ref().map(|entry| entry.planned(partitions)).transpose()?;
        Ok(ServiceConfig { priority, accounts, qos, unknown_users: self.named_in_vain() })
    }

    fn named_in_vain(&self) -> Vec<UnknownUser> {
        let admins = self.admins.iter().map(|user| (user, NamedIn::Admins, 1));
        let of_accounts = self.accounts.iter().flat_map(|account| {
            account.users.iter().map(|entry| {
                let (user, shares) = entry.parts();
                (user, NamedIn::Account(account.name.clone()), shares)
            })
        });
        let of_qos = self
            .qos
            .iter()
            .flat_map(|qos| qos.users.iter().map(|user| (user, NamedIn::Qos(qos.name.clone()), 1)));
        let unknown = |(user, named_in, shares): (&UserName, NamedIn, u32)| {
            let name = user.to_string();
            self.users.uid(user).is_none().then_some(UnknownUser { name, named_in, shares })
        };
        admins.chain(of_accounts).chain(of_qos).filter_map(unknown).collect()
    }
}

impl UserEntry {
    /// The user and its shares.
    fn parts(&self) -> (&UserName, u32) {
        match self {
            UserEntry::One(user) => (user, 1),
            UserEntry::WithShares { user, shares } => (user, *shares),
        }
    }
}

impl PriorityEntry {
    fn planned(&self, partitions: &[PlannedPartition]) -> Result<PriorityConfig, ServiceProblem> {
        let known = |name: &String| partitions.iter().any(|partition| partition.name == *name);
        if let Some(name) = self.partitions.keys().find(|name| !known(name)) {
            return Err(ServiceProblem::NoSuchPartition { name: name.clone() });
        }
        let time = |key, written: Option<WrittenTime>| {
            let most = u32::MAX;
            let Some(WrittenTime(time)) = written else { return Ok(None) };
            let seconds = u32::try_from(time.as_secs()).ok().and_then(NonZeroU32::new);
            seconds.map(|seconds| Some((time, seconds))).ok_or(ServiceProblem::Time { key, most })
        };
        let max_age = time("max-age", self.max_age)?;
        let half_life = time("half-life", self.half_life)?;
        let interval = time("interval", self.interval)?;
        let weights = Weights {
            age: self.age,
            size: self.size,
            favour_small: self.favour_small,
            fair_share: self.fair_share,
            qos: self.qos,
            partition: self.partition,
            max_age_s: max_age.map_or(Weights::default().max_age_s, |(_, seconds)| seconds),
        };
        Ok(PriorityConfig {
            weights,
            half_life: half_life.and_then(|(time, _)| HalfLife::new(time)).unwrap_or_default(),
            interval: interval.map_or(DEFAULT_PRIORITY_INTERVAL, |(time, _)| time),
            partitions: self.partitions.clone(),
        })
    }
}

fn planned_accounts(
    entries: &[AccountEntry],
    known: &KnownUsers,
) -> Result<Vec<AccountConfig>, ServiceProblem> {
    let mut planned: Vec<AccountConfig> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let key = format!("accounts[{index}]");
        check_name(&key, &entry.name, planned.iter().map(|account| account.name.as_str()))?;
        if entry.default && planned.iter().any(|account| account.default) {
            return Err(ServiceProblem::TwoDefaults { key });
        }
        let users = users_of(&key, entry, known)?;
        planned.push(AccountConfig {
            name: entry.name.clone(),
            parent: entry.parent.clone(),
            shares: entry.shares,
            default: entry.default,
            users,
        });
    }
    planned.iter().enumerate().try_for_each(|(index, account)| {
        check_parents(&format!("accounts[{index}]"), account, &planned)
    })?;
    Ok(planned)
}

/// The users of an account whom the host knows. A user who is named twice is an error.
fn users_of(
    key: &str,
    entry: &AccountEntry,
    known: &KnownUsers,
) -> Result<Vec<(u32, u32)>, ServiceProblem> {
    let mut users: Vec<(u32, u32)> = Vec::new();
    let mut named = Vec::new();
    for (user, shares) in entry.users.iter().map(UserEntry::parts) {
        let uid = known.uid(user);
        if named.contains(&user) || users.iter().any(|(other, _)| Some(*other) == uid) {
            return Err(ServiceProblem::UserTwice { key: key.to_owned(), name: user.to_string() });
        }
        named.push(user);
        users.extend(uid.map(|uid| (uid, shares)));
    }
    Ok(users)
}

/// Checks that each account's parents exist and form no cycle.
fn check_parents(
    key: &str,
    account: &AccountConfig,
    all: &[AccountConfig],
) -> Result<(), ServiceProblem> {
    let mut seen = BTreeSet::from([account.name.as_str()]);
    let mut above = account.parent.as_deref();
    while let Some(name) = above {
        let key = key.to_owned();
        let Some(parent) = all.iter().find(|other| other.name == name) else {
            return Err(ServiceProblem::NoSuchParent { key, name: name.to_owned() });
        };
        if !seen.insert(name) {
            return Err(ServiceProblem::Circle { key });
        }
        above = parent.parent.as_deref();
    }
    Ok(())
}

fn planned_qos(
    entries: &[QosEntry],
    accounts: &[AccountConfig],
    users: &KnownUsers,
) -> Result<Vec<QosConfig>, ServiceProblem> {
    let mut planned: Vec<QosConfig> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let key = format!("qos[{index}]");
        check_name(&key, &entry.name, planned.iter().map(|qos| qos.name.as_str()))?;
        if entry.default && planned.iter().any(|qos| qos.default) {
            return Err(ServiceProblem::TwoDefaults { key });
        }
        let known = |name: &&String| {
            *name == DEFAULT_ACCOUNT || accounts.iter().any(|account| account.name == **name)
        };
        if let Some(name) = entry.accounts.iter().find(|name| !known(name)) {
            return Err(ServiceProblem::NoSuchAccount { key, name: name.clone() });
        }
        planned.push(QosConfig {
            name: entry.name.clone(),
            priority: entry.priority,
            default: entry.default,
            users: entry.users.iter().filter_map(|user| users.uid(user)).collect(),
            accounts: entry.accounts.clone(),
            max_jobs_per_user: entry.max_jobs_per_user.map(NonZeroU32::get),
            preempts: entry.preempts.clone(),
            preempt_mode: entry.preempt_mode,
        });
    }
    check_precedence(&planned)?;
    Ok(planned)
}

/// Checks that each preempted quality of service exists, can be preempted, and does not preempt
/// its own preemptor.
fn check_precedence(all: &[QosConfig]) -> Result<(), ServiceProblem> {
    let lower = |qos: &QosConfig| {
        let named = qos.preempts.clone();
        all.iter().filter(move |other| named.contains(&other.name))
    };
    for (index, qos) in all.iter().enumerate() {
        let key = || format!("qos[{index}]");
        if let Some(name) = qos.preempts.iter().find(|name| all.iter().all(|q| q.name != **name)) {
            return Err(ServiceProblem::NoSuchQos { key: key(), name: name.clone() });
        }
        if let Some(other) = lower(qos).find(|other| other.preempt_mode.is_none()) {
            let name = other.name.clone();
            return Err(ServiceProblem::NeverPreempted { key: key(), name });
        }
        // All below `qos`, directly or through others.
        let mut below: Vec<&QosConfig> = lower(qos).collect();
        let mut next = 0;
        while let Some(other) = below.get(next).copied() {
            if other.name == qos.name || other.preempts.contains(&qos.name) {
                let name = other.name.clone();
                return Err(ServiceProblem::PreemptsItself { key: key(), name });
            }
            for further in lower(other) {
                if !below.iter().any(|known| known.name == further.name) {
                    below.push(further);
                }
            }
            next += 1;
        }
    }
    Ok(())
}

fn check_name<'a>(
    key: &str,
    name: &str,
    mut others: impl Iterator<Item = &'a str>,
) -> Result<(), ServiceProblem> {
    let (key, own) = (key.to_owned(), name.to_owned());
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(sound) {
        return Err(ServiceProblem::Name { key, name: own });
    }
    if others.any(|other| other == name) {
        return Err(ServiceProblem::Twice { key, name: own });
    }
    Ok(())
}
