//! The options of squeue(1), from its command line and variables.

use super::complaint::Complaint;
use super::job_facts::api_states;
use super::squeue::DEFAULT_STATES;
use super::users::{Users, users};
use std::collections::BTreeSet;
use storm_mm::api::JobState;
use storm_slurm::JobName;
use storm_slurm::host_list::expand;
use storm_slurm::options::CommandLine;
use storm_slurm::view::squeue::{
    DEFAULT_FORMAT, DEFAULT_ORDER, JOB_FIELDS, LONG_FORMAT, Order, START_FORMAT, START_ORDER,
    STEP_FIELDS, STEPS_FORMAT,
};
use storm_slurm::view::{JobFacts, Layout, StateCode, StepFacts, UnknownField};

/// The rows to list, and their layout.
pub(super) struct QueueOptions {
    pub(super) heads: bool,
    pub(super) long: bool,
    /// Each job of an array on a line of its own.
    pub(super) each_task: bool,
    pub(super) convert: bool,
    pub(super) clusters: Vec<String>,
    pub(super) iterate_s: Option<u64>,
    pub(super) jobs: Vec<JobName>,
    pub(super) uids: Vec<u32>,
    pub(super) users: Vec<String>,
    /// A user was named that does not exist.
    pub(super) misses_users: bool,
    /// Users were named, and none of them exists.
    pub(super) nobody: bool,
    pub(super) nodes: BTreeSet<String>,
    pub(super) layout: Layout<JobFacts>,
    pub(super) order: Order,
    /// The columns of steps, if steps are asked for.
    pub(super) steps: Option<Layout<StepFacts>>,
    /// Mistakes that do not prevent the listing.
    pub(super) notes: Vec<String>,
    step_names: Vec<JobName>,
    /// None: all.
    states: Option<BTreeSet<StateCode>>,
    accounts: Vec<String>,
    names: Vec<String>,
    partitions: Vec<String>,
    qos: Vec<String>,
    reservation: Option<String>,
    /// The own user, after `--notme`.
    not_of: Option<u32>,
    /// An option that needs the priorities was given.
    explicit_order: bool,
}

/// A variable of the environment.
type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

