//! `sacctmgr show` and `sshare`: accounts, their users and their shares.

use super::sheet::{Sheet, SheetColumn};

/// An account, or a user of it.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationFacts {
    /// The account.
    pub account: String,
    /// The account above it.
    pub parent: Option<String>,
    /// How many accounts are above it.
    pub depth: usize,
    /// The user; absent where this is about the account itself.
    pub user: Option<String>,
    /// Its shares.
    pub shares: u32,
    /// Its part of the shares of itself and its siblings.
    pub share_of_siblings: f64,
    /// Its decayed usage, in processor-seconds.
    pub usage_s: f64,
    /// Its part of all that was used.
    pub usage_of_all: f64,
    /// The fair-share factor, of users only.
    pub fair_share: Option<f64>,
}

/// A table of `sacctmgr show`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Users.
    Users,
    /// Accounts.
    Accounts,
    /// Associations of a user and an account.
    Associations,
    /// Qualities of service.
    Qos,
    /// Clusters.
    Clusters,
    /// Trackable resources.
    Tres,
}

impl Listing {
    /// The listing of this name; Slurm takes any beginning of a name.
    pub fn named(word: &str) -> Option<Listing> {
        let word = word.to_lowercase();
        let begins = |name: &str| name.starts_with(&word) || word == format!("{name}s");
        match () {
            () if word.is_empty() => None,
            () if begins("user") => Some(Listing::Users),
            () if begins("account") => Some(Listing::Accounts),
            () if begins("association") => Some(Listing::Associations),
            () if begins("qos") => Some(Listing::Qos),
            () if begins("cluster") => Some(Listing::Clusters),
            () if begins("tres") => Some(Listing::Tres),
            () => None,
        }
    }

    /// The columns without `format=`.
    pub fn columns(self, with_associations: bool) -> &'static str {
        match (self, with_associations) {
            (Listing::Users, false) => "user,defaultaccount,adminlevel",
            (Listing::Users, true) => {
                "user,defaultaccount,adminlevel,cluster,account,partition,share,priority,maxjobs,\
                 maxsubmit,maxwall,qos,defaultqos"
            }
            (Listing::Accounts, false) => "account,description,organization",
            (Listing::Accounts, true) => {
                "account,description,organization,cluster,parentname,user,share,priority,maxjobs,\
                 maxsubmit,maxwall,qos,defaultqos"
            }
            (Listing::Associations, _) => {
                "cluster,account,user,partition,share,priority,grpjobs,grptres,grpsubmit,grpwall,\
                 grptresmins,maxjobs,maxtres,maxtrespernode,maxsubmit,maxwall,maxtresmins,qos,\
                 defaultqos,grptresrunmins"
            }
            (Listing::Qos, _) => "name,priority,gracetime,preempt,preemptmode,flags,usagefactor",
            (Listing::Clusters, _) => {
                "cluster,controlhost,controlport,rpc,share,grpjobs,grptres,grpsubmit,maxjobs,\
                 maxtres,maxsubmit,maxwall,qos,defaultqos"
            }
            (Listing::Tres, _) => "type,name,id",
        }
    }
}

/// Names, heads and widths of the columns of sacctmgr.
const COLUMNS: &[(&str, &str, i32)] = &[
    ("account", "Account", 10),
    ("adminlevel", "Admin", 9),
    ("cluster", "Cluster", 10),
    ("controlhost", "ControlHost", 15),
    ("controlport", "ControlPort", 12),
    ("defaultaccount", "Def Acct", 10),
    ("defaultqos", "Def QOS", 9),
    ("description", "Descr", 20),
    ("fairshare", "Share", 9),
    ("flags", "Flags", 40),
    ("gracetime", "GraceTime", 10),
    ("grpjobs", "GrpJobs", 7),
    ("grpsubmit", "GrpSubmit", 9),
    ("grptres", "GrpTRES", 13),
    ("grptresmins", "GrpTRESMins", 13),
    ("grptresrunmins", "GrpTRESRunMins", 13),
    ("grpwall", "GrpWall", 11),
    ("id", "ID", 6),
    ("maxjobs", "MaxJobs", 7),
    ("maxsubmit", "MaxSubmit", 9),
    ("maxtres", "MaxTRES", 13),
    ("maxtresmins", "MaxTRESMins", 13),
    ("maxtrespernode", "MaxTRESPerNode", 14),
    ("maxwall", "MaxWall", 11),
    ("name", "Name", 10),
    ("organization", "Org", 20),
    ("parentname", "ParentName", 10),
    ("partition", "Partition", 10),
    ("preempt", "Preempt", 10),
    ("preemptmode", "PreemptMode", 11),
    ("priority", "Priority", 10),
    ("qos", "QOS", 20),
    ("rpc", "RPC", 5),
    ("share", "Share", 9),
    ("type", "Type", 8),
    ("usagefactor", "UsageFactor", 11),
    ("user", "User", 10),
];

/// Not a column of sacctmgr.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unknown field '{0}'")]
pub struct UnknownColumn(pub String);

/// The table of a listing. `rows` give the text of each column by its name.
///
/// # Errors
/// The format names an unknown column.
pub fn table(
    format: &str,
    rows: impl IntoIterator<Item = impl Fn(&str) -> String>,
) -> Result<Sheet, UnknownColumn> {
    let mut keys = Vec::new();
    let mut columns = Vec::new();
    for part in format.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, width) = match part.split_once('%') {
            Some((name, width)) => (name, width.parse::<i32>().ok()),
            None => (part, None),
        };
        let word = name.to_lowercase();
        let exact = COLUMNS.iter().find(|(key, ..)| *key == word);
        let found = exact.or_else(|| COLUMNS.iter().find(|(key, ..)| key.starts_with(&word)));
        let (key, head, usual) = found.ok_or_else(|| UnknownColumn(name.to_owned()))?;
        keys.push(*key);
        columns.push(SheetColumn { head: (*head).to_owned(), width: width.unwrap_or(*usual) });
    }
    let row = |row: &dyn Fn(&str) -> String| keys.iter().map(|key| row(key)).collect();
    let rows = rows.into_iter().map(|texts| row(&texts)).collect();
    Ok(Sheet { columns, rows })
}

/// The table of sshare(1).
pub fn shares(associations: &[AssociationFacts], long: bool) -> Sheet {
    let mut heads = vec![
        ("Account", -20),
        ("User", 10),
        ("RawShares", 10),
        ("NormShares", 11),
        ("RawUsage", 11),
    ];
    if long {
        heads.push(("NormUsage", 11));
    }
    heads.extend([("EffectvUsage", 13), ("FairShare", 10)]);
    if long {
        heads.extend([("LevelFS", 10), ("GrpTRESMins", 30), ("TRESRunMins", 30)]);
    }
    let column = |(head, width): (&str, i32)| SheetColumn { head: head.to_owned(), width };
    let row = |one: &AssociationFacts| {
        let part = |part: f64| format!("{part:.6}");
        let mut row = vec![
            format!("{}{}", " ".repeat(one.depth), one.account),
            one.user.clone().unwrap_or_default(),
            one.shares.to_string(),
            part(one.share_of_siblings),
            format!("{:.0}", one.usage_s),
        ];
        if long {
            row.push(part(one.usage_of_all));
        }
        row.extend([part(one.usage_of_all), one.fair_share.map(part).unwrap_or_default()]);
        if long {
            row.extend([String::new(), String::new(), String::new()]);
        }
        row
    };
    Sheet {
        columns: heads.into_iter().map(column).collect(),
        rows: associations.iter().map(row).collect(),
    }
}
