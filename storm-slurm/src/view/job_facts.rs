//! A job as the listing commands see it.

use super::{ExitCode, Show, StateCode, array_text};
use jiff::Timestamp;

/// Facts about a job, or about the jobs of an array that share a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// Its number; the array's number for several jobs of an array.
    pub id: u64,
    /// Its place in an array.
    pub array: Option<ArrayPlace>,
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: String,
    /// The user's number.
    pub uid: u32,
    /// Its group.
    pub group: Option<String>,
    /// The group's number.
    pub gid: Option<u32>,
    /// The account that is charged.
    pub account: Option<String>,
    /// Its quality of service.
    pub qos: Option<String>,
    /// Its partition.
    pub partition: String,
    /// Its state.
    pub state: StateCode,
    /// Why it is in this state, in one word.
    pub reason: String,
    /// Its nodes, folded; empty until it has some.
    pub node_list: String,
    /// The node of its script or first rank.
    pub batch_host: Option<String>,
    /// The number of its nodes, or the least that it asks for.
    pub nodes: u32,
    /// The number of nodes that it asks for.
    pub nodes_asked: Option<u32>,
    /// Its tasks.
    pub tasks: u32,
    /// Its processing elements.
    pub cpus: u32,
    /// Processing elements of each task.
    pub cpus_per_task: u32,
    /// The most tasks on a node.
    pub tasks_per_node: Option<u32>,
    /// The memory that it asks for.
    pub memory: MemoryAsked,
    /// Whether no other job may have its nodes.
    pub exclusive: bool,
    /// The features that its nodes must have.
    pub features: Option<String>,
    /// The nodes that it must have.
    pub nodes_required: Option<String>,
    /// The nodes that it must not have.
    pub nodes_excluded: Option<String>,
    /// Its reservation.
    pub reservation: Option<String>,
    /// Its dependency, if it waits for one: `afterok:7`.
    pub dependency: Option<String>,
    /// Its time limit.
    pub time_limit_s: Option<u64>,
    /// How long it ran, without the time in which others had its processing elements.
    pub ran_s: u64,
    /// How long it was suspended, or out of its row.
    pub suspended_s: u64,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// Since when it may run; `None` while it may not.
    pub eligible: Option<Timestamp>,
    /// When it started, or is expected to.
    pub start: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Its priority; 0 while it is held.
    pub priority: Option<u64>,
    /// Subtracted from its priority.
    pub nice: i32,
    /// Whether it is a batch job.
    pub batch: bool,
    /// Whether it may run twice.
    pub requeue: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// Its script or program.
    pub command: Option<String>,
    /// Its command line.
    pub submit_line: Option<String>,
    /// Its working directory.
    pub work_dir: Option<String>,
    /// The file of its standard output.
    pub stdout: Option<String>,
    /// The file of its standard error.
    pub stderr: Option<String>,
    /// The file of its standard input.
    pub stdin: Option<String>,
    /// The user's comment.
    pub comment: Option<String>,
    /// The user's key of workload.
    pub wckey: Option<String>,
    /// How it ended.
    pub exit: ExitCode,
    /// The highest exit code of its steps.
    pub derived_exit: ExitCode,
    /// The user that cancelled it.
    pub cancelled_by: Option<u32>,
}

/// A job's place in an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayPlace {
    /// The array's number.
    pub job: u64,
    /// Its index, or those that share a line.
    pub tasks: Tasks,
    /// The most jobs of the array that run at once.
    pub limit: Option<u32>,
}

/// Indices in an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tasks {
    /// A job of its own.
    One(u32),
    /// Several jobs that wait alike, in ascending order.
    Many(Vec<u32>),
}

/// The memory that a job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAsked {
    /// None in particular.
    Unstated,
    /// Bytes on each node.
    PerNode(u64),
    /// Bytes for each processing element.
    PerCpu(u64),
    /// All of each node.
    WholeNode,
}

impl JobFacts {
    /// A waiting job of one task, of which nothing else is known.
    pub fn submitted(id: u64, at: Timestamp) -> JobFacts {
        JobFacts {
            id,
            array: None,
            name: String::new(),
            user: String::new(),
            uid: 0,
            group: None,
            gid: None,
            account: None,
            qos: None,
            partition: String::new(),
            state: StateCode::Pending,
            reason: "None".to_owned(),
            node_list: String::new(),
            batch_host: None,
            nodes: 1,
            nodes_asked: None,
            tasks: 1,
            cpus: 1,
            cpus_per_task: 1,
            tasks_per_node: None,
            memory: MemoryAsked::Unstated,
            exclusive: false,
            features: None,
            nodes_required: None,
            nodes_excluded: None,
            reservation: None,
            dependency: None,
            time_limit_s: None,
            ran_s: 0,
            suspended_s: 0,
            submitted: at,
            eligible: None,
            start: None,
            ended: None,
            priority: None,
            nice: 0,
            batch: false,
            requeue: false,
            restarts: 0,
            command: None,
            submit_line: None,
            work_dir: None,
            stdout: None,
            stderr: None,
            stdin: None,
            comment: None,
            wckey: None,
            exit: ExitCode::default(),
            derived_exit: ExitCode::default(),
            cancelled_by: None,
        }
    }

    /// The job's name for users: `7`, `7_3` or `7_[4-9%2]`.
    pub fn job_id(&self, show: &Show) -> String {
        match &self.array {
            None => self.id.to_string(),
            Some(ArrayPlace { job, tasks: Tasks::One(index), .. }) => format!("{job}_{index}"),
            Some(place) => format!("{}_[{}]", place.job, place.indices(show)),
        }
    }

    /// The array's number, or the job's own.
    pub fn array_id(&self) -> u64 {
        self.array.as_ref().map_or(self.id, |place| place.job)
    }

    /// Memory of the whole job in bytes; 0 if it asks for none.
    pub fn memory_bytes(&self) -> u64 {
        match self.memory {
            MemoryAsked::Unstated | MemoryAsked::WholeNode => 0,
            MemoryAsked::PerNode(bytes) => bytes.saturating_mul(u64::from(self.nodes)),
            MemoryAsked::PerCpu(bytes) => bytes.saturating_mul(u64::from(self.cpus)),
        }
    }

    /// Memory in bytes as it was asked for: on a node or for a processing element.
    pub fn memory_asked_bytes(&self) -> u64 {
        match self.memory {
            MemoryAsked::Unstated | MemoryAsked::WholeNode => 0,
            MemoryAsked::PerNode(bytes) | MemoryAsked::PerCpu(bytes) => bytes,
        }
    }

    /// When it ended, or will by its time limit; `None` without a limit or a start.
    pub fn end(&self) -> Option<Timestamp> {
        if self.ended.is_some() {
            return self.ended;
        }
        let limit = i64::try_from(self.time_limit_s?).ok()?;
        self.start?.checked_add(jiff::SignedDuration::from_secs(limit)).ok()
    }
}

impl ArrayPlace {
    /// The index, or the indices with the limit: `2-9%2`.
    pub fn indices(&self, show: &Show) -> String {
        match &self.tasks {
            Tasks::One(index) => index.to_string(),
            Tasks::Many(indices) => {
                let list = array_text::indices(indices, None);
                let limit = self.limit.map_or_else(String::new, |limit| format!("%{limit}"));
                array_text::shortened(list + &limit, show.index_chars)
            }
        }
    }

    /// The first index.
    pub fn first(&self) -> u32 {
        match &self.tasks {
            Tasks::One(index) => *index,
            Tasks::Many(indices) => indices.first().copied().unwrap_or(0),
        }
    }
}
