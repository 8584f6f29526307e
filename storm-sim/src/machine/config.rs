//! The parts of a simulated machine, and the jobs that are submitted to it.

use super::{Configuration, ConfiguredNode, ConfiguredPartition};
use crate::content;
use crate::hosts::Hosts;
use crate::interconnect::MessageCosts;
use jiff::Timestamp;
use std::rc::Rc;
use std::time::Duration;
use storm_mm::{CoreConfig, NodeConfig, PartitionConfig, PartitionError};
use storm_nm::classes::{ClassRuleError, ClassRules};
use storm_primitives::NodeId;
use storm_primitives::sim::Fabric;
use storm_rm::{GlobalPlan, JobSpec, OutputSpec, PlanConfig, Program, StepSpec};
use storm_sched::{MplLimit, ParamError, PolicyParams, Quantum, Registry};
use thiserror::Error;

use crate::{Application, Defect};

/// The most nodes: four times the paper's largest estimate.
const NODES_MAX: u32 = 65_536;
/// The most processing elements of a node.
const PES_MAX: u32 = 1024;
/// The most jobs on the machine at the same time.
const JOB_SLOTS: u32 = 256;
/// Heartbeats that may be under way.
const HEARTBEAT_SLOTS: u32 = 4;
/// Length of the largest heartbeat. The ranks of a launch over many nodes must fit.
const HEARTBEAT_BYTES: u32 = 64 * 1024;
/// Items that may be under way from one node.
const REPORT_SLOTS: u32 = 4;
/// Least length of an item from a node. The ends of all its ranks must fit.
const REPORT_BYTES: u32 = 4 * 1024;
const REPORT_BYTES_PER_PE: u32 = 64;
/// Files that can be transferred at once.
const CHANNELS: u32 = 2;
/// The requeue fence of the manager: longer than a node takes to notice that it has no manager and
/// to end its jobs.
const REQUEUE_FENCE: Duration = Duration::from_millis(200);
/// Ended jobs that the manager keeps in memory.
const HISTORY: usize = 10_000;

/// A machine that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MachineError {
    /// Too few or too many nodes.
    #[error("a machine of {nodes} nodes is out of range: use 1 to {NODES_MAX}")]
    Nodes {
        /// How many were asked for.
        nodes: u32,
    },
    /// Too few or too many processing elements.
    #[error("nodes of {pes} processing elements are out of range: use 1 to {PES_MAX}")]
    Pes {
        /// How many were asked for.
        pes: u32,
    },
    /// Too few or too many partitions.
    #[error("{nodes} nodes cannot make {partitions} partitions: use 1 to {nodes}")]
    Partitions {
        /// How many were asked for.
        partitions: u32,
        /// Nodes of the machine.
        nodes: u32,
    },
    /// The partition is invalid.
    #[error("the partition is invalid")]
    Partition(#[from] PartitionError),
    /// The rules for judging processes are invalid.
    #[error("the [machine.flexible] of the scenario is invalid")]
    Flexible(#[from] ClassRuleError),
    /// The quantum or the multiprogramming limit is invalid.
    #[error("a setting of the policy is invalid")]
    Policy(#[from] ParamError),
}

/// The parts and settings of a machine.
#[derive(Clone)]
pub struct MachineConfig {
    /// Everything random comes from it.
    pub seed: u64,
    /// Compute nodes that are configured at the start.
    pub nodes: u32,
    /// Further nodes that are not configured at the start. An edit of the configuration can add
    /// them.
    pub spare_nodes: u32,
    /// Processing elements of each.
    pub pes: u32,
    /// Whether the ranks of a node outlive its node manager, and the next one takes them over. If
    /// false, they die with it.
    pub hand_over: bool,
    /// How long the ranks wait for the next node manager. Ranks of jobs that are to be queued again
    /// wait only as long as their leases.
    pub node_return: Duration,
    /// Partitions at the start. The nodes are divided among them in order.
    pub partitions: u32,
    /// The policy of every partition.
    pub sched: String,
    /// The policies that there are.
    pub policies: Registry,
    /// The quantum.
    pub quantum: Duration,
    /// Most rows of the matrix.
    pub mpl: u32,
    /// The manager acts only at multiples of this time. `None`: it acts at once.
    pub act_every: Option<Duration>,
    /// The time span whose slices one strobe orders. If zero, each slice has its own strobe.
    pub strobe_span: Duration,
    /// The rules by which flexible coscheduling judges processes.
    pub class_rules: ClassRules,
    /// Every node must handle a heartbeat at least this often.
    pub heartbeat_interval: Duration,
    /// Bytes of a chunk of a file.
    pub chunk_bytes: u32,
    /// Chunks under way.
    pub chunk_slots: u32,
    /// The network between the daemons.
    pub fabric: Rc<dyn Fabric>,
    /// The network between the ranks.
    pub messages: MessageCosts,
    /// The hosts.
    pub hosts: Rc<dyn Hosts>,
    /// Check the invariants at every step.
    pub checks: bool,
    /// Keep a trace.
    pub traces: bool,
    /// A defect of the daemons, for tests of the invariants; otherwise `None`.
    pub defect: Option<Rc<dyn Defect>>,
}

/// A job that a machine is asked to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRequest {
    /// The name.
    pub name: String,
    /// Ranks.
    pub procs: u32,
    /// The length of the job's program, which is sent to its nodes. 0 if the program is already
    /// there.
    pub binary_bytes: u64,
    /// The partition; the first of the configuration when left out.
    pub partition: Option<String>,
    /// The application that its ranks run.
    pub application: Application,
    /// Run it again when its node dies.
    pub requeue: bool,
    /// PMI barriers that its ranks pass before and after the application.
    pub fences: u32,
}

impl std::fmt::Debug for MachineConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MachineConfig { seed, nodes, pes, .. } = self;
        write!(f, "MachineConfig({nodes} nodes of {pes} elements, seed {seed})")
    }
}

