//! The settings of a Machine Manager, from a configuration file or from the options of a local
//! cluster.

use super::DaemonError;
use super::user_database::{self, UserNames};
use crate::cli::{BackendOptions, MmOptions, RdmaMulticast};
use crate::config::{
    ClusterPlan, DEFAULT_SPOOL_BYTES, MmConfig, NetworkConfig, PlannedPartition, Revoked,
    with_params,
};
use crate::local_cluster::{CLUSTER_NAME, SOCKET_NAME};
use nix::unistd::geteuid;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use storm_mm::api::ServerLimits;
use storm_mm::{CoreConfig, NodeBook, NodeConfig, PartitionConfig};
use storm_pl::DescriptorLimit;
use storm_primitives::Instant;
use storm_rm::{BcsConfig, PlanConfig};
use storm_sched::{PolicyParams, Quantum};
use storm_session::{ClusterKey, Trust};

/// Least number of nodes that a plan of global memory has room for. A cluster can grow up to here
/// without a change to its nodes.
const PLANNED_NODES: u32 = 1024;

/// A local Node Manager that is silent for this long is stopped. A dead one is noticed at once.
/// The time is long because all of them share the machine with their jobs.
const LOCAL_NODE_HUNG: Duration = Duration::from_secs(10);
/// Less than `LOCAL_NODE_HUNG` by the time of a kill. Jobs that are queued again at once after a
/// node's death must have ended on it before.
pub(super) const LOCAL_LEASE: Duration = Duration::from_secs(8);

/// A node that receives nothing from its manager for this long counts itself as cut off: ten of the
/// manager's keepalives.
pub(super) const ROOT_TIMEOUT: Duration = Duration::from_secs(10);
/// The latest time at which a lost node notices that it is lost: it checks eight times in that
/// time.
const NODE_NOTICES: Duration = ROOT_TIMEOUT.saturating_add(Duration::from_millis(1250));
/// How long killing ranks then takes on an overloaded host.
const NODE_KILLS: Duration = Duration::from_secs(1);

/// All settings of `storm mm`.
pub(super) struct Settings {
    pub(super) cluster: String,
    pub(super) listen: SocketAddr,
    /// The network for the lanes of the tree.
    pub(super) backend: BackendOptions,
    /// How large transfers reach many nodes on that network.
    pub(super) multicast: RdmaMulticast,
    pub(super) trust: Option<Trust>,
    pub(super) socket: PathBuf,
    pub(super) state_dir: PathBuf,
    pub(super) spool_bytes: u64,
    /// Number of ended jobs that are remembered.
    pub(super) history: usize,
    pub(super) strobe_span: Duration,
    array_max: u32,
    user_jobs_max: u32,
    pub(super) plan: ClusterPlan,
    pub(super) network: NetworkConfig,
    pub(super) heartbeat: Duration,
    pub(super) node_dead: Duration,
    pub(super) node_hung: Duration,
    pub(super) kill_grace: Duration,
    pub(super) recovery: Duration,
    /// How long a job that is to run again waits for a lost node.
    requeue_fence: Duration,
    admins: Vec<u32>,
    /// Where users on other hosts connect, and which users and keys are revoked.
    pub(super) clients: Option<(SocketAddr, Revoked)>,
    /// Set for a local cluster only.
    pub(super) local: Option<LocalCluster>,
}

/// A cluster whose nodes are processes of this machine.
pub(super) struct LocalCluster {
    pub(super) nodes: u32,
    pub(super) pes: u32,
    pub(super) runtime_dir: PathBuf,
    /// The cluster's own key, which exists as long as the cluster.
    pub(super) key: ClusterKey,
}

impl Settings {
    pub(super) fn read(options: &MmOptions) -> Result<Settings, DaemonError> {
        match (&options.config, options.local_nodes, &options.runtime_dir) {
            (None, Some(nodes), Some(dir)) => Settings::local(options, nodes, dir.clone()),
            (Some(file), ..) => {
                let config = MmConfig::read_with_users(file, user_database::look_up)?;
                config.warn_of_unknown_users(file);
                Settings::configured(options, config)
            }
            // The command line's parser rules both out.
            (None, ..) => Err(DaemonError::Plan(crate::config::ConfigProblem::NoNodes)),
        }
    }

