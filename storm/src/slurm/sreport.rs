//! sreport(1): reports of the cluster's use, from the manager's jobs and its history.

use super::complaint::Complaint;
use super::job_facts::JobReader;
use super::sacct_options::{form, past_time};
use super::source::Source;
use crate::command::print;
use jiff::{ToSpan, Zoned};
use nix::unistd::User;
use storm_mm::api::JobFilter;
use storm_slurm::options::CommandLine;
use storm_slurm::view::JobFacts;
use storm_slurm::view::sreport::{Period, Report, TimeUnit};

/// Users in `TopUsage` unless `TopCount` says otherwise.
const TOP: usize = 10;
const REPORTS: &str = "there are `cluster Utilization`, `cluster AccountUtilizationByUser` and \
                       `user TopUsage`";

/// The reports that are there.
#[derive(Clone, Copy)]
enum Kind {
    Utilization,
    ByAccount,
    Top,
}

impl Kind {
    /// Slurm takes any beginning of a word.
    fn of(class: &str, report: &str) -> Option<Kind> {
        let begins = |name: &str, word: &str| name.starts_with(&word.to_ascii_lowercase());
        match () {
            () if begins("cluster", class) && begins("utilization", report) => {
                Some(Kind::Utilization)
            }
            () if begins("cluster", class) && begins("accountutilizationbyuser", report) => {
                Some(Kind::ByAccount)
            }
            () if begins("user", class) && begins("topusage", report) => Some(Kind::Top),
            () => None,
        }
    }
}

/// The words behind the name of a report.
struct Conditions {
    period: Period,
    format: Option<String>,
    users: Vec<String>,
    accounts: Vec<String>,
    top: usize,
}

pub(super) async fn run(line: &CommandLine) -> Result<u8, Complaint> {
    let words: Vec<String> =
        line.operands.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let [class, report, conditions @ ..] = words.as_slice() else {
        return Err(Complaint::plain("too few arguments: sreport asks for no commands here")
            .and_told(REPORTS));
    };
    let kind = Kind::of(class, report)
        .ok_or_else(|| Complaint::plain(format!("Not valid report {report}")).and_told(REPORTS))?;
    let unit = match line.text("t") {
        None => TimeUnit::Minutes,
        Some(name) => TimeUnit::named(&name)
            .ok_or_else(|| Complaint::error(format!("Invalid time format: {name}")))?,
    };
    if line.list("tres").iter().any(|one| !one.eq_ignore_ascii_case("cpu")) {
        return Err(Complaint::error("only processing elements are counted: --tres=cpu"));
    }
    let conditions = Conditions::of(conditions)?;
    let mut source = Source::open().await?;
    let show = source.show().await?;
    let cpus = source.nodes().await?.iter().map(|node| u64::from(node.pes)).sum();
    let filter = JobFilter { history: true, attributes: true, ..JobFilter::default() };
    let mut reader = JobReader::default();
    let views = source.jobs(filter).await?;
    let jobs: Vec<JobFacts> =
        views.iter().map(|view| reader.facts(view)).filter(|job| conditions.has(job)).collect();
    let report = Report {
        period: conditions.period,
        unit,
        cpus,
        jobs: &jobs,
        proper_names: &proper_name,
        show: &show,
    };
    let (title, sheet) = match kind {
        Kind::Utilization => (report.utilization_title(), report.utilization()),
        Kind::ByAccount => (report.by_account_title(), report.by_account()),
        Kind::Top => (report.top_title(conditions.top), report.top(conditions.top)),
    };
    let sheet = match &conditions.format {
        None => sheet,
        Some(format) => sheet
            .only(format)
            .map_err(|name| Complaint::error(format!("Unknown field '{name}'")))?,
    };
    let heads = !line.has("noheader");
    let title = if heads { title } else { String::new() };
    print(&(title + &sheet.text(heads, &form(line))))?;
    Ok(0)
}

impl Conditions {
    fn of(words: &[String]) -> Result<Conditions, Complaint> {
        let now = Zoned::now();
        let unknown = |word: &str| Complaint::error(format!("Unknown condition: {word}"));
        // Slurm's default is yesterday.
        let midnight = now.start_of_day().map_err(|error| Complaint::error(error.to_string()))?;
        let yesterday = midnight.checked_sub(1.day());
        let yesterday = yesterday.map_err(|error| Complaint::error(error.to_string()))?;
        let mut found = Conditions {
            period: Period { start: yesterday.timestamp(), end: midnight.timestamp() },
            format: None,
            users: Vec::new(),
            accounts: Vec::new(),
            top: TOP,
        };
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| unknown(word))?;
            let time = || {
                let wrong = || Complaint::error(format!("Invalid time specification: {value}"));
                past_time(value, &now).ok_or_else(wrong)
            };
            let list = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
            match key.to_ascii_lowercase().as_str() {
                "start" => found.period.start = time()?,
                "end" => found.period.end = time()?,
                "format" => found.format = Some(value.to_owned()),
                "user" | "users" => found.users = list(),
                "account" | "accounts" => found.accounts = list(),
                "cluster" | "clusters" => {}
                "topcount" => {
                    found.top = value.parse().map_err(|_| unknown(word))?;
                }
                _ => return Err(unknown(word)),
            }
        }
        if found.period.end <= found.period.start {
            return Err(Complaint::error("the end of the period is not after its start"));
        }
        Ok(found)
    }

    fn has(&self, job: &JobFacts) -> bool {
        let account = job.account.clone().unwrap_or_default();
        (self.users.is_empty() || self.users.contains(&job.user))
            && (self.accounts.is_empty() || self.accounts.contains(&account))
    }
}

/// The full name of a user: the first part of its entry's comment (passwd(5)).
fn proper_name(user: &str) -> String {
    let entry = User::from_name(user).ok().flatten();
    let comment = entry.map(|entry| entry.gecos.to_string_lossy().into_owned()).unwrap_or_default();
    comment.split(',').next().unwrap_or_default().to_owned()
}
