//! Jobs of the client API as the facts that Slurm's commands print.

use nix::unistd::{Gid, Group};
use std::collections::HashMap;
use std::path::Path;
use storm_mm::api::{JobAttributes, JobState, JobView, PriorityView, UseView};
use storm_rm::message::ExitStatus;
use storm_rm::{FirstStep, Memory, OutputSpec};
use storm_slurm::host_list::expand;
use storm_slurm::view::{
    ArrayPlace, ExitCode, JobFacts, MemoryAsked, StateCode, StepFacts, StepUse, Tasks,
};

/// The exit code of a job of which a process was killed for its memory (SIG_OOM of slurm.h).
const OUT_OF_MEMORY: ExitCode = ExitCode { code: 0, signal: 125 };

/// Makes facts of views. Remembers the names of groups, and the priorities if they were asked for.
#[derive(Default)]
pub(super) struct JobReader {
    groups: HashMap<u32, Option<String>>,
    priorities: HashMap<u64, u64>,
}

impl JobReader {
    pub(super) fn with_priorities(priorities: &[PriorityView]) -> JobReader {
        let priorities = priorities.iter().map(|one| (one.job.0, u64::from(one.priority.0)));
        JobReader { priorities: priorities.collect(), ..JobReader::default() }
    }

    /// The facts of a job. Without attributes, those that only attributes have are unknown.
    pub(super) fn facts(&mut self, view: &JobView) -> JobFacts {
        let cpus = view.procs.saturating_mul(view.resources.cpus_per_task);
        let state = state_of(view);
        let per_node = view.resources.tasks_per_node;
        let least_nodes = per_node.map_or(1, |most| view.procs.div_ceil(most.max(1)));
        let required = view.resources.required_nodes.as_deref().map(expand);
        let required = required.and_then(Result::ok).map_or(0, |names| names.len());
        let least_nodes = least_nodes.max(u32::try_from(required).unwrap_or(u32::MAX));
        let facts = JobFacts {
            array: view.array.map(|task| ArrayPlace {
                job: task.array.0,
                tasks: Tasks::One(task.index),
                limit: view.array_limit,
            }),
            name: view.name.clone(),
            user: view.user.name.clone(),
            uid: view.user.uid,
            partition: view.partition.clone(),
            state,
            reason: reason_of(view, state),
            node_list: view.node_list.clone(),
            nodes: if view.nodes > 0 {
                view.nodes
            } else {
                view.nodes_asked.unwrap_or(least_nodes)
            },
            nodes_asked: view.nodes_asked,
            tasks: view.procs,
            cpus,
            cpus_per_task: view.resources.cpus_per_task,
            tasks_per_node: per_node,
            memory: match view.resources.memory {
                Memory::Unstated => MemoryAsked::Unstated,
                Memory::PerNode(bytes) => MemoryAsked::PerNode(bytes),
                Memory::PerCpu(bytes) => MemoryAsked::PerCpu(bytes),
                Memory::WholeNode => MemoryAsked::WholeNode,
            },
            exclusive: view.resources.exclusive,
            features: view.resources.constraint.clone(),
            nodes_required: view.resources.required_nodes.clone(),
            nodes_excluded: view.resources.excluded_nodes.clone(),
            comment: view.remarks.comment.clone(),
            wckey: view.remarks.wckey.clone(),
            time_limit_s: view.time_limit_s,
            ran_s: view.ran_s,
            suspended_s: view.elapsed_s.saturating_sub(view.ran_s),
            eligible: (!is_ineligible(view)).then_some(view.submitted),
            start: view.started.or(view.estimate),
            ended: view.ended,
            priority: self.priorities.get(&view.id.0).copied(),
            exit: shell_exit(view.exit_code.unwrap_or(0)),
            ..JobFacts::submitted(view.id.0, view.submitted)
        };
        match &view.attributes {
            Some(more) => self.with_attributes(facts, view, more),
            None => facts,
        }
    }

