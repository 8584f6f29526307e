//! Fair Tree, the fair share of Slurm since 19.05 (A7 of the policy reference). If an account got
//! less than its share and another got more, every user of the first precedes every user of the
//! second, regardless of the users' own usage.
//!
//! At each level of the tree, siblings are compared by their level fair share LF = S / U. S and U
//! are the shares and the usage, each as a part of all siblings'. The tree is walked depth first,
//! the largest LF first, and users are ranked in this order. Among equals, users come before
//! accounts. The children of equal accounts are compared as if they were siblings. Equal users have
//! equal ranks.

use std::cmp::Ordering;

/// An account: users and further accounts that share its use of the machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Account {
    /// The account's name, for messages to users.
    pub name: String,
    /// The account's shares among its siblings. The root's shares do not matter.
    pub shares: u32,
    /// The account's users.
    pub users: Vec<Share>,
    /// The accounts below this account.
    pub accounts: Vec<Account>,
}

/// A user in an account.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The user's number.
    pub uid: u32,
    /// The user's shares among the siblings.
    pub shares: u32,
    /// The decayed usage of the user under this account, in PE-seconds.
    pub usage_pe_s: f64,
}

/// A user's rank in the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// The account.
    pub account: String,
    /// The user.
    pub uid: u32,
    /// The fair-share factor: the rank divided by the number of users, 1 for the first.
    pub factor: f64,
}

/// A sibling at some level: LF as a fraction, normalised over its level.
#[derive(Debug, Clone, Copy)]
struct Sibling<'a> {
    level_fs: f64,
    account: &'a Account,
    /// `None` for an account.
    user: Option<&'a Share>,
}

impl Account {
    /// The fair-share factor of every user below, best first.
    #[must_use]
    pub fn fair_factors(&self) -> Vec<Ranked> {
        let mut walk = Walk { users: self.user_count(), ranked: Vec::new(), rank: 0 };
        walk.rank = walk.users;
        walk.level(self.siblings());
        walk.ranked
    }

    /// The usage of all users below, in PE-seconds.
    #[must_use]
    pub fn usage_pe_s(&self) -> f64 {
        // An empty sum is -0, and its sign would be visible.
        let users = self.users.iter().fold(0.0, |sum, user| sum + user.usage_pe_s);
        self.accounts.iter().fold(users, |sum, account| sum + account.usage_pe_s())
    }

    fn user_count(&self) -> usize {
        self.users.len() + self.accounts.iter().map(Self::user_count).sum::<usize>()
    }

    /// The children with their level fair shares.
    fn siblings(&self) -> Vec<Sibling<'_>> {
        let of_users = self.users.iter().map(|user| (user.shares, user.usage_pe_s));
        let of_accounts = self.accounts.iter().map(|below| (below.shares, below.usage_pe_s()));
        let all: Vec<(u32, f64)> = of_users.chain(of_accounts).collect();
        let shares: f64 = all.iter().map(|(shares, _)| f64::from(*shares)).sum();
        let usage: f64 = all.iter().map(|(_, usage)| usage).sum();
        let users = self.users.iter().map(|user| (self, Some(user)));
        let children = users.chain(self.accounts.iter().map(|below| (below, None)));
        children
            .zip(all)
            .map(|((account, user), (own, used))| Sibling {
                level_fs: level_fs(f64::from(own) / shares, used / usage),
                account,
                user,
            })
            .collect()
    }
}

/// S / U: 0 without shares, infinite without use.
fn level_fs(share: f64, use_: f64) -> f64 {
    if share.is_nan() || share <= 0.0 {
        0.0
    } else if use_.is_nan() || use_ <= 0.0 {
        f64::INFINITY
    } else {
        share / use_
    }
}

/// The walk that assigns the ranks.
struct Walk {
    users: usize,
    ranked: Vec<Ranked>,
    /// The number of users not ranked yet. The next user gets it as its rank, unless that user
    /// equals the last one.
    rank: usize,
}

