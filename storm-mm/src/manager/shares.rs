//! The tree of accounts and users, the usage of each, and the fair shares that follow (Fair Tree).
//!
//! The caller decides whom to charge. The tree has no clock: callers pass wall-clock times, so that
//! the times mean the same to the next manager.

use crate::cluster::UsageOf;
use crate::{AccountConfig, DEFAULT_ACCOUNT, ServiceConfig};
use jiff::Timestamp;
use std::collections::BTreeMap;
use storm_sched::SchedTime;
use storm_sched::priority::{Account, HalfLife, Share, Usage};

/// A user of an account: the index of the account, and the user.
type Member = (usize, u32);

/// The shares and the usage of a user of an account.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    shares: u32,
    usage: Usage,
}

/// The tree.
#[derive(Debug)]
pub(super) struct Shares {
    accounts: Vec<AccountConfig>,
    /// The account of users without an account.
    default: usize,
    half_life: HalfLife,
    members: BTreeMap<Member, Held>,
    /// The factors of the last computation.
    factors: BTreeMap<Member, f64>,
    /// The usage that the factors were computed with, in processor-seconds.
    reckoned: BTreeMap<Member, f64>,
    /// The last computation was for a new user, and the policies did not receive its results.
    untold: bool,
}

/// A line of the tree.
pub(super) struct Line<'a> {
    pub(super) account: &'a AccountConfig,
    pub(super) depth: u32,
    pub(super) uid: Option<u32>,
    pub(super) shares: u32,
    pub(super) share_of_siblings: f64,
    pub(super) usage_pe_s: f64,
    pub(super) factor: Option<f64>,
}

impl Shares {
    pub(super) fn new(config: &ServiceConfig) -> Shares {
        let mut accounts = config.accounts.clone();
        let marked = accounts.iter().position(|account| account.default);
        let named = accounts.iter().position(|account| account.name == DEFAULT_ACCOUNT);
        let default = marked.or(named).unwrap_or(accounts.len());
        if default == accounts.len() {
            accounts.push(AccountConfig {
                name: DEFAULT_ACCOUNT.to_owned(),
                parent: None,
                shares: 1,
                default: true,
                users: Vec::new(),
            });
        }
        let members = accounts.iter().enumerate().flat_map(|(index, account)| {
            let held = |shares| Held { shares, usage: Usage::default() };
            account.users.iter().map(move |(uid, shares)| ((index, *uid), held(*shares)))
        });
        let members = members.collect();
        let half_life = config.priority.as_ref().map(|priority| priority.half_life);
        let half_life = half_life.unwrap_or_default();
        Shares {
            accounts,
            default,
            half_life,
            members,
            factors: BTreeMap::new(),
            reckoned: BTreeMap::new(),
            untold: false,
        }
    }

    /// The accounts that a user may name, the user's own account first.
    pub(super) fn accounts_of(&self, uid: u32) -> Vec<&str> {
        let is_in = |account: &&AccountConfig| account.users.iter().any(|(user, _)| *user == uid);
        let own: Vec<&str> =
            self.accounts.iter().filter(is_in).map(|account| account.name.as_str()).collect();
        if own.is_empty() { vec![&self.accounts[self.default].name] } else { own }
    }

    /// Adds a user to an account.
    pub(super) fn add_user(&mut self, account: &str, uid: u32, shares: u32) {
        let Some(index) = self.accounts.iter().position(|known| known.name == account) else {
            return;
        };
        let users = &mut self.accounts[index].users;
        if users.iter().all(|(other, _)| *other != uid) {
            users.push((uid, shares));
        }
        // The user's earlier usage stays.
        self.member(Some(account), uid).shares = shares;
    }

    pub(super) fn knows(&self, account: &str) -> bool {
        self.accounts.iter().any(|known| known.name == account)
    }

    /// A user has used processor-seconds.
    pub(super) fn charge(&mut self, at: Timestamp, account: Option<&str>, uid: u32, pe_s: f64) {
        let half_life = self.half_life;
        self.member(account, uid).usage.charge(time_of(at), pe_s, half_life);
    }

    /// The usage of all users, for the journal.
    pub(super) fn noted(&self, at: Timestamp) -> Vec<UsageOf> {
        let noted = |(&(index, uid), held): (&Member, &Held)| UsageOf {
            account: self.accounts[index].name.clone(),
            uid,
            pe_s: held.usage.pe_s_at(time_of(at), self.half_life),
        };
        self.members.iter().map(noted).filter(|usage| usage.pe_s > 0.0).collect()
    }

    /// Replaces the usage of all users by that of the journal.
    pub(super) fn restore(&mut self, at: Timestamp, noted: &[UsageOf]) {
        self.members.values_mut().for_each(|held| held.usage = Usage::default());
        for UsageOf { account, uid, pe_s } in noted {
            self.charge(at, Some(account), *uid, *pe_s);
        }
    }

