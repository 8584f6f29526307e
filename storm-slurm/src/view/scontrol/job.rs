//! `scontrol show job`.

use super::record::{NULL, Record, or_null};
use crate::view::squeue::tres;
use crate::view::{JobFacts, MemoryAsked, Show, StateCode, Tasks, memory_text, time_text};
use jiff::Timestamp;

/// The part of a job on one node, for `--details`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPart {
    /// The node.
    pub node: String,
    /// The number of its processing elements.
    pub cpus: u32,
    /// Its memory in MiB.
    pub memory_mib: u64,
}

/// The record of a job; with `parts`, in detail.
pub fn job(job: &JobFacts, parts: Option<&[JobPart]>, show: &Show, one_line: bool) -> String {
    let mut record = Record::default();
    names(&mut record, job, show);
    state(&mut record, job, parts.is_some());
    times(&mut record, job, show);
    place(&mut record, job, parts);
    files(&mut record, job);
    record.line("Power=").line("");
    record.text(one_line)
}

fn names(record: &mut Record, job: &JobFacts, show: &Show) {
    let array = job.array.as_ref().map_or_else(String::new, |place| {
        let limit =
            place.limit.map_or_else(String::new, |most| format!(" ArrayTaskThrottle={most}"));
        format!(" ArrayJobId={} ArrayTaskId={}{limit}", place.job, place.indices(show))
    });
    let gid = job.gid.unwrap_or(0);
    let group = job.group.clone().unwrap_or_else(|| gid.to_string());
    let qos = job.qos.as_deref().unwrap_or("normal");
    record
        .line(format!("JobId={}{array} JobName={}", job.id, job.name))
        .line(format!("UserId={}({}) GroupId={group}({gid}) MCS_label=N/A", job.user, job.uid))
        .line(format!(
            "Priority={} Nice={} Account={} QOS={qos}",
            job.priority.unwrap_or(0),
            job.nice,
            or_null(&job.account)
        ));
}

fn state(record: &mut Record, job: &JobFacts, details: bool) {
    record
        .line(format!(
            "JobState={} Reason={} Dependency={}",
            job.state,
            job.reason,
            or_null(&job.dependency)
        ))
        .line(format!(
            "Requeue={} Restarts={} BatchFlag={} Reboot=0 ExitCode={}",
            u8::from(job.requeue),
            job.restarts,
            u8::from(job.batch),
            job.exit
        ));
    if details {
        record.line(format!("DerivedExitCode={}", job.derived_exit));
    }
}

fn times(record: &mut Record, job: &JobFacts, show: &Show) {
    let limit = time_text::limit(job.time_limit_s, time_text::full);
    let time =
        |time: Option<Timestamp>| time.map_or_else(|| "Unknown".to_owned(), |time| show.time(time));
    let eligible = time(job.eligible);
    let end = time(job.end());
    record
        .line(format!("RunTime={} TimeLimit={limit} TimeMin=N/A", time_text::full(job.ran_s)))
        .line(format!("SubmitTime={} EligibleTime={eligible}", show.time(job.submitted)))
        .line(format!("AccrueTime={eligible}"))
        .line(format!("StartTime={} EndTime={end} Deadline=N/A", time(job.start)))
        .line(format!("SuspendTime=None SecsPreSuspend=0 LastSchedEval={eligible} Scheduler=Main"));
}

fn place(record: &mut Record, job: &JobFacts, parts: Option<&[JobPart]>) {
    record
        .line(format!("Partition={} AllocNode:Sid={NULL}:0", job.partition))
        .line(format!(
            "ReqNodeList={} ExcNodeList={}",
            or_null(&job.nodes_required),
            or_null(&job.nodes_excluded)
        ))
        .line(format!("NodeList={}", job.node_list));
    if let Some(host) = &job.batch_host {
        record.line(format!("BatchHost={host}"));
    }
    record
        .line(format!(
            "NumNodes={} NumCPUs={} NumTasks={} CPUs/Task={} ReqB:S:C:T=0:0:*:*",
            node_count(job),
            job.cpus,
            job.tasks,
            job.cpus_per_task
        ))
        .line(format!("TRES={}", tres(job)))
        .line(format!(
            "Socks/Node=* NtasksPerN:B:S:C={}:0:*:* CoreSpec=*",
            job.tasks_per_node.unwrap_or(0)
        ));
    if let Some(parts) = parts {
        record.line(format!("JOB_GRES={NULL}"));
        for JobPart { node, cpus, memory_mib } in parts {
            let ids = match cpus {
                0 | 1 => "0".to_owned(),
                cpus => format!("0-{}", cpus - 1),
            };
            record.line(format!("  Nodes={node} CPU_IDs={ids} Mem={memory_mib} GRES="));
        }
    }
    record
        .line(memory(job))
        .line(format!("Features={} DelayBoot=00:00:00", or_null(&job.features)));
    if let Some(reservation) = &job.reservation {
        record.line(format!("Reservation={reservation}"));
    }
    let oversubscribe = if job.exclusive { "NO" } else { "OK" };
    record
        .line(format!("OverSubscribe={oversubscribe} Contiguous=0 Licenses={NULL} Network={NULL}"));
}

/// A job that waits and asks for nodes has the least and the most number.
fn node_count(job: &JobFacts) -> String {
    match job.nodes_asked {
        Some(nodes) if job.state == StateCode::Pending => format!("{nodes}-{nodes}"),
        _ => job.nodes.to_string(),
    }
}

fn memory(job: &JobFacts) -> String {
    let least = job.cpus_per_task.saturating_mul(job.tasks_per_node.unwrap_or(1));
    let size = memory_text::mebibytes(job.memory_asked_bytes(), true);
    let of = match job.memory {
        MemoryAsked::PerCpu(_) => "CPU",
        MemoryAsked::Unstated | MemoryAsked::PerNode(_) | MemoryAsked::WholeNode => "Node",
    };
    format!("MinCPUsNode={least} MinMemory{of}={size} MinTmpDiskNode=0")
}

fn files(record: &mut Record, job: &JobFacts) {
    record
        .line(format!("Command={}", or_null(&job.command)))
        .line(format!("WorkDir={}", or_null(&job.work_dir)));
    if let Some(comment) = &job.comment {
        record.line(format!("Comment={comment} "));
    }
    // Several jobs of an array have no file in common.
    let single = job.array.as_ref().is_none_or(|place| matches!(place.tasks, Tasks::One(_)));
    if !job.batch && !single {
        return;
    }
    record
        .line(format!("StdErr={}", job.stderr.as_deref().unwrap_or_default()))
        .line(format!("StdIn={}", job.stdin.as_deref().unwrap_or("/dev/null")))
        .line(format!("StdOut={}", job.stdout.as_deref().unwrap_or_default()));
}
