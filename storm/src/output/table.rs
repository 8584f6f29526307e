//! For users: tables.

use super::folded_nodes::{Alike, fold};
use super::folded_tasks::{Together, fold as fold_tasks, fold_names};
use super::table_form::{pairs, table};
use super::zone::Zone;
use super::{
    ArrayStates, Campaign, Changed, Output, Sheet, Simulated, campaign, partition, reservation,
    simulation, steps, written,
};
use crate::failure::Failure;
use crate::local_cluster::{KeptCluster, dimensions};
use crate::outcome::Outcome;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use storm_mm::api::{
    API_VERSION, Explanation, JobDetail, JobState, JobView, LaunchBreakdown, NodeView,
    PartitionView, RankView, ReservationView, asked_for,
};
use storm_rm::{FirstStep, JobId, OsBytes};

/// Most ranks that `show` lists one by one; of larger jobs it lists only ranks that failed.
const RANKS_SHOWN: usize = 16;

/// Prints tables.
#[derive(Clone, Debug)]
pub(crate) struct TableOutput {
    zone: Zone,
}

impl TableOutput {
    /// Prints times in this zone.
    pub(crate) fn new(zone: Zone) -> TableOutput {
        TableOutput { zone }
    }
}

impl Output for TableOutput {
    fn jobs(&self, jobs: &[JobView]) -> String {
        let columns = [
            ">JOB",
            "PARTITION",
            "SCHED",
            "NAME",
            "USER",
            "STATE",
            ">TIME",
            ">LIMIT",
            ">PROCS",
            ">ROW",
            "NODES (REASON)",
        ];
        table(&columns, fold_tasks(jobs).iter().map(|job| job_row(job, &self.zone)))
    }

    fn steps(&self, jobs: &[JobView]) -> String {
        steps::of_jobs(jobs)
    }

    fn job(&self, job: &JobDetail, array: Option<&ArrayStates>) -> String {
        let array = array.map(|array| array.text(&job.view.job_name()) + "\n");
        let mut text = array.unwrap_or_default() + &pairs(&self.job_pairs(job));
        let shown = shown_ranks(&job.ranks);
        if !shown.is_empty() {
            let columns = [">RANK", "NODE", "EXIT", ">CPU ms", ">MAX RSS"];
            let _ = write!(text, "\n{}", table(&columns, shown.into_iter().map(rank_row)));
        }
        text.push_str(&steps::of_job(&job.view));
        if !job.log.is_empty() {
            let rows = job.log.iter().map(|entry| {
                let time = written::time(entry.time, &self.zone);
                vec![time, entry.event.clone(), entry.text.clone()]
            });
            let _ = write!(text, "\n{}", table(&["TIME", "EVENT", "WHAT"], rows));
        }
        text
    }

    fn explanation(&self, explanation: &Explanation, whole: Option<&ArrayStates>) -> String {
        // The other fields repeat the text: `details` name the holders, and `reason` the
        // reservation.
        let Explanation { job, array, state, reason, details, estimate, .. } = explanation;
        let name = array.map_or_else(|| job.to_string(), |task| task.to_string());
        let said = |text: &str| written::local(&written::safe(text), &self.zone);
        let whole = whole.map(|array| array.text(&name)).unwrap_or_default();
        let mut text = format!("{whole}Job {name} is {state}: {}\n", said(reason));
        for detail in details {
            let _ = writeln!(text, "  {}", said(detail));
        }
        if let Some(estimate) = estimate {
            let time = written::time(*estimate, &self.zone);
            let _ = writeln!(text, "It should start by {time}.");
        }
        text
    }

    fn nodes(&self, nodes: &[NodeView], each: bool) -> String {
        if !each {
            let columns = [
                ">NODES",
                "PARTITION",
                "STATE",
                ">PES",
                ">USED",
                ">MEMORY",
                "FEATURES",
                "NODE LIST",
                "REASON",
            ];
            let rows = fold(nodes).into_iter().map(|group| {
                let Alike { partitions, state, pes, pes_used, memory, features, reason } =
                    group.alike;
                let (count, state) = (group.count.to_string(), state.to_string());
                let (pes, used) = (pes.to_string(), pes_used.to_string());
                let names = group.names;
                vec![count, partitions, state, pes, used, memory, features, names, reason]
            });
            return table(&columns, rows);
        }
        let columns = [
            "NODE",
            "PARTITION",
            "STATE",
            ">PES",
            ">USED",
            ">MEMORY",
            ">ASKED FOR",
            "FEATURES",
            ">LOAD",
            ">FREE MiB",
            "ADDRESS",
            "JOBS",
            "REASON",
        ];
        table(&columns, nodes.iter().map(node_row))
    }

