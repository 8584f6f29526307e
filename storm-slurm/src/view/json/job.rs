//! `squeue --json`.

use super::{Asked, Fields, document, exit, fields, limit, minutes, number, text, time};
use crate::host_list::expand;
use crate::view::squeue::tres;
use crate::view::{JobFacts, MemoryAsked, Show, StateCode, Tasks};
use serde_json::{Value, json};

/// The document about these jobs.
pub fn queued(jobs: &[JobFacts], asked: &Asked, show: &Show) -> String {
    let list = jobs.iter().map(|job| Value::Object(record(job, show))).collect();
    let more = fields([("last_backfill", number(None)), ("last_update", time(Some(show.now)))]);
    document("jobs", list, more, asked, show)
}

fn record(job: &JobFacts, show: &Show) -> Fields {
    let mut all = names(job, show);
    all.extend(asked_for(job));
    all.extend(state(job));
    all.extend(files(job));
    all.extend(nothing());
    all
}

fn names(job: &JobFacts, show: &Show) -> Fields {
    let place = job.array.as_ref();
    let (task, tasks) = match place.map(|place| &place.tasks) {
        None => (None, String::new()),
        Some(Tasks::One(index)) => (Some(u64::from(*index)), String::new()),
        Some(Tasks::Many(_)) => (None, place.map(|p| p.indices(show)).unwrap_or_default()),
    };
    let limit = place.and_then(|place| place.limit).map(u64::from);
    fields([
        ("account", text(&job.account)),
        ("array_job_id", number(Some(place.map_or(0, |place| place.job)))),
        ("array_task_id", number(task)),
        ("array_max_tasks", number(Some(limit.unwrap_or(0)))),
        ("array_task_string", tasks.into()),
        ("cluster", show.cluster.clone().into()),
        ("comment", text(&job.comment)),
        ("group_id", job.gid.unwrap_or(0).into()),
        ("group_name", text(&job.group)),
        ("job_id", job.id.into()),
        ("name", job.name.clone().into()),
        ("partition", job.partition.clone().into()),
        ("qos", job.qos.clone().unwrap_or_else(|| "normal".to_owned()).into()),
        ("resv_name", text(&job.reservation)),
        ("user_id", job.uid.into()),
        ("user_name", job.user.clone().into()),
        ("wckey", text(&job.wckey)),
    ])
}

fn asked_for(job: &JobFacts) -> Fields {
    let (per_node, per_cpu) = match job.memory {
        MemoryAsked::Unstated | MemoryAsked::WholeNode => (Some(0), None),
        MemoryAsked::PerNode(bytes) => (Some(bytes >> 20), None),
        MemoryAsked::PerCpu(bytes) => (None, Some(bytes >> 20)),
    };
    let least = job.cpus_per_task.saturating_mul(job.tasks_per_node.unwrap_or(1));
    let shared = if job.exclusive { json!(["none"]) } else { json!([]) };
    fields([
        ("contiguous", false.into()),
        ("cpus", number(Some(job.cpus.into()))),
        ("cpus_per_task", number(Some(job.cpus_per_task.into()))),
        ("excluded_nodes", text(&job.nodes_excluded)),
        ("features", text(&job.features)),
        ("max_cpus", number(Some(0))),
        ("max_nodes", number(Some(0))),
        ("memory_per_cpu", number(per_cpu)),
        ("memory_per_node", number(per_node)),
        ("minimum_cpus_per_node", number(Some(least.into()))),
        ("minimum_tmp_disk_per_node", number(Some(0))),
        ("node_count", number(Some(job.nodes.into()))),
        ("required_nodes", text(&job.nodes_required)),
        ("shared", shared),
        ("tasks", number(Some(job.tasks.into()))),
        ("tasks_per_node", number(Some(job.tasks_per_node.unwrap_or(0).into()))),
        ("time_limit", limit(minutes(job.time_limit_s))),
        ("time_minimum", number(Some(0))),
        ("tres_req_str", tres(job).into()),
    ])
}

