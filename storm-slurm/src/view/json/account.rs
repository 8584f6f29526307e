//! `sacct --json`.

use super::{Asked, Fields, document, exit, fields, limit, minutes, number, seconds, text, time};
use crate::host_list::expand;
use crate::view::{JobFacts, MemoryAsked, Show, StepFacts, StepUse, Tasks};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Slurm's numbers of trackable resources.
const CPU: u32 = 1;
const MEMORY: u32 = 2;
const NODE: u32 = 4;
const BILLING: u32 = 5;

/// A job with what its tasks used, and its steps.
pub struct Accounted {
    /// The job.
    pub job: JobFacts,
    /// Its resource use.
    pub used: Option<StepUse>,
    /// Its steps.
    pub steps: Vec<StepFacts>,
}

/// The document about these jobs.
pub fn accounted(jobs: &[Accounted], asked: &Asked, show: &Show) -> String {
    let list = jobs.iter().map(|job| Value::Object(record(job, show))).collect();
    document("jobs", list, Fields::new(), asked, show)
}

fn record(accounted: &Accounted, show: &Show) -> Fields {
    let Accounted { job, used, steps } = accounted;
    let mut all = fields([
        ("account", text(&job.account)),
        ("allocation_nodes", if job.node_list.is_empty() { 0 } else { job.nodes }.into()),
        ("array", array(job, show)),
        ("association", association(job, show)),
        ("block", "".into()),
        ("cluster", show.cluster.clone().into()),
        ("comment", json!({ "administrator": "", "job": text(&job.comment), "system": "" })),
        ("constraints", text(&job.features)),
        ("container", "".into()),
        ("derived_exit_code", exit(job.derived_exit)),
        ("exit_code", exit(job.exit)),
        ("extra", "".into()),
        ("failed_node", "".into()),
        ("flags", json!([])),
        ("group", text(&job.group)),
        ("het", json!({ "job_id": 0, "job_offset": number(None) })),
        ("hold", false.into()),
        ("job_id", job.id.into()),
        ("kill_request_user", job.cancelled_by.map_or_else(String::new, |u| u.to_string()).into()),
        ("licenses", "".into()),
        ("mcs", json!({ "label": "" })),
        ("name", job.name.clone().into()),
        ("nodes", nodes_or_none(&job.node_list)),
        ("partition", job.partition.clone().into()),
        ("priority", number(job.priority)),
        ("qos", job.qos.clone().unwrap_or_else(|| "normal".to_owned()).into()),
    ]);
    all.extend(fields([
        ("qosreq", text(&job.qos)),
        ("required", required(job)),
        ("reservation", json!({ "id": 0, "name": text(&job.reservation), "requested": "" })),
        ("restart_cnt", job.restarts.into()),
        ("script", "".into()),
        ("state", json!({ "current": [job.state.name()], "reason": job.reason })),
        ("stderr", text(&job.stderr)),
        ("stderr_expanded", text(&job.stderr)),
        ("stdin", text(&job.stdin)),
        ("stdin_expanded", text(&job.stdin)),
        ("stdout", text(&job.stdout)),
        ("stdout_expanded", text(&job.stdout)),
        ("steps", steps.iter().map(|one| Value::Object(step(one, show))).collect()),
        ("submit_line", text(&job.submit_line)),
        ("time", times(job, used.as_ref())),
        ("tres", resources(job)),
        ("used_gres", "".into()),
        ("user", job.user.clone().into()),
        ("wckey", json!({ "wckey": text(&job.wckey), "flags": [] })),
        ("working_directory", text(&job.work_dir)),
    ]));
    all
}

fn nodes_or_none(list: &str) -> Value {
    if list.is_empty() { "None assigned".into() } else { list.into() }
}

fn array(job: &JobFacts, show: &Show) -> Value {
    let place = job.array.as_ref();
    let (task_id, task) = match place.map(|place| &place.tasks) {
        Some(Tasks::One(index)) => (Some(u64::from(*index)), String::new()),
        Some(Tasks::Many(_)) => (None, place.map(|p| p.indices(show)).unwrap_or_default()),
        None => (None, String::new()),
    };
    let most = place.and_then(|place| place.limit).unwrap_or(0);
    json!({
        "job_id": place.map_or(0, |place| place.job),
        "limits": { "max": { "running": { "tasks": most } } },
        "task_id": number(task_id),
        "task": task,
    })
}

fn association(job: &JobFacts, show: &Show) -> Value {
    json!({
        "account": text(&job.account),
        "cluster": show.cluster,
        "partition": "",
        "user": job.user,
        "id": 0,
    })
}