    fn configured(options: &MmOptions, config: MmConfig) -> Result<Settings, DaemonError> {
        let revoked = config.clients.revoked()?;
        let clients = config.clients.listen.map(|listen| (listen, revoked));
        let (strobe_span, admins) = (config.strobe_span(), config.admin_uids());
        Ok(Settings {
            plan: config.plan()?,
            heartbeat: config.timeouts.heartbeat(),
            node_dead: config.timeouts.node_dead(),
            node_hung: config.timeouts.node_hung(),
            kill_grace: config.timeouts.kill_grace(),
            recovery: config.timeouts.recovery(),
            requeue_fence: NODE_NOTICES + config.timeouts.outlives_loss() + NODE_KILLS,
            cluster: config.cluster,
            listen: config.listen,
            backend: options.network.clone(),
            multicast: options.rdma_multicast,
            trust: config.security.trust()?,
            socket: config.socket,
            state_dir: config.state_dir,
            spool_bytes: config.spool_bytes,
            history: config.history,
            strobe_span,
            array_max: config.array_max,
            user_jobs_max: config.user_jobs_max,
            network: config.network,
            admins,
            clients,
            local: None,
        })
    }

    fn local(
        options: &MmOptions,
        nodes: u32,
        runtime_dir: PathBuf,
    ) -> Result<Settings, DaemonError> {
        // Each node may use all memory of this host. A request that no node could ever meet is
        // refused; whether the shared memory suffices is the user's business.
        let memory_bytes = Some(storm_nm::live::host_memory_mib() << 20).filter(|bytes| *bytes > 0);
        let planned = |index: u32| {
            let node = NodeConfig::new(format!("n{index}"), options.pes);
            NodeConfig { memory_bytes, ..node }
        };
        let timeouts = crate::config::TimeoutConfig::default();
        // A key is needed even here: any user of this machine can reach its loopback addresses.
        let key = ClusterKey::generate()
            .map_err(|source| DaemonError::System { what: "a key", source })?;
        Ok(Settings {
            cluster: format!("{CLUSTER_NAME}{}", std::process::id()),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            backend: options.network.clone(),
            multicast: options.rdma_multicast,
            trust: Some(Trust::new(key.clone())),
            socket: runtime_dir.join(SOCKET_NAME),
            state_dir: runtime_dir.clone(),
            spool_bytes: DEFAULT_SPOOL_BYTES,
            history: storm_mm::DEFAULT_HISTORY_LIMIT,
            strobe_span: storm_mm::DEFAULT_STROBE_SPAN,
            array_max: storm_mm::DEFAULT_ARRAY_MAX,
            user_jobs_max: storm_mm::DEFAULT_USER_JOBS_MAX,
            plan: ClusterPlan {
                nodes: (1..=nodes).map(planned).collect(),
                partitions: local_partitions(options, nodes as usize)?,
                service: storm_mm::ServiceConfig::default(),
            },
            network: NetworkConfig::default(),
            heartbeat: timeouts.heartbeat(),
            node_dead: timeouts.node_dead(),
            node_hung: LOCAL_NODE_HUNG,
            kill_grace: timeouts.kill_grace(),
            recovery: timeouts.recovery(),
            // Nodes of a local cluster end all jobs when they lose their manager.
            requeue_fence: Duration::ZERO,
            admins: Vec::new(),
            clients: None,
            local: Some(LocalCluster { nodes, pes: options.pes, runtime_dir, key }),
        })
    }

    /// Users who may end the cluster are admitted even when the server is full.
    pub(super) fn server_limits(&self) -> ServerLimits {
        let limit = DescriptorLimit::of_this_process();
        let usual = ServerLimits::default();
        // Each client has a descriptor. Half of them are kept for nodes and administrators.
        let clients = usual.clients.min(usize::try_from(limit.0 / 2).unwrap_or(usize::MAX));
        let descriptors = limit.usable();
        let trusted = self.trusted_uids();
        ServerLimits { trusted, clients, descriptors, descriptor_limit: limit.0, ..usual }
    }