impl QueueOptions {
    /// Reads the command line; a variable counts where its option was not given.
    pub(super) fn of(line: &CommandLine, variable: Variable) -> Result<QueueOptions, Complaint> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let list = |option: &str, name: &str| match line.has(option) {
            true => line.list(option),
            false => split(&set(name).unwrap_or_default()),
        };
        let Users { uids, names: users, notes } = asked_users(line, &set);
        let misses_users = !notes.is_empty();
        let nobody = misses_users && uids.is_empty() && users.is_empty();
        let start = line.has("start");
        let steps_asked = line.has("steps");
        let (jobs, step_names) = operands(line, steps_asked)?;
        let order = line.text("sort").map(|text| text.into_owned()).or(set("SQUEUE_SORT"));
        let default_order = if start { START_ORDER } else { DEFAULT_ORDER };
        let parsed = Order::of(order.as_deref().unwrap_or(default_order));
        let mut options = QueueOptions {
            heads: !line.has("noheader"),
            long: line.has("long"),
            each_task: line.has("array")
                || line.has("array-unique")
                || set("SQUEUE_ARRAY").is_some()
                || jobs.iter().any(|job| job.tasks.is_some()),
            convert: !line.has("noconvert"),
            clusters: list("clusters", "SLURM_CLUSTERS"),
            iterate_s: iterate(line)?,
            jobs,
            uids,
            users,
            misses_users,
            nobody,
            nodes: hosts(line)?.into_iter().collect(),
            layout: Layout::of_letters("", JOB_FIELDS).0,
            order: parsed.map_err(|error| Complaint::error(error.to_string()))?,
            steps: None,
            notes,
            step_names,
            states: states(line, &set, start)?,
            accounts: list("account", "SQUEUE_ACCOUNT"),
            names: list("name", "SQUEUE_NAMES"),
            partitions: list("partition", "SQUEUE_PARTITION"),
            qos: list("qos", "SQUEUE_QOS"),
            reservation: line.text("reservation").map(|text| text.into_owned()),
            not_of: line.has("notme").then(|| nix::unistd::geteuid().as_raw()),
            explicit_order: order.is_some(),
        };
        options.choose_columns(line, &set, start, steps_asked);
        Ok(options)
    }

    fn choose_columns(
        &mut self,
        line: &CommandLine,
        set: &dyn Fn(&str) -> Option<String>,
        start: bool,
        steps: bool,
    ) {
        // The last of -o and -O counts.
        let given =
            line.options.iter().rfind(|one| one.option.is("format") || one.option.is("Format"));
        let given = given.map(|one| (one.option.is("Format"), one.text().into_owned()));
        let by_variable = || {
            let letters = set("SQUEUE_FORMAT").map(|format| (false, format));
            letters.or_else(|| set("SQUEUE_FORMAT2").map(|format| (true, format)))
        };
        let default = match (steps, start, self.long) {
            (true, ..) => STEPS_FORMAT,
            (_, true, _) => START_FORMAT,
            (_, _, true) => LONG_FORMAT,
            _ => DEFAULT_FORMAT,
        };
        // A variable does not replace the columns of another listing.
        let by_variable = || if start || self.long { None } else { by_variable() };
        let (by_name, format) =
            given.or_else(by_variable).unwrap_or_else(|| (false, default.to_owned()));
        let unknown = if steps {
            let (layout, unknown) = read(by_name, &format, STEP_FIELDS);
            self.steps = Some(layout);
            unknown
        } else {
            let (layout, unknown) = read(by_name, &format, JOB_FIELDS);
            self.layout = layout;
            unknown
        };
        let of_what = if steps { "job step" } else { "job" };
        let told = |UnknownField(field)| format!("Invalid {of_what} format specification: {field}");
        self.notes.extend(unknown.into_iter().map(told));
    }

    /// The states to ask the manager for; none is all that have not ended.
    pub(super) fn api_states(&self) -> Vec<JobState> {
        let states = self.states.iter().flatten();
        let states: BTreeSet<JobState> = states.flat_map(|s| api_states(*s)).copied().collect();
        states.into_iter().collect()
    }

    /// Whether jobs that have ended are listed.
    pub(super) fn with_ended(&self) -> bool {
        self.states.as_ref().is_none_or(|states| states.iter().any(|state| state.is_final()))
    }

    /// Whether a column, the order or a filter needs facts that only attributes have.
    pub(super) fn needs_attributes(&self) -> bool {
        let plain = |name: &str| PLAIN_FIELDS.contains(&name);
        let mut orders = self.order.letters();
        self.steps.is_some()
            || self.layout.fields().any(|field| !plain(field.name))
            || orders.any(|letter| !"PtTpijuUAFKCDclLMmNSVerRQ".contains(letter))
            || !self.accounts.is_empty()
            || !self.qos.is_empty()
            || self.reservation.is_some()
    }

    pub(super) fn needs_priorities(&self) -> bool {
        self.layout.shows("priority")
            || self.layout.shows("prioritylong")
            || (self.explicit_order && self.order.needs_priority())
    }

    /// Whether the job is among those asked for.
    pub(super) fn has(&self, job: &JobFacts) -> bool {
        let array = job.array.as_ref();
        let place = array.map(|place| (place.job, place.first()));
        let among = |list: &[String], word: Option<&str>| {
            list.is_empty() || word.is_some_and(|word| list.iter().any(|one| one == word))
        };
        self.states.as_ref().is_none_or(|states| states.contains(&job.state))
            && self.not_of.is_none_or(|uid| uid != job.uid)
            && (self.jobs.is_empty() || self.jobs.iter().any(|name| name.means(job.id, place)))
            && among(&self.accounts, job.account.as_deref())
            && among(&self.names, Some(&job.name))
            && among(&self.partitions, Some(&job.partition))
            && among(&self.qos, Some(job.qos.as_deref().unwrap_or("normal")))
            && (self.reservation.is_none() || self.reservation == job.reservation)
            && (self.nodes.is_empty() || self.has_node_of(job))
    }

    /// Whether a step is among those asked for.
    pub(super) fn has_step(&self, job: &JobFacts, step: &str) -> bool {
        let place = job.array.as_ref().map(|place| (place.job, place.first()));
        let means = |name: &JobName| {
            name.means(job.id, place) && name.step.as_deref().is_none_or(|own| own == step)
        };
        self.step_names.is_empty() || self.step_names.iter().any(means)
    }

    fn has_node_of(&self, job: &JobFacts) -> bool {
        let nodes = expand(&job.node_list).unwrap_or_default();
        nodes.iter().any(|node| self.nodes.contains(node))
    }
}