impl MachineConfig {
    pub(crate) fn check(&self) -> Result<(), MachineError> {
        let all = self.nodes.saturating_add(self.spare_nodes);
        if self.nodes == 0 || all > NODES_MAX {
            return Err(MachineError::Nodes { nodes: all });
        }
        if !(1..=self.nodes).contains(&self.partitions) {
            let (partitions, nodes) = (self.partitions, self.nodes);
            return Err(MachineError::Partitions { partitions, nodes });
        }
        if !(1..=PES_MAX).contains(&self.pes) {
            return Err(MachineError::Pes { pes: self.pes });
        }
        self.class_rules.check()?;
        self.params().map(|_| ())
    }

    fn params(&self) -> Result<PolicyParams, MachineError> {
        Ok(PolicyParams {
            quantum_us: Quantum::try_from(self.quantum)?,
            mpl_limit: MplLimit::try_from(self.mpl)?,
            ..PolicyParams::default()
        })
    }

    pub(super) fn plan(&self) -> GlobalPlan {
        GlobalPlan::new(PlanConfig {
            max_nodes: self.all_nodes(),
            job_slots: JOB_SLOTS,
            heartbeat_slots: HEARTBEAT_SLOTS,
            heartbeat_bytes: HEARTBEAT_BYTES,
            report_slots: REPORT_SLOTS,
            report_bytes: REPORT_BYTES + REPORT_BYTES_PER_PE * self.pes,
            channels: CHANNELS,
            chunk_slots: self.chunk_slots,
            chunk_bytes: self.chunk_bytes,
            ..PlanConfig::default()
        })
    }

    /// All nodes, whether they are configured or not.
    pub(crate) fn all_nodes(&self) -> u32 {
        self.nodes + self.spare_nodes
    }

    /// The configuration at first.
    pub(crate) fn configuration(&self) -> Configuration {
        Configuration::even(self.nodes, self.pes, self.partitions)
    }

    /// The manager's configuration that follows from `configuration`.
    pub(crate) fn core(&self, configuration: &Configuration) -> CoreConfig {
        let node = |entry: &ConfiguredNode| NodeConfig::new(name_of(entry.node), entry.pes);
        let partition = |(index, one): (usize, &ConfiguredPartition)| PartitionConfig {
            name: one.name.clone(),
            nodes: one.nodes.iter().filter_map(|node| configuration.index_of(*node)).collect(),
            sched: self.sched.clone(),
            // The parameters were checked before the machine was started.
            params: self.params().unwrap_or_default(),
            default: index == 0,
        };
        CoreConfig {
            cluster: "simulated".to_owned(),
            nodes: configuration.nodes.iter().map(node).collect(),
            partitions: configuration.partitions.iter().enumerate().map(partition).collect(),
            policies: self.policies.clone(),
            job_slots: JOB_SLOTS,
            heartbeat_bytes: HEARTBEAT_BYTES as usize,
            chunk_bytes: self.chunk_bytes,
            launch_timeout: storm_mm::DEFAULT_LAUNCH_TIMEOUT,
            recovery_timeout: storm_mm::DEFAULT_RECOVERY_TIMEOUT,
            requeue_fence: REQUEUE_FENCE,
            kill_grace: Duration::from_millis(100),
            strobe_span: self.strobe_span,
            history_limit: HISTORY,
            array_max: storm_mm::DEFAULT_ARRAY_MAX,
            user_jobs_max: storm_mm::DEFAULT_USER_JOBS_MAX,
            service: Default::default(),
            admin_uids: vec![crate::client::USER.uid],
            clients: None,
            origin: Timestamp::UNIX_EPOCH,
            user_name: Rc::new(|_| None),
        }
    }
}

pub(crate) fn name_of(node: NodeId) -> String {
    format!("n{}", node.0)
}

pub(crate) fn node_named(name: &str) -> Option<NodeId> {
    name.strip_prefix('n')?.parse().ok().map(NodeId)
}

impl JobRequest {
    /// The job as a client submits it; `application` is its number in the
    /// machine's table.
    pub(crate) fn spec(&self, application: usize) -> JobSpec {
        let program = match self.binary_bytes {
            0 => Program::OnNodes(format!("/bin/{}", self.name).as_str().into()),
            bytes => Program::Shipped(content::file(&self.name, bytes)),
        };
        let step = StepSpec {
            argv: vec![
                self.name.as_str().into(),
                application.to_string().as_str().into(),
                self.fences.to_string().as_str().into(),
            ],
            // The output is not read, and the streams of 65,536 ranks would cost memory.
            output: OutputSpec::Files { stdout: "/dev/null".into(), stderr: None },
            ..StepSpec::plain(&self.name, program.clone())
        };
        JobSpec {
            procs: self.procs,
            partition: self.partition.clone(),
            step,
            requeue: self.requeue,
            ..JobSpec::plain(&self.name, program)
        }
    }
}