fn required(job: &JobFacts) -> Value {
    let (per_node, per_cpu) = match job.memory {
        MemoryAsked::Unstated | MemoryAsked::WholeNode => (Some(0), None),
        MemoryAsked::PerNode(bytes) => (Some(bytes >> 20), None),
        MemoryAsked::PerCpu(bytes) => (None, Some(bytes >> 20)),
    };
    json!({
        "CPUs": job.cpus,
        "memory_per_cpu": number(per_cpu),
        "memory_per_node": number(per_node),
    })
}

fn times(job: &JobFacts, used: Option<&StepUse>) -> Value {
    let start = job.start.filter(|_| !job.node_list.is_empty());
    let waited = job
        .eligible
        .zip(start)
        .map(|(from, to)| u64::try_from(to.duration_since(from).as_secs()).unwrap_or(0));
    let mut all = processor(used);
    all.extend(fields([
        ("elapsed", job.ran_s.into()),
        ("eligible", seconds(job.eligible).into()),
        ("end", seconds(job.ended).into()),
        ("planned", number(waited)),
        ("start", seconds(start).into()),
        ("submission", seconds(Some(job.submitted)).into()),
        ("suspended", job.suspended_s.into()),
        ("limit", limit(minutes(job.time_limit_s))),
    ]));
    Value::Object(all)
}

fn processor(used: Option<&StepUse>) -> Fields {
    let split = |us: u64| json!({ "seconds": us / 1_000_000, "microseconds": us % 1_000_000 });
    let (user, system) = used.map_or((0, 0), |used| (used.user_us, used.system_us));
    fields([
        ("system", split(system)),
        ("total", split(user.saturating_add(system))),
        ("user", split(user)),
    ])
}

fn resource(kind: &str, id: u32, count: u64) -> Value {
    json!({ "type": kind, "name": "", "id": id, "count": count })
}

fn resources(job: &JobFacts) -> Value {
    let mut requested = vec![resource("cpu", CPU, job.cpus.into())];
    let memory_mib = job.memory_bytes() >> 20;
    if memory_mib > 0 {
        requested.push(resource("mem", MEMORY, memory_mib));
    }
    requested.push(resource("node", NODE, job.nodes.into()));
    requested.push(resource("billing", BILLING, job.cpus.into()));
    let allocated = if job.node_list.is_empty() { json!([]) } else { json!(requested) };
    json!({ "allocated": allocated, "requested": requested })
}

fn step(step: &StepFacts, show: &Show) -> Fields {
    let used = step.used.as_ref();
    let allocated =
        [resource("cpu", CPU, step.cpus.into()), resource("node", NODE, step.nodes.into())];
    let none = || json!({ "max": [], "min": [], "average": [], "total": [] });
    let number_of = |at: Option<Timestamp>| time(at);
    let mut times = processor(used);
    times.extend(fields([
        ("elapsed", step.ran_s.into()),
        ("end", number_of(step.ended)),
        ("start", number_of(step.start)),
        ("suspended", step.suspended_s.into()),
        ("limit", number(None)),
    ]));
    let nodes = expand(&step.node_list).unwrap_or_default();
    fields([
        ("time", Value::Object(times)),
        ("exit_code", exit(step.exit)),
        ("nodes", json!({ "count": step.nodes, "range": step.node_list, "list": nodes })),
        ("tasks", json!({ "count": step.tasks })),
        ("pid", "".into()),
        (
            "CPU",
            json!({
                "requested_frequency": { "min": number(Some(0)), "max": number(Some(0)) },
                "governor": "0",
            }),
        ),
        ("kill_request_user", "".into()),
        ("state", json!([step.state.name()])),
        (
            "statistics",
            json!({
                "CPU": { "actual_frequency": 0 },
                "energy": { "consumed": number(Some(0)) },
            }),
        ),
        (
            "step",
            json!({
                "id": format!("{}.{}", step.job.job_id(show), step.id),
                "name": step.name,
                "stderr": "",
                "stdin": "",
                "stdout": "",
                "stderr_expanded": "",
                "stdin_expanded": "",
                "stdout_expanded": "",
            }),
        ),
        ("task", json!({ "distribution": "Unknown" })),
        (
            "tres",
            json!({ "requested": none(), "consumed": consumed(used), "allocated": allocated }),
        ),
    ])
}

/// The resources that tasks used, as far as they are counted.
fn consumed(used: Option<&StepUse>) -> Value {
    let Some(used) = used else {
        return json!({ "max": [], "min": [], "average": [], "total": [] });
    };
    let bytes = used.max_rss_kib.saturating_mul(1024);
    let max = json!({
        "type": "mem",
        "name": "",
        "id": MEMORY,
        "count": bytes,
        "task": used.max_rss_task,
        "node": used.max_rss_node,
    });
    let average = resource("mem", MEMORY, used.average_rss_kib.saturating_mul(1024));
    json!({ "max": [max], "min": [], "average": [average], "total": [] })
}