/// The fields whose facts every listing has.
const PLAIN_FIELDS: &[&str] = &[
    "jobid",
    "jobarrayid",
    "arrayjobid",
    "arraytaskid",
    "name",
    "numcpus",
    "cpus-per-task",
    "numtasks",
    "numnodes",
    "feature",
    "oversubscribe",
    "timelimit",
    "timeleft",
    "timeused",
    "minmemory",
    "mincpus",
    "nodelist",
    "partition",
    "prioritylong",
    "priority",
    "reason",
    "reasonlist",
    "statecompact",
    "state",
    "username",
    "userid",
    "submittime",
    "cluster",
    "schednodes",
];

fn read<R>(
    by_name: bool,
    format: &str,
    fields: &'static [storm_slurm::view::Field<R>],
) -> (Layout<R>, Vec<UnknownField>) {
    match by_name {
        true => Layout::of_names(format, fields),
        false => Layout::of_letters(format, fields),
    }
}

fn split(text: &str) -> Vec<String> {
    text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn asked_users(line: &CommandLine, set: &dyn Fn(&str) -> Option<String>) -> Users {
    if line.has("me") {
        return Users { uids: vec![nix::unistd::geteuid().as_raw()], ..Users::default() };
    }
    let named = match line.has("user") {
        true => line.list("user"),
        false => split(&set("SQUEUE_USERS").unwrap_or_default()),
    };
    users(&named, "Invalid user: ")
}

/// The jobs and steps that are named: behind `-j` and `-s`, attached or as the word after them.
fn operands(line: &CommandLine, steps: bool) -> Result<(Vec<JobName>, Vec<JobName>), Complaint> {
    let word = line.operands.first().map(|word| word.to_string_lossy().into_owned());
    let by_job = line.has("jobs") && line.value("jobs").is_none();
    let by_step = steps && line.value("steps").is_none();
    let used = usize::from(word.is_some() && (by_job || by_step));
    if let Some(extra) = line.operands.get(used) {
        let extra = extra.to_string_lossy();
        return Err(Complaint::error(format!("Unrecognized option: {extra}")));
    }
    let words = |option: &str, by_operand: bool| match (by_operand, &word) {
        (true, Some(word)) => word.clone(),
        _ => line.text(option).unwrap_or_default().into_owned(),
    };
    let jobs = names(&words("jobs", by_job), "Invalid job id: ")?;
    let steps = names(&words("steps", by_step && !by_job), "Invalid job_step id: ")?;
    Ok((jobs, steps))
}

/// Names of jobs, separated by commas that are in no brackets.
pub(super) fn names(text: &str, complaint: &str) -> Result<Vec<JobName>, Complaint> {
    let (mut parts, mut inside) = (vec![String::new()], false);
    for sign in text.chars() {
        match sign {
            ',' if !inside => parts.push(String::new()),
            sign => {
                inside = (inside || sign == '[') && sign != ']';
                parts.last_mut().expect("it begins with one").push(sign);
            }
        }
    }
    let parts = parts.iter().filter(|part| !part.is_empty());
    let name =
        |part: &String| part.parse().map_err(|_| Complaint::error(format!("{complaint}{part}")));
    parts.map(name).collect()
}

fn states(
    line: &CommandLine,
    set: &dyn Fn(&str) -> Option<String>,
    start: bool,
) -> Result<Option<BTreeSet<StateCode>>, Complaint> {
    let named = match line.has("states") {
        true => line.list("states"),
        false => split(&set("SQUEUE_STATES").unwrap_or_default()),
    };
    if named.iter().any(|word| word.eq_ignore_ascii_case("all")) {
        return Ok(None);
    }
    if named.is_empty() {
        let default = if start { &[StateCode::Pending][..] } else { &DEFAULT_STATES };
        return Ok(Some(default.iter().copied().collect()));
    }
    let mut states = BTreeSet::new();
    for word in &named {
        let meant = StateCode::meant_by(word).map_err(|error| {
            let known = StateCode::known_names();
            Complaint::error(error.to_string())
                .and_error(format!("Valid job states include: {known}"))
        })?;
        states.extend(meant);
    }
    Ok(Some(states))
}

fn hosts(line: &CommandLine) -> Result<Vec<String>, Complaint> {
    let Some(list) = line.text("nodelist") else { return Ok(Vec::new()) };
    expand(&list).map_err(|error| Complaint::error(error.to_string()))
}

fn iterate(line: &CommandLine) -> Result<Option<u64>, Complaint> {
    let Some(text) = line.text("iterate") else { return Ok(None) };
    match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(Some(seconds)),
        _ => Err(Complaint::error(format!("--iterate={text}"))),
    }
}