    /// The fair-share factor of a user, as last computed; computed now for a new user.
    pub(super) fn factor(&mut self, at: Timestamp, account: Option<&str>, uid: u32) -> f64 {
        let member = (self.index_of(account), uid);
        if !self.factors.contains_key(&member) {
            self.member(account, uid);
            self.reckon(at);
            self.untold = true;
        }
        self.factors.get(&member).copied().unwrap_or(0.0)
    }

    /// Whether the factors differ from those that the policies' priorities rest on.
    pub(super) fn is_untold(&self) -> bool {
        self.untold
    }

    /// Computes the factors anew: O(n log n) in the users.
    pub(super) fn reckon(&mut self, at: Timestamp) {
        self.untold = false;
        let used = |held: &Held| held.usage.pe_s_at(time_of(at), self.half_life);
        self.reckoned = self.members.iter().map(|(member, held)| (*member, used(held))).collect();
        let root = self.account_below(None, 0);
        let place: BTreeMap<&str, usize> =
            self.accounts.iter().map(|account| account.name.as_str()).zip(0..).collect();
        let ranked = root.fair_factors();
        let factors = ranked
            .iter()
            .filter_map(|ranked| {
                Some(((*place.get(ranked.account.as_str())?, ranked.uid), ranked.factor))
            })
            .collect();
        self.factors = factors;
    }

    /// The tree as last computed, each account before its members.
    pub(super) fn lines(&self) -> Vec<Line<'_>> {
        let mut lines = Vec::new();
        self.lines_below(None, 0, &mut lines);
        lines
    }

    fn index_of(&self, account: Option<&str>) -> usize {
        let named = account.and_then(|name| self.accounts.iter().position(|a| a.name == name));
        named.unwrap_or(self.default)
    }

    fn member(&mut self, account: Option<&str>, uid: u32) -> &mut Held {
        let index = self.index_of(account);
        self.members.entry((index, uid)).or_insert(Held { shares: 1, usage: Usage::default() })
    }

    fn children(&self, parent: Option<&str>) -> impl Iterator<Item = (usize, &AccountConfig)> {
        let parent = parent.map(str::to_owned);
        let below = move |account: &&AccountConfig| account.parent == parent;
        self.accounts.iter().enumerate().filter(move |(_, account)| below(account))
    }

    /// The account of this index with everything below that account; without an index, the root.
    /// The depth is bounded by the number of accounts, in case they form a circle.
    fn account_below(&self, index: Option<usize>, depth: usize) -> Account {
        let config = index.map(|index| &self.accounts[index]);
        let users = index.into_iter().flat_map(|index| self.users_of(index)).collect();
        let parent = config.map(|account| account.name.as_str());
        let below = |(index, _)| self.account_below(Some(index), depth + 1);
        let deeper = depth <= self.accounts.len();
        let accounts = self.children(parent).filter(|_| deeper).map(below).collect();
        Account {
            name: config.map(|account| account.name.clone()).unwrap_or_default(),
            shares: config.map_or(0, |account| account.shares),
            users,
            accounts,
        }
    }

    fn users_of(&self, index: usize) -> impl Iterator<Item = Share> + '_ {
        let users = self.members.range((index, 0)..=(index, u32::MAX));
        users.map(|(member, held)| Share {
            uid: member.1,
            shares: held.shares,
            usage_pe_s: self.reckoned.get(member).copied().unwrap_or(0.0),
        })
    }

    fn lines_below<'a>(&'a self, parent: Option<usize>, depth: u32, lines: &mut Vec<Line<'a>>) {
        let name = parent.map(|index| self.accounts[index].name.as_str());
        let users: Vec<Share> = parent.into_iter().flat_map(|i| self.users_of(i)).collect();
        let below: Vec<(usize, &AccountConfig)> = self.children(name).collect();
        let of_users = users.iter().map(|user| u64::from(user.shares));
        let of_accounts = below.iter().map(|(_, account)| u64::from(account.shares));
        let all = of_users.chain(of_accounts).sum::<u64>().max(1) as f64;
        for (user, index) in users.iter().zip(parent.into_iter().cycle()) {
            lines.push(Line {
                account: &self.accounts[index],
                depth,
                uid: Some(user.uid),
                shares: user.shares,
                share_of_siblings: f64::from(user.shares) / all,
                usage_pe_s: user.usage_pe_s,
                factor: self.factors.get(&(index, user.uid)).copied(),
            });
        }
        for (index, account) in below {
            lines.push(Line {
                account,
                depth,
                uid: None,
                shares: account.shares,
                share_of_siblings: f64::from(account.shares) / all,
                usage_pe_s: self.account_below(Some(index), 0).usage_pe_s(),
                factor: None,
            });
            if depth as usize <= self.accounts.len() {
                self.lines_below(Some(index), depth + 1, lines);
            }
        }
    }
}

/// A wall-clock time as usage counts time; a time before 1970 counts as 1970.
fn time_of(at: Timestamp) -> SchedTime {
    SchedTime::from_nanos(u64::try_from(at.as_nanosecond()).unwrap_or(0))
}