    fn partitions(&self, partitions: &[PartitionView]) -> String {
        partition::listing(partitions)
    }

    fn partition(&self, partition: &PartitionView) -> String {
        partition::details(partition)
    }

    fn reservations(&self, reservations: &[ReservationView]) -> String {
        reservation::listing(reservations, &self.zone)
    }

    fn reservation(&self, reservation: &ReservationView) -> String {
        reservation::details(reservation, &self.zone)
    }

    fn unreserved(&self, name: &str) -> String {
        format!("Deleted {name}\n")
    }

    fn submitted(&self, job: JobId) -> String {
        format!("Submitted job {job}\n")
    }

    fn changed(&self, outcomes: &[Changed], done: &str) -> String {
        let changed: Vec<_> = outcomes.iter().filter(|outcome| outcome.error.is_none()).collect();
        fold_names(&changed).iter().map(|name| format!("{done} job {name}\n")).collect()
    }

    fn unchanged(&self, outcomes: &[Changed]) -> String {
        let mut text = String::new();
        for Changed { name: job, error, .. } in outcomes {
            let Some(error) = error.as_ref().map(ToString::to_string) else { continue };
            // The text may already begin with the job's name.
            let _ = match error.strip_prefix(&format!("job {job} ")) {
                Some(said) => writeln!(text, "Job {job} {said}"),
                None => writeln!(text, "Job {job}: {error}"),
            };
        }
        // Each hint once, even if several jobs have it.
        let hints = outcomes.iter().filter_map(|outcome| outcome.error.as_ref()?.hint.as_ref());
        for hint in hints.collect::<BTreeSet<_>>() {
            let _ = writeln!(text, "  try: {hint}");
        }
        text
    }

    fn drained(&self, nodes: &str, drained: bool) -> String {
        match drained {
            true => format!("{nodes}: no further jobs; `storm resume {nodes}` ends it\n"),
            false => format!("{nodes}: takes jobs\n"),
        }
    }

    fn up(&self, kept: &KeptCluster) -> String {
        let KeptCluster { nodes, pes, sched, .. } = kept;
        let sched = sched.join(", ");
        let size = dimensions(*nodes, *pes);
        format!("Cluster of {size} is up ({sched}); `storm down` ends it\n")
    }

    fn down(&self, ended: bool) -> String {
        let text = if ended { "The cluster is down\n" } else { "No cluster is kept up\n" };
        text.to_owned()
    }

    fn key(&self, file: &Path, id: &str, user: Option<&str>) -> String {
        let of = user.map(|user| format!(" of {user}")).unwrap_or_default();
        format!("Key {id}{of} is in {}\n", file.display())
    }

    fn sheet(&self, sheet: &Sheet) -> String {
        sheet.text()
    }

    fn simulation(&self, run: &Simulated<'_>) -> String {
        simulation::text(run)
    }

    fn campaign(&self, campaign: &Campaign) -> String {
        campaign::text(campaign)
    }

    fn version(&self) -> String {
        format!("storm {} (client API {API_VERSION})\n", env!("CARGO_PKG_VERSION"))
    }

    fn outcome(&self, outcome: &Outcome, launch_of: Option<u32>) -> String {
        let Outcome { state, exit_code, reason, breakdown, node_list, .. } = outcome;
        let name = outcome.name();
        let mut text = String::new();
        if *state != JobState::Completed {
            let why = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let why = written::safe(&why);
            let _ = writeln!(text, "storm: {name} ended {state}, exit status {exit_code}{why}");
        }
        if let (Some(breakdown), Some(procs)) = (breakdown, launch_of) {
            let place =
                node_list.as_deref().map(|nodes| format!(" on {nodes}")).unwrap_or_default();
            let unit = if procs == 1 { "process" } else { "processes" };
            let total = breakdown.total_ms;
            let _ =
                writeln!(text, "storm: {name}: {procs} {unit} launched{place} in {total:.1} ms");
            text.push_str(&breakdown_text(breakdown));
        }
        text
    }

