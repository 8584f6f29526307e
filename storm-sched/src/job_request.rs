//! A job's request to the scheduler.
//!
//! A request holds only the facts that decide where and when the job runs. The command, the files
//! and the owner stay with the Machine Manager.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Constraint, JobId, Node, NodeChoice, NodeMemory, Precedence, Priority, QosId, ReservationId,
};

/// A job's request for PEs. Fields will be added, so callers build it with [`JobRequest::new`] and
/// the `with_` methods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobRequest {
    /// The job.
    pub id: JobId,
    /// The number of processes (Slurm `-n`).
    pub procs: u32,
    /// The PEs of each process, all on one node (Slurm `--cpus-per-task`).
    pub pes_per_proc: u32,
    /// The exact number of nodes (Slurm `-N`). Each node gets a block of consecutive ranks. If the
    /// number of processes is not a multiple of it, the first blocks have one rank more.
    pub nodes: Option<u32>,
    /// The most processes on a node (Slurm `--ntasks-per-node`).
    pub procs_per_node: Option<u32>,
    /// The memory per PE of the job's processes, in bytes (Slurm `--mem-per-cpu`). The memory
    /// counts on the node while the job is in the matrix, whichever row runs. Zero means that it is
    /// not counted.
    pub mem_per_pe_bytes: u64,
    /// Additional memory on each of the job's nodes (Slurm `--mem`), counted in the same way.
    pub mem_per_node: NodeMemory,
    /// Whether no other job may have PEs of its nodes in its row (Slurm `--exclusive`).
    pub exclusive: bool,
    /// The features that its nodes must have (Slurm `--constraint`).
    pub constraint: Option<Arc<Constraint>>,
    /// The nodes that it names (Slurm `--nodelist`, `--exclude`).
    #[serde(default)]
    pub choice: Option<Arc<NodeChoice>>,
    /// The longest run that the user expects (Slurm `-t`). The Machine Manager ends the job when it
    /// is over, and backfilling relies on it.
    pub time_limit: Option<Duration>,
    /// The priority: jobs with a higher one are ahead in the queue.
    #[serde(default)]
    pub priority: Priority,
    /// Which jobs it may preempt, and which may preempt it. `None`: no jobs.
    #[serde(default)]
    pub precedence: Option<Arc<Precedence>>,
    /// Whether the job has run and was preempted. Such a job comes first among the jobs of its
    /// priority.
    #[serde(default)]
    pub preempted: bool,
    /// The reservation that the job waits for, and on whose nodes it runs (Slurm `--reservation`).
    /// A reservation that has ended counts as none.
    #[serde(default)]
    pub reservation: Option<ReservationId>,
}

impl JobRequest {
    /// Returns a request for `procs` processes of one PE each, on any nodes.
    #[must_use]
    pub fn new(id: JobId, procs: u32) -> Self {
        Self {
            id,
            procs,
            pes_per_proc: 1,
            nodes: None,
            procs_per_node: None,
            mem_per_pe_bytes: 0,
            mem_per_node: NodeMemory::Unstated,
            exclusive: false,
            constraint: None,
            choice: None,
            time_limit: None,
            priority: Priority::default(),
            precedence: None,
            preempted: false,
            reservation: None,
        }
    }

    /// The same request on exactly `nodes` nodes.
    #[must_use]
    pub fn with_nodes(self, nodes: u32) -> Self {
        Self { nodes: Some(nodes), ..self }
    }

