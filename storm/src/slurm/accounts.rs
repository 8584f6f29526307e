//! sacctmgr(1) `show`, sshare(1) and sprio(1).

use super::complaint::Complaint;
use super::job_facts::is_ineligible;
use super::source::Source;
use crate::command::{note, print};
use std::collections::HashSet;
use storm_mm::api::{JobFilter, JobState, ShareView};
use storm_rm::JobId;
use storm_slurm::options::CommandLine;
use storm_slurm::view::accounts::{AssociationFacts, Listing, shares, table};
use storm_slurm::view::sacct::Form;
use storm_slurm::view::sprio::{DEFAULT_FORMAT, LONG_FORMAT, PRIORITY_FIELDS, PriorityFacts};
use storm_slurm::view::{Layout, UnknownField};

/// `sacctmgr show` and `list`. The configuration of the manager has the accounts: nothing else of
/// sacctmgr is here.
pub(super) async fn sacctmgr(line: &CommandLine) -> Result<u8, Complaint> {
    let words: Vec<String> =
        line.operands.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (verb, words) = words.split_first().ok_or_else(|| {
        Complaint::plain("too few arguments: sacctmgr reads no commands from its input here")
    })?;
    if !["show", "list"].iter().any(|known| verb.len() > 1 && known.starts_with(verb.as_str())) {
        return Err(Complaint::error(format!("{verb} is not there: accounts are configured"))
            .and_told("edit `account` in the manager's file, and send the manager SIGHUP"));
    }
    let (entity, words) = words.split_first().ok_or_else(no_entity)?;
    let listing = Listing::named(entity).ok_or_else(no_entity)?;
    let asked = Asked::of(words);
    let mut source = Source::open().await?;
    let cluster = source.status().await?.cluster.clone();
    let all = associations(&source.shares().await?);
    let with_associations = line.has("associations") || asked.with_associations;
    let format = asked.format.clone();
    let format = format.unwrap_or_else(|| listing.columns(with_associations).to_owned());
    let rows = rows(listing, &all, &asked, with_associations || format.contains("ccount"));
    let rows = rows.iter().map(|row| |key: &str| row.text(key, &cluster));
    let sheet = table(&format, rows).map_err(|error| Complaint::error(error.to_string()))?;
    print(&sheet.text(!line.has("noheader"), &form(line)))?;
    Ok(0)
}

fn no_entity() -> Complaint {
    Complaint::plain(
        "No valid entity in list command\nInput line must include \"Account\", \"Association\", \
         \"Cluster\", \"QOS\", \"TRES\" or \"User\"",
    )
}

/// The conditions behind an entity.
#[derive(Default)]
struct Asked {
    format: Option<String>,
    with_associations: bool,
    names: Vec<String>,
    users: Vec<String>,
    accounts: Vec<String>,
}

impl Asked {
    fn of(words: &[String]) -> Asked {
        let mut asked = Asked::default();
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        for word in words {
            let (key, value) = match word.split_once('=') {
                Some((key, value)) => (key.to_lowercase(), Some(value)),
                None => (word.to_lowercase(), None),
            };
            match (key.as_str(), value) {
                ("format", Some(value)) => asked.format = Some(value.to_owned()),
                ("where" | "set", None) => {}
                ("withassoc" | "withassociations", _) => asked.with_associations = true,
                (key, Some(value)) if key.starts_with("user") => asked.users = list(value),
                (key, Some(value)) if key.starts_with("acc") => asked.accounts = list(value),
                ("name" | "names", Some(value)) => asked.names = list(value),
                // Clusters and levels choose among one.
                (_, Some(_)) => {}
                (_, None) => asked.names = list(word),
            }
        }
        asked
    }
}

/// A row of sacctmgr.
struct Row<'a> {
    listing: Listing,
    association: Option<&'a AssociationFacts>,
    default_account: String,
    name: &'static str,
    id: usize,
}