    fn note(&self, text: &str) -> String {
        format!("storm: {text}\n")
    }

    fn failure(&self, failure: &Failure) -> String {
        failure_text(failure)
    }
}

impl TableOutput {
    fn job_pairs(&self, job: &JobDetail) -> Vec<(&'static str, String)> {
        let JobDetail { view, spec, .. } = job;
        let time = |time: Option<jiff::Timestamp>| {
            time.map(|time| written::time(time, &self.zone)).unwrap_or_default()
        };
        let optional = |text: &Option<String>| text.clone().unwrap_or_default();
        let command: Vec<_> = spec.argv.iter().map(|word| word.to_string_lossy()).collect();
        vec![
            ("Job", view.id.to_string()),
            ("Of array", view.array.map(|task| task.to_string()).unwrap_or_default()),
            ("Name", view.name.clone()),
            ("User", format!("{} ({})", view.user.name, view.user.uid)),
            ("State", view.state.to_string()),
            ("Reason", written::local(&optional(&view.reason), &self.zone)),
            ("Exit status", view.exit_code.map(|code| code.to_string()).unwrap_or_default()),
            ("Partition", format!("{} ({})", view.partition, view.sched)),
            ("Row", view.row.map(|row| row.0.to_string()).unwrap_or_default()),
            ("Processes", view.procs.to_string()),
            ("Asks for", asked_for(view.procs, spec.nodes, &view.resources)),
            ("Nodes", view.node_list.clone()),
            ("Runs as", runs_as(spec.first).to_owned()),
            ("Submitted", time(Some(view.submitted))),
            ("Account", optional(&job.account)),
            ("QOS", optional(&job.qos)),
            ("Reservation", optional(&job.reservation)),
            ("Messages", optional(&job.communication)),
            ("Classes", optional(&job.classes)),
            ("Begin", time(spec.needs.begin)),
            (
                "Dependency",
                spec.needs.dependency.as_ref().map(ToString::to_string).unwrap_or_default(),
            ),
            ("Array", spec.needs.array.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("Start by", time(view.estimate)),
            ("Started", time(view.started)),
            ("Ended", time(view.ended)),
            ("Elapsed", written::seconds(view.elapsed_s)),
            ("Ran", written::seconds(view.ran_s)),
            ("Time limit", view.time_limit_s.map(written::seconds).unwrap_or_default()),
            ("Signal", spec.early_signal.map(written::early_signal).unwrap_or_default()),
            ("Comment", optional(&view.remarks.comment)),
            ("Wckey", optional(&view.remarks.wckey)),
            ("CPU time", cpu_time(job).unwrap_or_default()),
            ("Runs", job.runs.to_string()),
            ("Command", command.join(" ")),
            ("Directory", spec.cwd.to_string_lossy().into_owned()),
            (
                "Shipped",
                if spec.shipped { written::bytes(spec.shipped_bytes) } else { "no".into() },
            ),
            ("No set-uid", without_set_id(&spec.without_set_id)),
            ("Launch", job.breakdown.as_ref().map(breakdown_words).unwrap_or_default()),
        ]
    }
}

/// The first step of a job, if it is not the program in each process.
fn runs_as(first: FirstStep) -> &'static str {
    match first {
        FirstStep::Program => "",
        FirstStep::Script => "script, once, on the first node",
    }
}

/// The files whose copies lack the set-uid or set-gid bit.
fn without_set_id(names: &[OsBytes]) -> String {
    let names: Vec<_> = names.iter().map(OsBytes::to_string_lossy).collect();
    if names.is_empty() { String::new() } else { format!("copies of {}", names.join(", ")) }
}

