//! The fields of a job in squeue(1), by the letter of `-o` and the name of `-O`.
//!
//! Fields of things that do not exist here, such as burst buffers and federations, have the text
//! of a job that uses none.

use crate::view::field::{both, named};
use crate::view::{ArrayPlace, Field, JobFacts, Show, StateCode, memory_text, time_text};
use jiff::Timestamp;

/// Slurm's text for a text that is not set.
const NULL: &str = "(null)";
/// Slurm's text for a fact that does not apply.
const NONE: &str = "N/A";
/// Slurm's text for a part of a node's topology that a job does not ask for.
const ANY: &str = "*";

/// Every field.
pub const JOB_FIELDS: &[Field<JobFacts>] = &[
    both('a', "account", "ACCOUNT", |job, _| or_null(&job.account)),
    both('A', "jobid", "JOBID", |job, _| job.id.to_string()),
    both('b', "tres-per-node", "TRES_PER_NODE", not_applicable),
    both('B', "batchhost", "EXEC_HOST", |job, _| {
        job.batch_host.clone().unwrap_or_else(|| "n/a".to_owned())
    }),
    both('c', "mincpus", "MIN_CPUS", |job, _| least_cpus(job).to_string()),
    both('C', "numcpus", "CPUS", |job, _| job.cpus.to_string()),
    both('d', "mintmpdisk", "MIN_TMP_DISK", zero),
    both('D', "numnodes", "NODES", |job, _| job.nodes.to_string()),
    both('e', "endtime", "END_TIME", end_time),
    both('E', "dependency", "DEPENDENCY", |job, _| or_null(&job.dependency)),
    both('f', "feature", "FEATURES", |job, _| or_null(&job.features)),
    both('F', "arrayjobid", "ARRAY_JOB_ID", |job, _| job.array_id().to_string()),
    both('g', "groupname", "GROUP", |job, _| job.group.clone().unwrap_or_else(|| group_id(job))),
    both('G', "groupid", "GROUP", |job, _| group_id(job)),
    both('h', "oversubscribe", "OVER_SUBSCRIBE", |job, _| {
        if job.exclusive { "NO" } else { "OK" }.to_owned()
    }),
    both('H', "sockets", "SOCKETS_PER_NODE", any),
    both('i', "jobarrayid", "JOBID", JobFacts::job_id),
    both('I', "cores", "CORES_PER_SOCKET", any),
    both('j', "name", "NAME", |job, _| job.name.clone()),
    both('J', "threads", "THREADS_PER_CORE", any),
    both('k', "comment", "COMMENT", |job, _| or_null(&job.comment)),
    both('K', "arraytaskid", "ARRAY_TASK_ID", |job, show| {
        let indices = |place: &ArrayPlace| place.indices(show);
        job.array.as_ref().map_or_else(|| NONE.to_owned(), indices)
    }),
    both('l', "timelimit", "TIME_LIMIT", |job, _| {
        time_text::limit(job.time_limit_s, time_text::short)
    }),
    both('L', "timeleft", "TIME_LEFT", |job, _| {
        let left = job.time_limit_s.map(|limit_s| limit_s.saturating_sub(job.ran_s));
        time_text::limit(left, time_text::short)
    }),
    both('m', "minmemory", "MIN_MEMORY", |job, show| {
        memory_text::mebibytes(job.memory_asked_bytes(), show.convert)
    }),
    both('M', "timeused", "TIME", |job, _| time_text::short(job.ran_s)),
    both('n', "reqnodes", "REQ_NODES", |job, _| job.nodes_required.clone().unwrap_or_default()),
    both('N', "nodelist", "NODELIST", |job, _| job.node_list.clone()),
    both('o', "command", "COMMAND", |job, _| or_null(&job.command)),
    both('O', "contiguous", "CONTIGUOUS", zero),
    both('p', "priority", "PRIORITY", |job, _| {
        // A priority of 32 bits as a part of one.
        let part = job.priority.unwrap_or(0) as f64 / (u64::from(u32::MAX) + 1) as f64;
        format!("{part:.14}")
    }),
    both('P', "partition", "PARTITION", |job, _| job.partition.clone()),
    both('q', "qos", "QOS", |job, _| job.qos.clone().unwrap_or_else(|| "normal".to_owned())),
    both('Q', "prioritylong", "PRIORITY", |job, _| job.priority.unwrap_or(0).to_string()),
    both('r', "reason", "REASON", |job, _| job.reason.clone()),
    both('R', "reasonlist", "NODELIST(REASON)", |job, _| nodes_or_reason(job)),
    both('s', "selectjobinfo", "", |_, _| String::new()),
    both('S', "starttime", "START_TIME", |job, show| or_none(job.start, show)),
    both('t', "statecompact", "ST", |job, _| job.state.code().to_owned()),
    both('T', "state", "STATE", |job, _| job.state.name().to_owned()),
    both('u', "username", "USER", |job, _| job.user.clone()),
    both('U', "userid", "UID", |job, _| job.uid.to_string()),
    both('v', "reservation", "RESERVATION", |job, _| or_null(&job.reservation)),
    both('V', "submittime", "SUBMIT_TIME", |job, show| show.time(job.submitted)),
    both('w', "wckey", "WCKEY", |job, _| or_null(&job.wckey)),
    both('W', "licenses", "LICENSES", null),
    both('x', "excnodes", "EXC_NODES", |job, _| job.nodes_excluded.clone().unwrap_or_default()),
    both('X', "corespec", "CORE_SPEC", not_applicable),
    both('y', "nice", "NICE", |job, _| job.nice.to_string()),
    both('Y', "schednodes", "SCHEDNODES", null),
    both('z', "sct", "S:C:T", |_, _| "*:*:*".to_owned()),
    both('Z', "workdir", "WORK_DIR", |job, _| or_null(&job.work_dir)),
    named("accruetime", "ACCRUE_TIME", |job, show| or_none(job.eligible, show)),
    named("admin_comment", "ADMIN_COMMENT", null),
    named("allocnodes", "ALLOC_NODES", null),
    named("allocsid", "ALLOC_SID", zero),
    named("associd", "ASSOC_ID", zero),
    named("batchflag", "BATCH_FLAG", |job, _| u8::from(job.batch).to_string()),
    named("boardspernode", "BOARDS_PER_NODE", zero),
    named("burstbuffer", "BURST_BUFFER", null),
    named("burstbufferstate", "BURST_BUFFER_STATE", null),
    named("cluster", "CLUSTER", |_, show| show.cluster.clone()),
    named("clusterfeature", "CLUSTER_FEATURES", null),
    named("container", "CONTAINER", null),
    named("cpus-per-task", "CPUS_PER_TASK", |job, _| job.cpus_per_task.to_string()),
    named("cpus-per-tres", "CPUS_PER_TRES", not_applicable),
    named("deadline", "DEADLINE", not_applicable),
    named("delayboot", "DELAY_BOOT", no_time),
    named("derivedec", "DERIVED_EC", |job, _| job.derived_exit.wait_status().to_string()),
    named("eligibletime", "ELIGIBLE_TIME", |job, show| or_none(job.eligible, show)),
    named("exit_code", "EXIT_CODE", |job, _| job.exit.wait_status().to_string()),
    named("gres", "TRES_PER_NODE", not_applicable),
    named("hetjobid", "HET_JOB_ID", not_applicable),
    named("hetjobidset", "HET_JOB_ID_SET", not_applicable),
    named("hetjoboffset", "HET_JOB_OFFSET", not_applicable),
    named("lastschedeval", "LAST_SCHED_EVAL", |job, show| or_none(job.eligible, show)),
    named("maxcpus", "MAX_CPUS", |job, _| job.cpus.to_string()),
    named("maxnodes", "MAX_NODES", |job, _| job.nodes.to_string()),
    named("mcslabel", "MCSLABEL", null),
    named("mem-per-tres", "MEM_PER_TRES", not_applicable),
    named("mintime", "TIME_MIN", no_time),
    named("network", "NETWORK", null),
    named("ntperboard", "NTASKS_PER_BOARD", zero),
    named("ntpercore", "NTASKS_PER_CORE", not_applicable),
    named("ntpernode", "NTASKS_PER_NODE", |job, _| job.tasks_per_node.unwrap_or(0).to_string()),
    named("ntpersocket", "NTASKS_PER_SOCKET", not_applicable),
    named("numtasks", "TASKS", |job, _| job.tasks.to_string()),
    named("origin", "ORIGIN", no_federation),
    named("originraw", "ORIGIN_RAW", no_federation),
    named("packjobid", "HET_JOB_ID", not_applicable),
    named("packjobidset", "HET_JOB_ID_SET", not_applicable),
    named("packjoboffset", "HET_JOB_OFFSET", not_applicable),
    named("pendingtime", "PENDING_TIME", pending_time),
    named("preempttime", "PREEMPT_TIME", not_applicable),
    named("prefer", "PREFER", null),
    named("profile", "PROFILE", |_, _| "NotSet".to_owned()),
    named("reboot", "REBOOT", zero),
    named("reqswitch", "REQ_SWITCH", zero),
    named("requeue", "REQUEUE", |job, _| u8::from(job.requeue).to_string()),
    named("resizetime", "RESIZE_TIME", not_applicable),
    named("restartcnt", "RESTART_COUNT", |job, _| job.restarts.to_string()),
    named("resvports", "RESV_PORTS", null),
    named("shared", "OVER_SUBSCRIBE", |job, _| if job.exclusive { "NO" } else { "OK" }.to_owned()),
    named("siblingsactive", "ACTIVE_SIBLINGS", no_federation),
    named("siblingsactiveraw", "ACTIVE_SIBLINGS_RAW", no_federation),
    named("siblingsviable", "VIABLE_SIBLINGS", no_federation),
    named("siblingsviableraw", "VIALBLE_SIBLINGS_RAW", no_federation),
    named("sperboard", "SOCKETS_PER_BOARD", zero),
    named("stderr", "STDERR", |job, _| job.stderr.clone().unwrap_or_default()),
    named("stdin", "STDIN", |job, _| job.stdin.clone().unwrap_or_else(|| "/dev/null".to_owned())),
    named("stdout", "STDOUT", |job, _| job.stdout.clone().unwrap_or_default()),
    named("system_comment", "SYSTEM_COMMENT", null),
    named("tres", "TRES_ALLOC", |job, _| tres(job)),
    named("tres-alloc", "TRES_ALLOC", |job, _| tres(job)),
    named("tres-bind", "TRES_BIND", not_applicable),
    named("tres-freq", "TRES_FREQ", not_applicable),
    named("tres-per-job", "TRES_PER_JOB", not_applicable),
    named("tres-per-socket", "TRES_PER_SOCKET", not_applicable),
    named("tres-per-task", "TRES_PER_TASK", not_applicable),
    named("wait4switch", "WAIT4SWITCH", no_time),
];