impl Walk {
    fn level(&mut self, mut siblings: Vec<Sibling<'_>>) {
        // The sort is stable: equals keep the order of the tree.
        siblings.sort_by(|a, b| {
            let users_first = b.user.is_some().cmp(&a.user.is_some());
            b.level_fs.partial_cmp(&a.level_fs).unwrap_or(Ordering::Equal).then(users_first)
        });
        for equals in siblings.chunk_by(|a, b| a.level_fs == b.level_fs) {
            let rank = self.rank;
            for sibling in equals {
                if let Some(user) = sibling.user {
                    let factor = rank as f64 / self.users as f64;
                    let account = sibling.account.name.clone();
                    self.ranked.push(Ranked { account, uid: user.uid, factor });
                    self.rank -= 1;
                }
            }
            let accounts = equals.iter().filter(|sibling| sibling.user.is_none());
            let below: Vec<Sibling<'_>> =
                accounts.flat_map(|sibling| sibling.account.siblings()).collect();
            if !below.is_empty() {
                self.level(below);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32, shares: u32, usage_pe_s: f64) -> Share {
        Share { uid, shares, usage_pe_s }
    }

    fn account(name: &str, shares: u32, users: Vec<Share>) -> Account {
        Account { name: name.to_owned(), shares, users, accounts: Vec::new() }
    }

    fn root(accounts: Vec<Account>) -> Account {
        Account { accounts, ..Account::default() }
    }

    fn factors(tree: &Account) -> Vec<(u32, f64)> {
        tree.fair_factors().into_iter().map(|ranked| (ranked.uid, ranked.factor)).collect()
    }

    #[test]
    fn users_of_a_less_used_account_come_before_all_of_a_more_used_one() {
        // Each account has half of the shares, and a has used 30 of 100.
        let a = account("a", 1, vec![user(1, 1, 29.0), user(2, 1, 1.0)]);
        let b = account("b", 1, vec![user(3, 1, 0.0), user(4, 1, 70.0)]);
        assert_eq!(factors(&root(vec![b, a])), [(2, 1.0), (1, 0.75), (3, 0.5), (4, 0.25)]);
    }

    #[test]
    fn shares_weigh_usage() {
        let users = vec![user(1, 10, 50.0), user(2, 90, 50.0), user(3, 0, 0.0)];
        let tree = root(vec![account("a", 1, users)]);
        assert_eq!(factors(&tree), [(2, 1.0), (1, 2.0 / 3.0), (3, 1.0 / 3.0)]);
    }

    #[test]
    fn equal_users_have_equal_ranks_and_the_next_rank_skips_them() {
        let users = vec![user(1, 1, 10.0), user(2, 1, 10.0), user(3, 1, 80.0), user(4, 1, 0.0)];
        let tree = root(vec![account("a", 1, users)]);
        assert_eq!(factors(&tree), [(4, 1.0), (1, 0.75), (2, 0.75), (3, 0.25)]);
    }

    #[test]
    fn the_children_of_equal_accounts_are_compared_with_each_other() {
        let a = account("a", 1, vec![user(1, 1, 40.0), user(2, 1, 10.0)]);
        let b = account("b", 1, vec![user(3, 1, 25.0), user(4, 1, 25.0)]);
        assert_eq!(factors(&root(vec![a, b])), [(2, 1.0), (3, 0.75), (4, 0.75), (1, 0.25)]);
    }

    #[test]
    fn users_come_before_accounts_of_equal_value() {
        let mut top = root(vec![account("a", 1, vec![user(1, 1, 50.0)])]);
        top.users.push(user(2, 1, 50.0));
        assert_eq!(factors(&top), [(2, 1.0), (1, 0.5)]);
    }

    #[test]
    fn an_unused_tree_ranks_all_users_equal_and_an_empty_tree_none() {
        let tree = root(vec![account("a", 1, vec![user(1, 1, 0.0), user(2, 5, 0.0)])]);
        assert_eq!(factors(&tree), [(1, 1.0), (2, 1.0)]);
        assert!(Account::default().fair_factors().is_empty());
    }
}