fn job_row(together: &Together<'_>, zone: &Zone) -> Vec<String> {
    let job = together.first;
    let place = match &job.reason {
        // The reason of such a job names the nodes that it waits for.
        Some(reason) if job.state == JobState::Pending || job.node_list.is_empty() => {
            format!("({})", written::local(reason, zone))
        }
        Some(reason) => format!("{} ({})", job.node_list, written::local(reason, zone)),
        None => job.node_list.clone(),
    };
    vec![
        together.name.clone(),
        job.partition.clone(),
        job.sched.clone(),
        written::shortened(&job.name),
        job.user.name.clone(),
        job.state.to_string(),
        written::seconds(job.elapsed_s),
        job.time_limit_s.map_or_else(|| "-".to_owned(), written::seconds),
        job.procs.to_string(),
        job.row.map_or_else(|| "-".to_owned(), |row| row.0.to_string()),
        place,
    ]
}

fn node_row(node: &NodeView) -> Vec<String> {
    let dash = || "-".to_owned();
    let jobs: Vec<String> = node.jobs.iter().map(ToString::to_string).collect();
    vec![
        node.name.clone(),
        node.partitions.join(","),
        node.state.to_string(),
        node.pes.to_string(),
        node.pes_used.to_string(),
        written::node_memory(node),
        written::memory(node.memory_held_bytes),
        written::features(node),
        node.load_percent.map_or_else(dash, |load| format!("{:.2}", f64::from(load) / 100.0)),
        node.memory_available_mib.map_or_else(dash, |memory| memory.to_string()),
        node.address.clone().unwrap_or_else(dash),
        if jobs.is_empty() { dash() } else { jobs.join(",") },
        node.reason.clone().unwrap_or_default(),
    ]
}

/// All ranks of a small job; of a large job only ranks that did not exit with 0.
fn shown_ranks(ranks: &[RankView]) -> Vec<&RankView> {
    let failed =
        |rank: &&RankView| rank.exit.as_ref().is_some_and(|exit| exit.status.shell_code() != 0);
    if ranks.len() <= RANKS_SHOWN {
        ranks.iter().collect()
    } else {
        ranks.iter().filter(failed).take(RANKS_SHOWN).collect()
    }
}

fn rank_row(rank: &RankView) -> Vec<String> {
    let (exit, cpu, rss) = match &rank.exit {
        None => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
        Some(exit) => (
            written::exit(exit.status),
            format!("{:.1}", (exit.user_us + exit.system_us) as f64 / 1e3),
            written::bytes(exit.max_rss_kib.saturating_mul(1024)),
        ),
    };
    vec![rank.rank.to_string(), rank.node.clone(), exit, cpu, rss]
}

/// The breakdown of the paper's section 4.4.1, as a table of one row.
fn breakdown_text(breakdown: &LaunchBreakdown) -> String {
    let columns =
        [">read ms", ">send ms", ">write ms", ">exec ms", ">wait for slice ms", ">sent", ">had"];
    let ms = |ms: f64| format!("{ms:.1}");
    let row = vec![
        ms(breakdown.read_ms),
        ms(breakdown.send_ms),
        ms(breakdown.write_ms),
        ms(breakdown.exec_ms),
        ms(breakdown.wait_for_slice_ms),
        written::bytes(breakdown.sent_bytes),
        written::bytes(breakdown.skipped_bytes),
    ];
    table(&columns, [row]).lines().map(|line| format!("  {line}\n")).collect()
}

fn breakdown_words(breakdown: &LaunchBreakdown) -> String {
    let LaunchBreakdown {
        read_ms, send_ms, write_ms, exec_ms, wait_for_slice_ms, total_ms, ..
    } = breakdown;
    format!(
        "{total_ms:.1} ms: read {read_ms:.1}, send {send_ms:.1}, write {write_ms:.1}, \
         exec {exec_ms:.1}, wait for slice {wait_for_slice_ms:.1}"
    )
}

/// CPU time of the ranks that have ended; unknown until a rank has.
fn cpu_time(job: &JobDetail) -> Option<String> {
    job.ranks
        .iter()
        .any(|rank| rank.exit.is_some())
        .then(|| format!("{:.3} s", job.cpu_us as f64 / 1e6))
}

/// The problem, its causes, and the hint.
pub(super) fn failure_text(failure: &Failure) -> String {
    let zone = Zone::of_user();
    let mut text = format!("storm: {}", written::local(&failure.message, &zone));
    for cause in &failure.causes {
        let _ = write!(text, ": {}", written::local(cause, &zone));
    }
    text.push('\n');
    if let Some(hint) = &failure.hint {
        let _ = writeln!(text, "  try: {hint}");
    }
    text
}