    fn with_attributes(
        &mut self,
        facts: JobFacts,
        view: &JobView,
        more: &JobAttributes,
    ) -> JobFacts {
        // No process of a job that was cancelled before it began got a signal.
        let began = view.started.is_some() || view.state != JobState::Cancelled;
        let exit = match view.state {
            JobState::OutOfMemory => OUT_OF_MEMORY,
            _ => more.exit.filter(|_| began).map_or(ExitCode::default(), exit_of),
        };
        let (stdout, stderr) = match &more.output {
            OutputSpec::Client => (None, None),
            OutputSpec::Files { stdout, stderr } => {
                let path = |pattern: &str| Some(output_path(pattern, view, more));
                let stdout = stdout.to_string_lossy();
                let stderr = stderr.as_ref().map(|stderr| stderr.to_string_lossy());
                (path(&stdout), path(stderr.as_deref().unwrap_or(&stdout)))
            }
        };
        let is_pending = facts.state == StateCode::Pending;
        let start = facts.start.or(more.begin.filter(|_| is_pending));
        JobFacts {
            group: self.group(more.gid),
            gid: Some(more.gid),
            account: more.account.clone(),
            qos: more.qos.clone(),
            batch_host: more.first_part.as_ref().map(|part| part.node.clone()),
            reservation: more.reservation.clone(),
            dependency: more.dependency.as_ref().map(|open| dependency(open, view)),
            eligible: facts.eligible.map(|at| more.begin.map_or(at, |begin| begin.max(at))),
            start,
            nice: more.nice,
            batch: more.first == FirstStep::Script,
            requeue: more.requeue,
            restarts: more.runs.saturating_sub(1),
            command: command(more),
            work_dir: Some(more.cwd.to_string_lossy().into_owned()),
            stdout,
            stderr,
            exit,
            cancelled_by: more.cancelled_by,
            ..facts
        }
    }

    fn group(&mut self, gid: u32) -> Option<String> {
        let found = || Group::from_gid(Gid::from_raw(gid)).ok().flatten().map(|group| group.name);
        self.groups.entry(gid).or_insert_with(found).clone()
    }
}

/// The step of a job: its script, or its program. None before the job has nodes.
pub(super) fn step_of(view: &JobView, job: &JobFacts) -> Option<StepFacts> {
    let more = view.attributes.as_ref()?;
    let first = more.first_part.as_ref()?;
    let is_script = more.first == FirstStep::Script;
    let cpus_of = |procs: u32| procs.saturating_mul(view.resources.cpus_per_task);
    let program = job.command.as_deref().unwrap_or_default();
    let program = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
    let tasks = if is_script { 1 } else { view.procs };
    Some(StepFacts {
        id: if is_script { "batch" } else { "0" }.to_owned(),
        name: if is_script { "batch".to_owned() } else { program.unwrap_or_default() },
        state: match job.state {
            // The processes of a job that reached its limit are cancelled.
            StateCode::Timeout | StateCode::Preempted => StateCode::Cancelled,
            state => state,
        },
        node_list: if is_script { first.node.clone() } else { job.node_list.clone() },
        nodes: if is_script { 1 } else { job.nodes },
        tasks,
        cpus: if is_script { cpus_of(first.procs) } else { job.cpus },
        ran_s: job.ran_s,
        suspended_s: job.suspended_s,
        start: view.started,
        ended: view.ended,
        exit: job.exit,
        used: more.used.as_ref().map(|used| step_use(used, tasks)),
        job: job.clone(),
    })
}

/// Resource use of the ranks of a job.
pub(super) fn step_use(used: &UseView, tasks: u32) -> StepUse {
    StepUse {
        user_us: used.user_us,
        system_us: used.system_us,
        max_rss_kib: used.max_rss_kib,
        max_rss_node: used.max_rss_at.1.clone(),
        max_rss_task: used.max_rss_at.0.0,
        average_rss_kib: used.rss_kib / u64::from(tasks.max(1)),
        min_cpu_us: used.min_cpu_us,
        min_cpu_node: used.min_cpu_at.1.clone(),
        min_cpu_task: used.min_cpu_at.0.0,
    }
}

fn state_of(view: &JobView) -> StateCode {
    match view.state {
        JobState::Pending | JobState::Running | JobState::Suspended if view.ending => {
            StateCode::Completing
        }
        // It has nodes, and not all ranks execute yet.
        JobState::Pending if view.nodes > 0 => StateCode::Configuring,
        JobState::Pending => StateCode::Pending,
        JobState::Running => StateCode::Running,
        JobState::Suspended => StateCode::Suspended,
        JobState::Completed => StateCode::Completed,
        JobState::Failed => StateCode::Failed,
        JobState::Cancelled => StateCode::Cancelled,
        JobState::Timeout => StateCode::Timeout,
        JobState::NodeFail => StateCode::NodeFail,
        JobState::Preempted => StateCode::Preempted,
        JobState::OutOfMemory => StateCode::OutOfMemory,
    }
}