fn null(_: &JobFacts, _: &Show) -> String {
    NULL.to_owned()
}

fn not_applicable(_: &JobFacts, _: &Show) -> String {
    NONE.to_owned()
}

fn zero(_: &JobFacts, _: &Show) -> String {
    "0".to_owned()
}

fn any(_: &JobFacts, _: &Show) -> String {
    ANY.to_owned()
}

fn no_time(_: &JobFacts, _: &Show) -> String {
    time_text::short(0)
}

fn no_federation(_: &JobFacts, _: &Show) -> String {
    "NA".to_owned()
}

fn or_null(text: &Option<String>) -> String {
    text.clone().unwrap_or_else(|| NULL.to_owned())
}

fn or_none(time: Option<Timestamp>, show: &Show) -> String {
    time.map_or_else(|| NONE.to_owned(), |time| show.time(time))
}

fn group_id(job: &JobFacts) -> String {
    job.gid.unwrap_or(0).to_string()
}

/// The least processing elements that it needs of a node.
fn least_cpus(job: &JobFacts) -> u32 {
    job.cpus_per_task.saturating_mul(job.tasks_per_node.unwrap_or(1))
}

fn end_time(job: &JobFacts, show: &Show) -> String {
    match job.end() {
        Some(end) => show.time(end),
        // It has no time limit.
        None if job.start.is_some() => "NONE".to_owned(),
        None => NONE.to_owned(),
    }
}

/// Seconds from its eligibility to its start.
fn pending_time(job: &JobFacts, show: &Show) -> String {
    let until = match job.state {
        StateCode::Pending => Some(show.now),
        _ => job.start,
    };
    let waited = until.map_or(0, |until| until.duration_since(job.submitted).as_secs());
    waited.max(0).to_string()
}

fn nodes_or_reason(job: &JobFacts) -> String {
    match job.state {
        StateCode::Pending | StateCode::Failed | StateCode::Timeout | StateCode::OutOfMemory => {
            format!("({})", job.reason)
        }
        StateCode::Configuring
        | StateCode::Running
        | StateCode::Suspended
        | StateCode::Completing
        | StateCode::Completed
        | StateCode::Cancelled
        | StateCode::NodeFail
        | StateCode::Preempted => job.node_list.clone(),
    }
}

/// Trackable resources: `cpu=2,mem=1G,node=1,billing=2`.
pub(in crate::view) fn tres(job: &JobFacts) -> String {
    let memory = match job.memory_bytes() {
        0 => String::new(),
        bytes => format!("mem={},", memory_text::mebibytes(bytes, true)),
    };
    format!("cpu={},{memory}node={},billing={}", job.cpus, job.nodes, job.cpus)
}
