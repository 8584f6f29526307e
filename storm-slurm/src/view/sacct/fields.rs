//! The fields of sacct(1), in its order, with the widths of their columns.
//!
//! A field of something that is not counted here is empty, as sacct prints it for a job about
//! which nothing was gathered.

use super::SacctRow;
use super::UnitChoice;
use crate::view::{JobFacts, Show, StepFacts, StepUse, memory_text, time_text};
use jiff::Timestamp;

/// A field of sacct.
#[derive(Debug)]
pub struct SacctField {
    /// The name, as the head of its column has it.
    pub name: &'static str,
    /// The width of its column; below 0 the text is at the left.
    pub width: i32,
    /// The text for a row.
    pub value: fn(&SacctRow, &Show, UnitChoice) -> String,
}

const fn field(
    name: &'static str,
    width: i32,
    value: fn(&SacctRow, &Show, UnitChoice) -> String,
) -> SacctField {
    SacctField { name, width, value }
}

/// A field of something that is not counted.
const fn unknown(name: &'static str, width: i32) -> SacctField {
    field(name, width, |_, _, _| String::new())
}

/// Every field.
pub const SACCT_FIELDS: &[SacctField] = &[
    field("Account", 10, |row, _, _| row.job().account.clone().unwrap_or_default()),
    unknown("AdminComment", 15),
    field("AllocCPUS", 10, |row, _, _| row.cpus().to_string()),
    field("AllocNodes", 10, |row, _, _| started(row, row.nodes()).to_string()),
    field("AllocTRES", 10, |row, _, _| allocated(row)),
    unknown("AssocID", 7),
    field("AveCPU", 10, |row, _, _| {
        of_step(row, |step, used| {
            let tasks = u64::from(step.tasks.max(1));
            time_text::full((used.user_us + used.system_us) / tasks / 1_000_000)
        })
    }),
    field("AveCPUFreq", 10, |row, _, _| in_step(row, "0", "")),
    unknown("AveDiskRead", 14),
    unknown("AveDiskWrite", 14),
    unknown("AvePages", 10),
    field("AveRSS", 10, |row, _, unit| {
        of_step(row, |_, used| memory_text::kibibytes(used.average_rss_kib, unit))
    }),
    unknown("AveVMSize", 10),
    unknown("BlockID", 16),
    field("Cluster", 10, |_, show, _| show.cluster.clone()),
    field("Comment", 14, |row, _, _| of_job(row, |job| job.comment.clone().unwrap_or_default())),
    field("Constraints", 19, |row, _, _| {
        of_job(row, |job| job.features.clone().unwrap_or_default())
    }),
    field("ConsumedEnergy", 14, |row, _, _| energy(row)),
    field("ConsumedEnergyRaw", 17, |row, _, _| energy(row)),
    unknown("Container", 19),
    field("CPUTime", 10, |row, _, _| time_text::full(cpu_time_s(row))),
    field("CPUTimeRAW", 10, |row, _, _| cpu_time_s(row).to_string()),
    field("DBIndex", -10, |row, _, _| row.job().id.to_string()),
    field("DerivedExitCode", 15, |row, _, _| of_job(row, |job| job.derived_exit.to_string())),
    field("Elapsed", 10, |row, _, _| time_text::full(row.ran_s())),
    field("ElapsedRaw", 10, |row, _, _| row.ran_s().to_string()),
    field("Eligible", 19, |row, show, _| time(row.job().eligible, show)),
    field("End", 19, |row, show, _| {
        time(row.step().map_or(row.job().ended, |step| step.ended), show)
    }),
    field("ExitCode", 8, |row, _, _| row.exit().to_string()),
    unknown("Flags", 19),
    field("GID", 6, |row, _, _| of_job(row, |job| number(job.gid))),
    field("Group", 9, |row, _, _| {
        of_job(row, |job| job.group.clone().unwrap_or_else(|| number(job.gid)))
    }),
    field("JobID", -12, |row, show, _| row.id(show)),
    field("JobIDRaw", -12, |row, _, _| row.raw_id()),
    field("JobName", 10, |row, _, _| row.step().map_or(&row.job().name, |step| &step.name).clone()),
    field("Layout", 9, |row, _, _| in_step(row, "Unknown", "")),
    unknown("MaxDiskRead", 12),
    unknown("MaxDiskReadNode", 15),
    unknown("MaxDiskReadTask", 15),
    unknown("MaxDiskWrite", 12),
    unknown("MaxDiskWriteNode", 16),
    unknown("MaxDiskWriteTask", 16),
    unknown("MaxPages", 8),
    unknown("MaxPagesNode", 12),
    unknown("MaxPagesTask", 14),
    field("MaxRSS", 10, |row, _, unit| {
        of_step(row, |_, used| memory_text::kibibytes(used.max_rss_kib, unit))
    }),
    field("MaxRSSNode", 10, |row, _, _| of_step(row, |_, used| used.max_rss_node.clone())),
    field("MaxRSSTask", 10, |row, _, _| of_step(row, |_, used| used.max_rss_task.to_string())),
    unknown("MaxVMSize", 10),
    unknown("MaxVMSizeNode", 14),
    unknown("MaxVMSizeTask", 14),
    unknown("McsLabel", 12),
    field("MinCPU", 10, |row, _, _| {
        of_step(row, |_, used| time_text::full(used.min_cpu_us / 1_000_000))
    }),
    field("MinCPUNode", 10, |row, _, _| of_step(row, |_, used| used.min_cpu_node.clone())),
    field("MinCPUTask", 10, |row, _, _| of_step(row, |_, used| used.min_cpu_task.to_string())),
    field("NCPUS", 10, |row, _, _| row.cpus().to_string()),
    field("NNodes", 8, |row, _, _| row.nodes().to_string()),
    field("NodeList", 15, |row, _, _| {
        let list = row.step().map_or(&row.job().node_list, |step| &step.node_list);
        if list.is_empty() { "None assigned".to_owned() } else { list.clone() }
    }),
    field("NTasks", 8, |row, _, _| {
        row.step().map_or_else(String::new, |step| step.tasks.to_string())
    }),
    field("Partition", 10, |row, _, _| of_job(row, |job| job.partition.clone())),
    field("Planned", 10, |row, _, _| of_job(row, |job| time_text::full(waited_s(job)))),
    field("PlannedCPU", 10, |row, _, _| of_job(row, |job| time_text::full(waited_cpu_s(job)))),
    field("PlannedCPURAW", 13, |row, _, _| of_job(row, |job| waited_cpu_s(job).to_string())),
    field("Priority", 10, |row, _, _| {
        of_job(row, |job| job.priority.map_or_else(String::new, |p| p.to_string()))
    }),
    field("QOS", 10, |row, _, _| {
        of_job(row, |job| job.qos.clone().unwrap_or_else(|| "normal".to_owned()))
    }),
    unknown("QOSRAW", 6),
    field("Reason", 22, |row, _, _| of_job(row, |job| job.reason.clone())),
    field("ReqCPUFreq", 10, |row, _, _| in_step(row, "0", "Unknown")),
    field("ReqCPUFreqGov", 13, |row, _, _| in_step(row, "0", "Unknown")),
    field("ReqCPUFreqMax", 13, |row, _, _| in_step(row, "0", "Unknown")),
    field("ReqCPUFreqMin", 13, |row, _, _| in_step(row, "0", "Unknown")),
    field("ReqCPUS", 8, |row, _, _| row.cpus().to_string()),
    field("ReqMem", 10, |row, _, unit| of_job(row, |job| memory(job, unit))),
    field("ReqNodes", 8, |row, _, _| row.nodes().to_string()),
    field("ReqTRES", 10, |row, _, _| of_job(row, requested)),
    field("Reservation", 20, |row, _, _| {
        of_job(row, |job| job.reservation.clone().unwrap_or_default())
    }),
    unknown("ReservationId", 8),
    field("Reserved", 10, |row, _, _| of_job(row, |job| time_text::full(waited_s(job)))),
    field("ResvCPU", 10, |row, _, _| of_job(row, |job| time_text::full(waited_cpu_s(job)))),
    field("ResvCPURAW", 10, |row, _, _| of_job(row, |job| waited_cpu_s(job).to_string())),
    field("Start", 19, |row, show, _| {
        let job = row.job();
        let started = row.has_started().then_some(job.start).flatten();
        time(row.step().map_or(started, |step| step.start), show)
    }),
    field("State", 10, |row, _, _| row.state()),
    field("Submit", 19, |row, show, _| show.time(row.job().submitted)),
    field("SubmitLine", 20, |row, _, _| {
        of_job(row, |job| job.submit_line.clone().unwrap_or_default())
    }),
    field("Suspended", 10, |row, _, _| {
        time_text::full(row.step().map_or(row.job().suspended_s, |step| step.suspended_s))
    }),
    unknown("SystemComment", 15),
    field("SystemCPU", 10, |row, _, _| processor(row, |used| used.system_us)),
    field("Timelimit", 10, |row, _, _| {
        of_job(row, |job| time_text::limit(job.time_limit_s, time_text::full))
    }),
    field("TimelimitRaw", 10, |row, _, _| {
        let minutes = |limit_s: u64| limit_s.div_ceil(60).to_string();
        of_job(row, |job| time_text::limit(job.time_limit_s, minutes))
    }),
    field("TotalCPU", 10, |row, _, _| processor(row, |used| used.user_us + used.system_us)),
    unknown("TRESUsageInAve", 14),
    unknown("TRESUsageInMax", 14),
    unknown("TRESUsageInMaxNode", 18),
    unknown("TRESUsageInMaxTask", 18),
    unknown("TRESUsageInMin", 14),
    unknown("TRESUsageInMinNode", 18),
    unknown("TRESUsageInMinTask", 18),
    unknown("TRESUsageInTot", 14),
    unknown("TRESUsageOutAve", 15),
    unknown("TRESUsageOutMax", 15),
    unknown("TRESUsageOutMaxNode", 19),
    unknown("TRESUsageOutMaxTask", 19),
    unknown("TRESUsageOutMin", 15),
    unknown("TRESUsageOutMinNode", 19),
    unknown("TRESUsageOutMinTask", 19),
    unknown("TRESUsageOutTot", 15),
    field("UID", 6, |row, _, _| of_job(row, |job| job.uid.to_string())),
    field("User", 9, |row, _, _| of_job(row, |job| job.user.clone())),
    field("UserCPU", 10, |row, _, _| processor(row, |used| used.user_us)),
    field("WCKey", 10, |row, _, _| of_job(row, |job| job.wckey.clone().unwrap_or_default())),
    field("WCKeyID", 10, |row, _, _| of_job(row, |_| "0".to_owned())),
    field("WorkDir", 20, |row, _, _| of_job(row, |job| job.work_dir.clone().unwrap_or_default())),
];