/// The path of the script or program. A script from standard input or `--wrap` has none.
fn command(more: &JobAttributes) -> Option<String> {
    let program = more.program.to_string_lossy();
    if more.first == FirstStep::Script && matches!(&*program, "wrap" | "sbatch" | "stdin") {
        return None;
    }
    let path = Path::new(&*more.cwd.to_string_lossy()).join(&*program);
    Some(path.to_string_lossy().into_owned())
}

/// The states of the API in which a job of this state may be.
pub(super) fn api_states(state: StateCode) -> &'static [JobState] {
    match state {
        StateCode::Pending => &[JobState::Pending],
        StateCode::Configuring => &[JobState::Pending],
        StateCode::Running => &[JobState::Running],
        StateCode::Suspended => &[JobState::Suspended],
        StateCode::Completing => &[JobState::Pending, JobState::Running, JobState::Suspended],
        StateCode::Completed => &[JobState::Completed],
        StateCode::Cancelled => &[JobState::Cancelled],
        StateCode::Failed => &[JobState::Failed],
        StateCode::Timeout => &[JobState::Timeout],
        StateCode::NodeFail => &[JobState::NodeFail],
        StateCode::Preempted => &[JobState::Preempted],
        StateCode::OutOfMemory => &[JobState::OutOfMemory],
    }
}

fn reason_of(view: &JobView, state: StateCode) -> String {
    let word = match state {
        StateCode::Pending => view.reason_code.as_deref().unwrap_or("None"),
        // No rank ran, or a signal ended one.
        StateCode::Failed if view.started.is_none() => "JobLaunchFailure",
        StateCode::Failed => "NonZeroExitCode",
        StateCode::Timeout => "TimeLimit",
        StateCode::NodeFail => "NodeDown",
        StateCode::OutOfMemory => "OutOfMemory",
        StateCode::Configuring
        | StateCode::Running
        | StateCode::Suspended
        | StateCode::Completing
        | StateCode::Completed
        | StateCode::Cancelled
        | StateCode::Preempted => "None",
    };
    word.to_owned()
}

/// Whether the job waits for something other than processing elements.
pub(super) fn is_ineligible(view: &JobView) -> bool {
    let waits_for = view.reason_code.as_deref();
    matches!(
        waits_for,
        Some(
            "JobHeldUser"
                | "JobHeldAdmin"
                | "Dependency"
                | "DependencyNeverSatisfied"
                | "JobArrayTaskLimit"
        )
    )
}

/// The open conditions as Slurm shows them: `afterok:7(unfulfilled)`.
fn dependency(open: &str, view: &JobView) -> String {
    let never = view.reason_code.as_deref() == Some("DependencyNeverSatisfied");
    let mark = if never { "(failed)" } else { "(unfulfilled)" };
    let separator = if open.contains('?') { "?" } else { "," };
    let marked: Vec<String> = open.split(separator).map(|one| format!("{one}{mark}")).collect();
    marked.join(separator)
}

/// A status as a shell gives it. Only a rank's own status tells a signal from a high code.
fn shell_exit(status: u8) -> ExitCode {
    ExitCode { code: status, signal: 0 }
}

fn exit_of(status: ExitStatus) -> ExitCode {
    match status {
        ExitStatus::Code(code) => ExitCode { code, signal: 0 },
        ExitStatus::Signal(signal) => {
            ExitCode { code: 0, signal: u8::try_from(signal).unwrap_or(u8::MAX) }
        }
    }
}

/// The file that a pattern names, as far as the job alone decides it.
fn output_path(pattern: &str, view: &JobView, more: &JobAttributes) -> String {
    let (array, index) = view.array.map_or((view.id, 0), |task| (task.array, task.index));
    let name = pattern
        .replace("%j", &view.id.to_string())
        .replace("%J", &view.id.to_string())
        .replace("%A", &array.to_string())
        .replace("%a", &index.to_string())
        .replace("%%", "%");
    let path = Path::new(&*more.cwd.to_string_lossy()).join(name);
    path.to_string_lossy().into_owned()
}