    /// The same request with a time limit.
    #[must_use]
    pub fn with_time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit: Some(time_limit), ..self }
    }

    /// The same request with a priority.
    #[must_use]
    pub fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// The same request with the precedence of a quality of service.
    #[must_use]
    pub fn with_precedence(self, precedence: Arc<Precedence>) -> Self {
        Self { precedence: Some(precedence), ..self }
    }

    /// Whether the job may have the PEs of some other job.
    #[must_use]
    pub fn may_preempt(&self) -> bool {
        self.precedence.as_ref().is_some_and(|own| !own.preempts.is_empty())
    }

    /// The job's quality of service.
    #[must_use]
    pub fn qos(&self) -> Option<QosId> {
        self.precedence.as_ref().map(|own| own.qos)
    }

    /// Whether the job goes before another job, waiting or running.
    #[must_use]
    pub fn is_over(&self, other: &Self) -> bool {
        self.precedence.as_ref().is_some_and(|own| own.is_over(other.precedence.as_deref()))
    }

    /// The same request with that many PEs for each process.
    #[must_use]
    pub fn with_pes_per_proc(self, pes_per_proc: u32) -> Self {
        Self { pes_per_proc, ..self }
    }

    /// The same request with at most that many processes on a node.
    #[must_use]
    pub fn with_procs_per_node(self, procs_per_node: u32) -> Self {
        Self { procs_per_node: Some(procs_per_node), ..self }
    }

    /// The same request with this much memory for each PE, in bytes.
    #[must_use]
    pub fn with_memory(self, mem_per_pe_bytes: u64) -> Self {
        Self { mem_per_pe_bytes, ..self }
    }

    /// The same request with memory on each of its nodes.
    #[must_use]
    pub fn with_node_memory(self, mem_per_node: NodeMemory) -> Self {
        Self { mem_per_node, ..self }
    }

    /// The same request for nodes of its own.
    #[must_use]
    pub fn with_exclusive_nodes(self) -> Self {
        Self { exclusive: true, ..self }
    }

    /// The same request on nodes that meet a constraint.
    #[must_use]
    pub fn with_constraint(self, constraint: Constraint) -> Self {
        Self { constraint: Some(Arc::new(constraint)), ..self }
    }

    /// The same request on the nodes that `choice` allows.
    #[must_use]
    pub fn with_choice(self, choice: NodeChoice) -> Self {
        let choice = Some(choice).filter(|choice| !choice.is_empty());
        Self { choice: choice.map(Arc::new), ..self }
    }

    /// Whether the job must have a node.
    #[must_use]
    pub fn requires(&self, node: &Node) -> bool {
        self.choice.as_ref().is_some_and(|choice| choice.requires(node))
    }

    /// The number of nodes that the job must have.
    pub(crate) fn required_nodes(&self) -> u32 {
        self.choice.as_ref().map_or(0, |choice| choice.required.len() as u32)
    }

    /// The same request in a reservation.
    #[must_use]
    pub fn with_reservation(self, reservation: ReservationId) -> Self {
        Self { reservation: Some(reservation), ..self }
    }

    /// The assumed run time of the job: the user's limit, or else the default. It is at least a
    /// nanosecond, so that no job ends when it starts.
    pub(crate) fn estimate(&self, default: Duration) -> Duration {
        self.time_limit.unwrap_or(default).max(Duration::from_nanos(1))
    }

    /// The PEs that the job's processes run on: the least that the job is charged for.
    #[must_use]
    pub fn pes(&self) -> u32 {
        self.procs.saturating_mul(self.pes_per_proc)
    }

    /// Whether the job asks only for a number of PEs, on any nodes.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.pes_per_proc == 1
            && self.nodes.is_none()
            && self.procs_per_node.is_none()
            && !self.asks_for_memory()
            && !self.exclusive
            && self.constraint.is_none()
            && self.choice.is_none()
    }

    /// Whether the job's memory counts.
    #[must_use]
    pub fn asks_for_memory(&self) -> bool {
        self.mem_per_pe_bytes > 0 || self.mem_per_node != NodeMemory::Unstated
    }

    /// Whether the job may have a node, regardless of free room.
    #[must_use]
    pub fn may_have(&self, node: &Node) -> bool {
        self.constraint.as_ref().is_none_or(|constraint| constraint.is_met_by(node.features()))
            && self.choice.as_ref().is_none_or(|choice| choice.allows(node, self.nodes))
    }

    /// The memory that the job takes on a node with that many of its processes, in bytes.
    #[must_use]
    pub fn memory_on_bytes(&self, node: &Node, procs: u32) -> u64 {
        let pes = u64::from(procs) * u64::from(self.pes_per_proc);
        let of_pes = self.mem_per_pe_bytes.saturating_mul(pes);
        of_pes.saturating_add(self.mem_per_node.on_node_bytes(node.memory_bytes()))
    }

    /// The most processes for which that many free bytes of a node's memory are enough. `None`
    /// where memory is not counted.
    #[must_use]
    pub fn procs_within(&self, node: &Node, free_bytes: Option<u64>) -> u32 {
        let Some(free_bytes) = free_bytes else { return u32::MAX };
        let of_node = self.mem_per_node.on_node_bytes(node.memory_bytes());
        let Some(left) = free_bytes.checked_sub(of_node) else { return 0 };
        let each = self.mem_per_pe_bytes.saturating_mul(u64::from(self.pes_per_proc));
        left.checked_div(each).map_or(u32::MAX, |procs| u32::try_from(procs).unwrap_or(u32::MAX))
    }
}
