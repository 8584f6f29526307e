//! An account or a user of it: its shares and its usage.

use super::UserView;
use serde::{Deserialize, Serialize};

/// One line of `storm shares`; an account precedes its members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareView {
    /// The account.
    pub account: String,
    /// The account above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How many accounts are above it.
    pub depth: u32,
    /// The user of the account; absent where the line is about the account itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserView>,
    /// Its shares.
    pub shares: u32,
    /// Its part of the shares of itself and its siblings.
    pub share_of_siblings: f64,
    /// Its decayed usage, in processor-seconds.
    pub usage_pe_s: f64,
    /// Its part of all that was used.
    pub usage_of_all: f64,
    /// The fair-share factor, of users only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_share: Option<f64>,
}
