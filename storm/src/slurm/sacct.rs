//! sacct(1): jobs and their steps, from the manager's jobs and its history.

use super::complaint::Complaint;
use super::job_facts::{JobReader, step_of, step_use};
use super::queue_options::names;
use super::source::Source;
use super::users::{Users, users};
use crate::begin_time::parse_begin;
use crate::command::print;
use jiff::{Timestamp, Zoned};
use storm_mm::api::{JobFilter, JobView};
use storm_rm::JobId;
use storm_slurm::JobName;
use storm_slurm::host_list::expand;
use storm_slurm::options::CommandLine;
use storm_slurm::view::sacct::{
    BRIEF_FORMAT, DEFAULT_FORMAT, Edges, Form, LONG_FORMAT, SacctLayout, SacctRow, UnitChoice,
    Window, help_format,
};
use storm_slurm::view::squeue::fold_arrays;
use storm_slurm::view::{JobFacts, Show, StateCode};

pub(super) async fn run(line: &CommandLine) -> Result<u8, Complaint> {
    if line.has("helpformat") {
        return Ok(print(&help_format()).map(|()| 0)?);
    }
    let options = Options::of(line)?;
    let mut source = Source::open().await?;
    let mut show = source.show().await?;
    show.index_chars = None;
    let others = source.is_one_of(&line.list("clusters")).await?;
    let asked = line.list("clusters").len();
    // Slurm tells nothing of a cluster that its database does not have.
    let elsewhere = asked > 0 && others.len() == asked;
    let views = match elsewhere {
        true => Vec::new(),
        false => source.jobs(options.filter()).await?,
    };
    if line.has("batch-script") || line.has("env-vars") {
        return Err(Complaint::error("the manager does not tell scripts and environments yet")
            .and_told("a job's script is in its spool: see `storm show JOB`"));
    }
    let mut text = match options.heads {
        true => options.layout.heads(&options.form),
        false => String::new(),
    };
    let rows = rows(&views, &options, &show);
    text.extend(rows.iter().map(|row| options.layout.row(row, &show, options.unit, &options.form)));
    print(&text)?;
    Ok(0)
}

/// The rows of these jobs, in the order of their numbers.
fn rows(views: &[JobView], options: &Options, show: &Show) -> Vec<SacctRow> {
    let mut reader = JobReader::default();
    let mut rows = Vec::new();
    let mut waiting: Vec<JobFacts> = Vec::new();
    for view in views {
        let mut job = reader.facts(view);
        if !options.has(&job) {
            continue;
        }
        // Jobs of an array that wait share a row, which follows those of the array that do not.
        if !options.each_task && job.state == StateCode::Pending && job.array.is_some() {
            waiting.push(job);
            continue;
        }
        if !belongs_to(&job, &waiting) {
            rows.extend(fold_arrays(std::mem::take(&mut waiting)).into_iter().map(alone));
        }
        let step = step_of(view, &job).filter(|step| options.has_step(&job, &step.id));
        if options.truncate {
            options.window.truncate(&mut job, show.now);
        }
        let more = view.attributes.as_ref();
        let used = more.and_then(|more| Some(step_use(more.used.as_ref()?, job.tasks)));
        if options.shows_job(&job) {
            rows.push(SacctRow::Job { job: Box::new(job), used });
        }
        if !options.only_jobs {
            rows.extend(step.map(|step| SacctRow::Step(Box::new(step))));
        }
    }
    rows.extend(fold_arrays(waiting).into_iter().map(alone));
    rows
}

fn alone(job: JobFacts) -> SacctRow {
    SacctRow::Job { job: Box::new(job), used: None }
}

/// Whether the job is of the same array as those that wait.
fn belongs_to(job: &JobFacts, waiting: &[JobFacts]) -> bool {
    let array = job.array.as_ref().map(|place| place.job);
    waiting.first().is_none_or(|first| array == Some(first.array_id()))
}

/// What to list, and how.
struct Options {
    heads: bool,
    only_jobs: bool,
    each_task: bool,
    truncate: bool,
    layout: SacctLayout,
    form: Form,
    unit: UnitChoice,
    window: Window,
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
}

impl Options {
    fn of(line: &CommandLine) -> Result<Options, Complaint> {
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
        })
    }

    fn filter(&self) -> JobFilter {
        JobFilter {
            states: Vec::new(),
            uids: self.uids.clone(),
            users: self.users.clone(),
            jobs: self.jobs.iter().map(|name| JobId(name.job)).collect(),
            history: true,
            attributes: true,
            part: None,
        }
    }

    fn has(&self, job: &JobFacts) -> bool {
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
            && (self.nodes.is_empty() || {
                let nodes = expand(&job.node_list).unwrap_or_default();
                nodes.iter().any(|node| self.nodes.contains(node))
            })
    }

    /// Whether the row of the job is listed; not if only steps of it are named.
    fn shows_job(&self, job: &JobFacts) -> bool {
        let mut named = self.jobs.iter().filter(|name| means(name, job));
        self.jobs.is_empty() || named.any(|name| name.step.is_none())
    }

    fn has_step(&self, job: &JobFacts, step: &str) -> bool {
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
fn past_time(text: &str, now: &Zoned) -> Option<Timestamp> {
    if let Some(back) = text.strip_prefix("now-") {
        let ahead = parse_begin(&format!("now+{back}"), now).ok()?;
        let span = ahead.duration_since(now.timestamp());
        return now.timestamp().checked_sub(span).ok();
    }
    let time = parse_begin(text, now).ok()?;
    // A time of day without a date means its last occurrence, and for `--begin` the next one.
    let of_day = !text.contains(['-', '/', 'T', '+']) && text.contains(':')
        || matches!(text, "midnight" | "noon" | "teatime");
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

fn form(line: &CommandLine) -> Form {
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
