//! The options of sacct(1).

use super::complaint::Complaint;
use super::queue_options::names;
use super::users::{Users, users};
use crate::begin_time::{Missing, dated, parse_begin};
use crate::duration::parse_time_limit;
use jiff::{Timestamp, Zoned};
use std::ops::RangeInclusive;
use storm_mm::api::JobFilter;
use storm_rm::JobId;
use storm_slurm::JobName;
use storm_slurm::host_list::expand;
use storm_slurm::options::CommandLine;
use storm_slurm::view::sacct::{
    BRIEF_FORMAT, DEFAULT_FORMAT, Edges, Form, LONG_FORMAT, SacctLayout, UnitChoice, Window,
};
use storm_slurm::view::{JobFacts, StateCode};

/// The rows to list, and their layout.
pub(super) struct Options {
    pub(super) heads: bool,
    pub(super) only_jobs: bool,
    pub(super) each_task: bool,
    pub(super) truncate: bool,
    pub(super) layout: SacctLayout,
    pub(super) form: Form,
    pub(super) unit: UnitChoice,
    pub(super) window: Window,
    states: Vec<StateCode>,
    jobs: Vec<JobName>,
    uids: Vec<u32>,
    users: Vec<String>,
    accounts: Vec<String>,
    names: Vec<String>,
    partitions: Vec<String>,
    qos: Vec<String>,
    nodes: Vec<String>,
    groups: Vec<String>,
    features: Vec<String>,
    reasons: Vec<String>,
    node_counts: Option<RangeInclusive<u32>>,
    cpu_counts: Option<RangeInclusive<u32>>,
    limits_s: Option<RangeInclusive<u64>>,
}

impl Options {
    /// Reads the command line.
    pub(super) fn of(line: &CommandLine) -> Result<Options, Complaint> {
        let jobs = names(&line.list("jobs").join(","), "Bad job/step specified: ")?;
        let Users { uids, names: users, notes } = asked_users(line, !jobs.is_empty());
        if let Some(first) = notes.first() {
            return Err(Complaint::error(first.clone()));
        }
        let states = states(line)?;
        let now = Zoned::now();
        let edges = Edges {
            start: time(line, "starttime", &now)?,
            end: time(line, "endtime", &now)?,
            by_state: !states.is_empty(),
            by_job: !jobs.is_empty(),
        };
        let midnight = now.start_of_day().map_or(now.timestamp(), |day| day.timestamp());
        Ok(Options {
            heads: !line.has("noheader"),
            only_jobs: line.has("allocations"),
            each_task: line.has("array"),
            truncate: line.has("truncate"),
            layout: layout(line)?,
            form: form(line),
            unit: unit(line)?,
            window: Window::of(edges, now.timestamp(), midnight),
            states,
            jobs,
            uids,
            users,
            accounts: line.list("accounts"),
            names: line.list("name"),
            partitions: line.list("partition"),
            qos: line.list("qos"),
            nodes: hosts(line)?,
            groups: line.list("gid"),
            features: line.list("constraints"),
            reasons: line.list("reason"),
            node_counts: counts(line, "nnodes")?,
            cpu_counts: counts(line, "ncpus")?,
            limits_s: limits(line)?,
        })
    }

    pub(super) fn filter(&self) -> JobFilter {
        JobFilter {
            states: Vec::new(),
            uids: self.uids.clone(),
            users: self.users.clone(),
            jobs: self.jobs.iter().map(|name| JobId(name.job)).collect(),
            history: true,
            attributes: true,
            steps: false,
            part: None,
        }
    }

    /// Whether the job is among those asked for.
    pub(super) fn has(&self, job: &JobFacts) -> bool {
        let among = |list: &[String], word: &str| list.is_empty() || list.iter().any(|w| w == word);
        let group = job.group.as_deref().unwrap_or_default();
        let gid = job.gid.map_or_else(String::new, |gid| gid.to_string());
        self.window.has(job, &self.states)
            && (self.jobs.is_empty() || self.jobs.iter().any(|name| means(name, job)))
            && among(&self.accounts, job.account.as_deref().unwrap_or_default())
            && among(&self.names, &job.name)
            && among(&self.partitions, &job.partition)
            && among(&self.qos, job.qos.as_deref().unwrap_or("normal"))
            && (among(&self.groups, group) || among(&self.groups, &gid))
            && among(&self.features, job.features.as_deref().unwrap_or_default())
            && among(&self.reasons, &job.reason)
            && self.node_counts.as_ref().is_none_or(|range| range.contains(&job.nodes))
            && self.cpu_counts.as_ref().is_none_or(|range| range.contains(&job.cpus))
            && self.limits_s.as_ref().is_none_or(|range| {
                job.time_limit_s.is_some_and(|limit_s| range.contains(&limit_s))
            })
            && (self.nodes.is_empty() || {
                let nodes = expand(&job.node_list).unwrap_or_default();
                nodes.iter().any(|node| self.nodes.contains(node))
            })
    }

    /// Whether the row of the job is listed; not if only steps of it are named.
    pub(super) fn shows_job(&self, job: &JobFacts) -> bool {
        let mut named = self.jobs.iter().filter(|name| means(name, job));
        self.jobs.is_empty() || named.any(|name| name.step.is_none())
    }

    /// Whether a step of the job is among those asked for.
    pub(super) fn has_step(&self, job: &JobFacts, step: &str) -> bool {
        let mut named = self.jobs.iter().filter(|name| means(name, job));
        self.jobs.is_empty() || named.any(|name| name.step.as_deref().is_none_or(|s| s == step))
    }
}