/// The names of the fields that the command has, four on a line (`--helpformat`).
pub fn help_format(has: impl Fn(&str) -> bool) -> String {
    let names = SACCT_FIELDS.iter().map(|field| field.name).filter(|name| has(name));
    let names: Vec<String> = names.map(|name| format!("{name:<19}")).collect();
    names.chunks(4).map(|line| line.join(" ") + "\n").collect()
}

/// A fact that only jobs have.
fn of_job(row: &SacctRow, fact: impl Fn(&JobFacts) -> String) -> String {
    match row {
        SacctRow::Job { job, .. } => fact(job),
        SacctRow::Step(_) => String::new(),
    }
}

/// A fact that only steps have, once they have ended.
fn of_step(row: &SacctRow, fact: impl Fn(&StepFacts, &StepUse) -> String) -> String {
    let step = row.step().and_then(|step| Some((step, step.used.as_ref()?)));
    step.map_or_else(String::new, |(step, used)| fact(step, used))
}

fn in_step(row: &SacctRow, step: &str, job: &str) -> String {
    if row.step().is_some() { step } else { job }.to_owned()
}

fn started(row: &SacctRow, count: u32) -> u32 {
    if row.has_started() { count } else { 0 }
}

fn number(number: Option<u32>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

fn time(time: Option<Timestamp>, show: &Show) -> String {
    time.map_or_else(|| "Unknown".to_owned(), |time| show.time(time))
}

fn energy(row: &SacctRow) -> String {
    let counted = row.step().is_some() || !row.has_started();
    if counted { "0".to_owned() } else { String::new() }
}

fn allocated(row: &SacctRow) -> String {
    if !row.has_started() {
        return String::new();
    }
    match row {
        SacctRow::Step(step) => format!("cpu={},mem=0,node={}", step.cpus, step.nodes),
        SacctRow::Job { job, .. } => requested(job),
    }
}

fn requested(job: &JobFacts) -> String {
    let memory = match job.memory_bytes() {
        0 => String::new(),
        bytes => format!("mem={},", memory_text::mebibytes(bytes, true)),
    };
    format!("billing={0},cpu={0},{memory}node={1}", job.cpus, job.nodes)
}

fn memory(job: &JobFacts, unit: UnitChoice) -> String {
    match (job.memory_bytes(), unit) {
        (0, _) => "0".to_owned(),
        (bytes, UnitChoice::Bytes) => memory_text::mebibytes(bytes, false),
        (bytes, unit) => memory_text::kibibytes(bytes.div_ceil(1024), unit),
    }
}

fn cpu_time_s(row: &SacctRow) -> u64 {
    row.ran_s().saturating_mul(row.cpus().into())
}

/// From its eligibility to its start.
fn waited_s(job: &JobFacts) -> u64 {
    let waited = job.eligible.zip(job.start.filter(|_| !job.node_list.is_empty()));
    let waited = waited.map_or(0, |(from, until)| until.duration_since(from).as_secs());
    u64::try_from(waited).unwrap_or(0)
}

fn waited_cpu_s(job: &JobFacts) -> u64 {
    waited_s(job).saturating_mul(job.cpus.into())
}

fn processor(row: &SacctRow, time_us: impl Fn(&StepUse) -> u64) -> String {
    time_text::processor(row.used().map_or(0, time_us))
}