impl Row<'_> {
    fn text(&self, key: &str, cluster: &str) -> String {
        let association = self.association;
        let user = association.and_then(|one| one.user.clone()).unwrap_or_default();
        match key {
            "account" => association.map_or_else(String::new, |one| one.account.clone()),
            "description" | "organization" => {
                association.map_or_else(String::new, |one| one.account.clone())
            }
            "adminlevel" if user == "root" => "Administrator".to_owned(),
            "adminlevel" => "None".to_owned(),
            "cluster" => cluster.to_owned(),
            "defaultaccount" => self.default_account.clone(),
            "parentname" => {
                let above = association.filter(|one| one.user.is_none());
                let parent = above.map(|one| one.parent.clone().unwrap_or("root".to_owned()));
                parent.unwrap_or_default()
            }
            "user" => user,
            "share" | "fairshare" => association.map_or("1".into(), |one| one.shares.to_string()),
            "name" | "type" if self.listing == Listing::Tres && key == "type" => {
                self.name.to_owned()
            }
            "name" if self.listing == Listing::Qos => self.name.to_owned(),
            "id" => self.id.to_string(),
            "priority" if self.listing == Listing::Qos => "0".to_owned(),
            "gracetime" => "00:00:00".to_owned(),
            "preemptmode" => "cluster".to_owned(),
            "usagefactor" => "1.000000".to_owned(),
            "qos" => "normal".to_owned(),
            _ => String::new(),
        }
    }
}

fn rows<'a>(
    listing: Listing,
    all: &'a [AssociationFacts],
    asked: &Asked,
    each: bool,
) -> Vec<Row<'a>> {
    let among = |list: &[String], word: &str| list.is_empty() || list.iter().any(|one| one == word);
    let default_of = |user: &str| {
        let first = all.iter().find(|one| one.user.as_deref() == Some(user));
        first.map_or_else(String::new, |one| one.account.clone())
    };
    let row = |association: Option<&'a AssociationFacts>, name, id| {
        let user = association.and_then(|one| one.user.as_deref()).unwrap_or_default();
        Row { listing, association, default_account: default_of(user), name, id }
    };
    let chosen = all.iter().filter(|one| {
        among(&asked.accounts, &one.account)
            && (asked.users.is_empty()
                || one.user.as_ref().is_some_and(|u| asked.users.contains(u)))
    });
    match listing {
        Listing::Associations => chosen.map(|one| row(Some(one), "", 0)).collect(),
        Listing::Users => {
            let mut seen = std::collections::BTreeSet::new();
            let users = chosen.filter(|one| {
                let user = one.user.as_deref();
                user.is_some_and(|user| among(&asked.names, user) && (seen.insert(user) || each))
            });
            users.map(|one| row(Some(one), "", 0)).collect()
        }
        Listing::Accounts => {
            let accounts = chosen.filter(|one| one.user.is_none());
            let named = accounts.filter(|one| among(&asked.names, &one.account));
            named.map(|one| row(Some(one), "", 0)).collect()
        }
        Listing::Qos => vec![row(None, "normal", 1)],
        Listing::Clusters => vec![row(None, "", 0)],
        Listing::Tres => {
            let names = ["cpu", "mem", "energy", "node", "billing"];
            (1..).zip(names).map(|(id, name)| row(None, name, id)).collect()
        }
    }
}

fn form(line: &CommandLine) -> Form {
    let delimiter = "|".to_owned();
    match (line.has("parsable2"), line.has("parsable")) {
        (true, _) => Form::Parsable { delimiter, trailing: false },
        (false, true) => Form::Parsable { delimiter, trailing: true },
        (false, false) => Form::Columns,
    }
}

fn associations(views: &[ShareView]) -> Vec<AssociationFacts> {
    let facts = |view: &ShareView| AssociationFacts {
        account: view.account.clone(),
        parent: view.parent.clone(),
        depth: view.depth as usize + 1,
        user: view.user.as_ref().map(|user| user.name.clone()),
        shares: view.shares,
        share_of_siblings: view.share_of_siblings,
        usage_s: view.usage_pe_s,
        usage_of_all: view.usage_of_all,
        fair_share: view.fair_share,
    };
    views.iter().map(facts).collect()
}