fn means(name: &JobName, job: &JobFacts) -> bool {
    let place = job.array.as_ref().map(|place| (place.job, place.first()));
    name.means(job.id, place)
}

/// The users to list: those that are named; else the own user, or all for root and for named jobs.
fn asked_users(line: &CommandLine, by_job: bool) -> Users {
    let uid = nix::unistd::geteuid();
    let all = line.has("allusers") || by_job || uid.is_root();
    match (line.has("user"), all) {
        (true, _) => users(&line.list("user"), "Invalid user id: "),
        (false, true) => Users::default(),
        (false, false) => Users { uids: vec![uid.as_raw()], ..Users::default() },
    }
}

fn states(line: &CommandLine) -> Result<Vec<StateCode>, Complaint> {
    let mut states = Vec::new();
    for word in line.list("state") {
        let meant = StateCode::meant_by(&word);
        states.extend(
            meant
                .map_err(|_| Complaint::error(format!("unrecognized job state value '{word}'")))?,
        );
    }
    Ok(states)
}

fn time(line: &CommandLine, option: &str, now: &Zoned) -> Result<Option<Timestamp>, Complaint> {
    let Some(text) = line.text(option) else { return Ok(None) };
    let wrong = || Complaint::plain(format!("Invalid time specification (pos=0): {text}"));
    past_time(&text, now).ok_or_else(wrong).map(Some)
}

/// `now-2days`, `now-1hour`, or a time as for `--begin`. `00:00` is today's.
pub(super) fn past_time(text: &str, now: &Zoned) -> Option<Timestamp> {
    if let Some(back) = text.strip_prefix("now-") {
        let ahead = parse_begin(&format!("now+{back}"), now).ok()?;
        let span = ahead.duration_since(now.timestamp());
        return now.timestamp().checked_sub(span).ok();
    }
    if let Some(time) = dated(text, now, Missing::Past) {
        return Some(time);
    }
    let time = parse_begin(text, now).ok()?;
    // A time of day without a date means its last occurrence, and for `--begin` the next one.
    let of_day = !text.contains(['-', '/', 'T', '+']) && text.contains(':')
        || matches!(text, "midnight" | "noon" | "fika" | "teatime");
    let day = jiff::SignedDuration::from_hours(24);
    match of_day && time > now.timestamp() {
        true => time.checked_sub(day).ok(),
        false if text == "today" => now.start_of_day().ok().map(|day| day.timestamp()),
        false => Some(time),
    }
}

fn layout(line: &CommandLine) -> Result<SacctLayout, Complaint> {
    let variable = || std::env::var("SACCT_FORMAT").ok().filter(|format| !format.is_empty());
    let given = line.list("format").join(",");
    let format = match (given.is_empty(), line.has("brief"), line.has("long")) {
        (false, ..) => given,
        (true, true, _) => BRIEF_FORMAT.to_owned(),
        (true, false, true) => LONG_FORMAT.to_owned(),
        (true, false, false) => variable().unwrap_or_else(|| DEFAULT_FORMAT.to_owned()),
    };
    SacctLayout::of(&format).map_err(|error| Complaint::error(error.to_string()))
}

pub(super) fn form(line: &CommandLine) -> Form {
    let trailing = line.has("parsable") && !line.has("parsable2");
    match trailing || line.has("parsable2") {
        false => Form::Columns,
        true => {
            let delimiter = line.text("delimiter").map_or("|".to_owned(), |text| text.into_owned());
            Form::Parsable { delimiter, trailing }
        }
    }
}

fn unit(line: &CommandLine) -> Result<UnitChoice, Complaint> {
    if line.has("noconvert") {
        return Ok(UnitChoice::Bytes);
    }
    let Some(text) = line.text("units") else { return Ok(UnitChoice::Fitting) };
    let mut letters = text.chars();
    match (letters.next().map(|letter| letter.to_ascii_uppercase()), letters.next()) {
        (Some(unit @ ('K' | 'M' | 'G' | 'T' | 'P')), None) => Ok(UnitChoice::Of(unit)),
        _ => Err(Complaint::error("Invalid unit type")),
    }
}

fn hosts(line: &CommandLine) -> Result<Vec<String>, Complaint> {
    let Some(list) = line.text("nodelist") else { return Ok(Vec::new()) };
    expand(&list).map_err(|error| Complaint::error(error.to_string()))
}

/// `N`, or `MIN-MAX`.
fn counts(line: &CommandLine, option: &str) -> Result<Option<RangeInclusive<u32>>, Complaint> {
    let Some(text) = line.text(option) else { return Ok(None) };
    let (least, most) = text.split_once('-').unwrap_or((&text, &text));
    match (least.parse(), most.parse()) {
        (Ok(least), Ok(most)) => Ok(Some(least..=most)),
        _ => Err(Complaint::error(format!("bad range of --{option}: {text}"))),
    }
}

/// The time limits of `--timelimit-min` and `--timelimit-max`, which alone means nothing.
fn limits(line: &CommandLine) -> Result<Option<RangeInclusive<u64>>, Complaint> {
    let limit = |option: &str| match line.text(option) {
        None => Ok(None),
        Some(text) => match parse_time_limit(&text) {
            Ok(limit) => Ok(Some(limit.as_secs())),
            Err(_) => Err(Complaint::error(format!("bad time of --{option}: {text}"))),
        },
    };
    let (least, most) = (limit("timelimit-min")?, limit("timelimit-max")?);
    Ok(least.map(|least| least..=most.unwrap_or(least)))
}