    /// Root, the daemon's own user, and the administrators.
    fn trusted_uids(&self) -> Vec<u32> {
        let mut uids = vec![0, geteuid().as_raw()];
        uids.extend(&self.admins);
        uids
    }

    /// The sizes of global memory: room for the highest node id and for all jobs on the machine.
    pub(super) fn global_plan(&self, book: &NodeBook) -> PlanConfig {
        let plan = plan_config(&self.network, book.highest().index());
        PlanConfig { job_slots: plan.job_slots.max(book.live_jobs()), ..plan }
    }

    /// The core's configuration; `now` is the backend's clock at this moment.
    pub(super) fn core_config(&self, now: Instant) -> CoreConfig {
        let names = UserNames::of_host();
        let since = jiff::SignedDuration::try_from(now.since_origin()).unwrap_or_default();
        CoreConfig {
            cluster: self.cluster.clone(),
            nodes: self.plan.nodes.clone(),
            partitions: self.plan.partitions.iter().map(partition).collect(),
            policies: crate::config::policies().clone(),
            job_slots: self.network.job_slots,
            heartbeat_bytes: self.network.heartbeat_bytes as usize,
            chunk_bytes: self.network.chunk_bytes,
            kill_grace: self.kill_grace,
            launch_timeout: storm_mm::DEFAULT_LAUNCH_TIMEOUT,
            recovery_timeout: self.recovery,
            requeue_fence: self.requeue_fence,
            strobe_span: self.strobe_span,
            history_limit: self.history,
            array_max: self.array_max,
            user_jobs_max: self.user_jobs_max,
            service: self.plan.service.clone(),
            admin_uids: self.trusted_uids(),
            clients: None,
            origin: jiff::Timestamp::now().saturating_sub(since).unwrap_or_default(),
            user_name: Rc::new(move |uid| names.name(uid)),
        }
    }
}

/// While nodes are busy, the manager pauses between two questions for up to this part of its wait.
const PART_OF_WAIT: u32 = 16;

/// The sizes of global memory for this many nodes.
pub(super) fn plan_config(network: &NetworkConfig, nodes: usize) -> PlanConfig {
    let defaults = PlanConfig::default();
    PlanConfig {
        max_nodes: PLANNED_NODES.max(nodes as u32),
        job_slots: network.job_slots,
        heartbeat_bytes: network.heartbeat_bytes,
        channels: network.channels,
        chunk_slots: network.chunk_slots,
        chunk_bytes: network.chunk_bytes,
        part_of_wait: Some(PART_OF_WAIT),
        bcs: BcsConfig { link_bytes: u64::from(network.slice_link_bytes), ..defaults.bcs },
        ..defaults
    }
}

fn partition(planned: &PlannedPartition) -> PartitionConfig {
    PartitionConfig {
        name: planned.name.clone(),
        nodes: planned.nodes.clone(),
        sched: planned.sched.clone(),
        params: planned.params,
        default: planned.default,
    }
}

/// One partition per policy, named for it; the nodes are dealt out evenly.
fn local_partitions(
    options: &MmOptions,
    nodes: usize,
) -> Result<Vec<PlannedPartition>, DaemonError> {
    let count = options.partition_sched.len();
    let quantum_us = Quantum::try_from(options.quantum).map_err(|why| {
        crate::config::ConfigProblem::Quantum { key: "--quantum".to_owned(), why }
    })?;
    let params = PolicyParams { quantum_us, ..PolicyParams::default() };
    let params = with_params(params, &options.params)
        .map_err(|why| crate::config::ConfigProblem::Param { why })?;
    let planned = |(index, sched): (usize, &String)| PlannedPartition {
        name: sched.clone(),
        nodes: (index * nodes / count..(index + 1) * nodes / count).collect(),
        sched: sched.clone(),
        params,
        default: index == 0,
    };
    Ok(options.partition_sched.iter().enumerate().map(planned).collect())
}