/// sshare(1): without options the own user's associations, and the accounts above them.
pub(super) async fn sshare(line: &CommandLine) -> Result<u8, Complaint> {
    if line.has("helpformat") {
        return Ok(print(&(shares(&[], true).names() + "\n")).map(|()| 0)?);
    }
    let mut source = Source::open().await?;
    let mut all = associations(&source.shares().await?);
    let uid = nix::unistd::geteuid();
    let own = nix::unistd::User::from_uid(uid).ok().flatten().map(|user| user.name);
    let users = match (line.has("users"), line.has("all")) {
        (true, _) => line.list("users"),
        (false, true) => Vec::new(),
        (false, false) => own.into_iter().collect(),
    };
    let accounts = line.list("accounts");
    all.retain(|one| {
        let by_user = match &one.user {
            Some(user) => users.is_empty() || users.contains(user),
            None => !line.has("Users"),
        };
        by_user && (accounts.is_empty() || accounts.contains(&one.account))
    });
    let format = line.text("format");
    let whole = shares(&all, line.has("long") || format.is_some());
    let sheet = match format {
        Some(format) => whole
            .only(&format)
            .map_err(|name| Complaint::error(format!("Invalid field requested: \"{name}\"")))?,
        None => whole,
    };
    print(&sheet.text(!line.has("noheader"), &form(line)))?;
    Ok(0)
}

/// sprio(1).
pub(super) async fn sprio(line: &CommandLine) -> Result<u8, Complaint> {
    let default = if line.has("long") { LONG_FORMAT } else { DEFAULT_FORMAT };
    let format = line.text("format").map_or(default.to_owned(), |text| text.into_owned());
    let (layout, unknown) = Layout::of_letters(&format, PRIORITY_FIELDS);
    for UnknownField(field) in unknown {
        note(&format!("sprio: error: Invalid job format specification: {field}\n"));
    }
    let mut source = Source::open().await?;
    let show = source.show().await?;
    let (jobs, users) = (line.list("jobs"), line.list("user"));
    let partitions = line.list("partition");
    let mut views = source.priorities().await?;
    views.sort_by_key(|view| view.job);
    let ineligible = ineligible(&mut source).await?;
    views.retain(|view| {
        let array = view.array.map(|task| task.array.to_string());
        let named = |name: &String| *name == view.job_name() || Some(name) == array.as_ref();
        let of_user = |user: &String| *user == view.user.name || *user == view.user.uid.to_string();
        !ineligible.contains(&view.job)
            && (jobs.is_empty() || jobs.iter().any(named))
            && (users.is_empty() || users.iter().any(of_user))
            && (partitions.is_empty() || partitions.contains(&view.partition))
    });
    if views.is_empty() && !(jobs.is_empty() && users.is_empty()) {
        print("Unable to find jobs matching user/id(s) specified\n")?;
        return Ok(0);
    }
    let mut text = if line.has("noheader") { String::new() } else { layout.heads() };
    for view in &views {
        let facts = PriorityFacts {
            job: view.job_name(),
            partition: view.partition.clone(),
            user: view.user.name.clone(),
            priority: view.priority.0,
            age: view.factors.age,
            fair_share: view.factors.fair_share,
            size: view.factors.size,
            of_partition: view.factors.partition,
            qos: view.factors.qos,
            nice: view.nice,
        };
        text += &layout.row(&facts, &show);
    }
    print(&text)?;
    Ok(0)
}

/// The jobs that wait for something other than processing elements: sprio leaves them out.
async fn ineligible(source: &mut Source) -> Result<HashSet<JobId>, Complaint> {
    let filter = JobFilter { states: vec![JobState::Pending], ..JobFilter::default() };
    let jobs = source.jobs(filter).await?;
    let waiting = jobs
        .iter()
        .filter(|job| is_ineligible(job) || job.reason_code.as_deref() == Some("BeginTime"));
    Ok(waiting.map(|job| job.id).collect())
}