fn state(job: &JobFacts) -> Fields {
    let is_placed = !job.node_list.is_empty();
    let allocated = if is_placed { tres(job) } else { String::new() };
    let resources = is_placed.then(|| resources(job));
    let mut all = fields([
        ("accrue_time", time(job.eligible)),
        ("batch_flag", job.batch.into()),
        ("batch_host", text(&job.batch_host)),
        ("dependency", text(&job.dependency)),
        ("derived_exit_code", exit(job.derived_exit)),
        ("eligible_time", time(job.eligible)),
        ("end_time", time(job.end())),
        ("exit_code", exit(job.exit)),
        ("hold", (job.state == StateCode::Pending && job.priority == Some(0)).into()),
        ("job_state", json!([job.state.name()])),
        ("last_sched_evaluation", time(job.eligible)),
        ("nice", job.nice.into()),
        ("nodes", job.node_list.clone().into()),
        ("preempt_time", number(Some(0))),
        ("pre_sus_time", number(Some(0))),
        ("priority", number(Some(job.priority.unwrap_or(0)))),
        ("requeue", job.requeue.into()),
        ("resize_time", number(Some(0))),
        ("restart_cnt", job.restarts.into()),
        ("start_time", time(job.start)),
        ("state_description", "".into()),
        ("state_reason", job.reason.clone().into()),
        ("submit_time", time(Some(job.submitted))),
        ("suspend_time", number(Some(0))),
        ("tres_alloc_str", allocated.into()),
    ]);
    all.extend(resources.map(|resources| ("job_resources".to_owned(), resources)));
    all
}

/// The place of the job. How many processing elements it has on each node is not told.
fn resources(job: &JobFacts) -> Value {
    json!({
        "select_type": ["CPU"],
        "nodes": {
            "count": job.nodes,
            "select_type": [],
            "list": job.node_list,
            "whole": job.exclusive,
            "allocation": expand(&job.node_list)
                .unwrap_or_default()
                .into_iter()
                .enumerate()
                .map(|(index, name)| json!({ "index": index, "name": name }))
                .collect::<Vec<_>>(),
        },
        "cpus": job.cpus,
        "threads_per_core": number(None),
    })
}

fn files(job: &JobFacts) -> Fields {
    let stdin = job.stdin.clone().unwrap_or_else(|| "/dev/null".to_owned());
    fields([
        ("command", text(&job.command)),
        ("current_working_directory", text(&job.work_dir)),
        ("standard_error", text(&job.stderr)),
        ("standard_input", stdin.clone().into()),
        ("standard_output", text(&job.stdout)),
        ("stderr_expanded", text(&job.stderr)),
        ("stdin_expanded", stdin.into()),
        ("stdout_expanded", text(&job.stdout)),
    ])
}

/// Fields of Slurm that no job has here.
fn nothing() -> Fields {
    const TEXTS: [&str; 28] = [
        "admin_comment",
        "allocating_node",
        "batch_features",
        "burst_buffer",
        "burst_buffer_state",
        "cluster_features",
        "container",
        "container_id",
        "cpus_per_tres",
        "extra",
        "failed_node",
        "federation_origin",
        "federation_siblings_active",
        "federation_siblings_viable",
        "het_job_id_set",
        "licenses",
        "mail_user",
        "mcs_label",
        "memory_per_tres",
        "network",
        "prefer",
        "scheduled_nodes",
        "selinux_context",
        "system_comment",
        "tres_per_job",
        "tres_per_node",
        "tres_per_socket",
        "tres_per_task",
    ];
    const NUMBERS: [&str; 16] = [
        "billable_tres",
        "cores_per_socket",
        "cpu_frequency_governor",
        "cpu_frequency_maximum",
        "cpu_frequency_minimum",
        "deadline",
        "delay_boot",
        "het_job_id",
        "het_job_offset",
        "preemptable_time",
        "sockets_per_node",
        "tasks_per_board",
        "tasks_per_core",
        "tasks_per_socket",
        "tasks_per_tres",
        "threads_per_core",
    ];
    const COUNTS: [&str; 4] =
        ["association_id", "maximum_switch_wait_time", "required_switches", "sockets_per_board"];
    const LISTS: [&str; 6] =
        ["flags", "gres_detail", "job_size_str", "mail_type", "priority_by_partition", "profile"];
    let texts = TEXTS.map(|name| (name, Value::from("")));
    let numbers = NUMBERS.map(|name| (name, number(None)));
    let counts = COUNTS.map(|name| (name, Value::from(0)));
    let lists = LISTS.map(|name| (name, json!([])));
    fields(
        texts
            .into_iter()
            .chain(numbers)
            .chain(counts)
            .chain(lists)
            .chain([("reboot", Value::from(false))]),
    )
}
