//! What a Machine Manager needs to know, from a configuration file or from the
//! options of a local cluster.

use super::DaemonError;
use super::user_database::{self, UserNames};
use crate::cli::{BackendOptions, MmOptions, RdmaMulticast};
use crate::config::{
    ClusterPlan, DEFAULT_SPOOL_BYTES, MmConfig, NetworkConfig, PlannedPartition, Revoked,
};
use crate::local_cluster::{CLUSTER_NAME, SOCKET_NAME};
use nix::unistd::geteuid;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use storm_mm::api::ServerLimits;
use storm_mm::{CoreConfig, NodeBook, NodeConfig, PartitionConfig};
use storm_primitives::Instant;
use storm_rm::{BcsConfig, PlanConfig};
use storm_sched::{PolicyParams, Quantum};
use storm_session::{ClusterKey, Trust};

/// Nodes that a plan of global memory has room for at least: a cluster can grow
/// up to here without a change to its nodes.
const PLANNED_NODES: u32 = 1024;

/// A Node Manager of this machine that says nothing for so long is stopped. One
/// that died is known at once, and all of them share the machine with their jobs.
const LOCAL_NODE_HUNG: Duration = Duration::from_secs(10);
/// Its jobs that are queued again at once when it is dead are ended before, and the kill takes its time.
pub(super) const LOCAL_LEASE: Duration = Duration::from_secs(8);

/// A node that hears nothing of its manager for so long knows that it is cut off: ten of
/// the manager's keepalives.
pub(super) const ROOT_TIMEOUT: Duration = Duration::from_secs(10);
/// By when a node that was lost knows it at the latest: it looks eight times in that time.
const NODE_NOTICES: Duration = ROOT_TIMEOUT.saturating_add(Duration::from_millis(1250));
/// How long it then takes to kill ranks, on an overrun host.
const NODE_KILLS: Duration = Duration::from_secs(1);

/// Everything that `storm mm` was told.
pub(super) struct Settings {
    pub(super) cluster: String,
    pub(super) listen: SocketAddr,
    /// What carries the lanes of the tree.
    pub(super) backend: BackendOptions,
    /// How large transfers reach many nodes on it.
    pub(super) multicast: RdmaMulticast,
    pub(super) trust: Option<Trust>,
    pub(super) socket: PathBuf,
    pub(super) state_dir: PathBuf,
    pub(super) spool_bytes: u64,
    /// Ended jobs that are remembered.
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
    /// How long a job that is to run again waits for a node that was lost.
    requeue_fence: Duration,
    admins: Vec<u32>,
    /// Where users on other hosts connect, and who may not.
    pub(super) clients: Option<(SocketAddr, Revoked)>,
    /// Of a local cluster.
    pub(super) local: Option<LocalCluster>,
}

/// A cluster whose nodes are processes of this machine.
pub(super) struct LocalCluster {
    pub(super) nodes: u32,
    pub(super) pes: u32,
    pub(super) runtime_dir: PathBuf,
    /// Its own, for as long as it lives.
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
            // The command line's parser lets neither come to pass.
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
        // Each node can have all that this host has: what no node could ever give is
        // refused, and who shares a host has to see that it is enough.
        let memory_bytes = Some(storm_nm::live::host_memory_mib() << 20).filter(|bytes| *bytes > 0);
        let planned = |index: u32| {
            let node = NodeConfig::new(format!("n{index}"), options.pes);
            NodeConfig { memory_bytes, ..node }
        };
        let timeouts = crate::config::TimeoutConfig::default();
        // Any user of this machine can reach its loopback addresses.
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
            // Their nodes end all jobs when they lose their manager.
            requeue_fence: Duration::ZERO,
            admins: Vec::new(),
            clients: None,
            local: Some(LocalCluster { nodes, pes: options.pes, runtime_dir, key }),
        })
    }

    /// Whoever may end the cluster gets in whoever else is there.
    pub(super) fn server_limits(&self) -> ServerLimits {
        ServerLimits { trusted: self.trusted_uids(), ..ServerLimits::default() }
    }

    /// Root, who runs the daemon, and the administrators.
    fn trusted_uids(&self) -> Vec<u32> {
        let mut uids = vec![0, geteuid().as_raw()];
        uids.extend(&self.admins);
        uids
    }

    /// The sizes of global memory: room for the highest id, and for the jobs that are on the machine.
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
            origin: jiff::Timestamp::now().saturating_sub(since).unwrap_or_default(),
            user_name: Rc::new(move |uid| names.name(uid)),
        }
    }
}

/// Between two questions whether nodes are done a manager pauses for up to this part of its wait.
const PART_OF_WAIT: u32 = 16;

/// The sizes of global memory for so many nodes.
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
    let planned = |(index, sched): (usize, &String)| PlannedPartition {
        name: sched.clone(),
        nodes: (index * nodes / count..(index + 1) * nodes / count).collect(),
        sched: sched.clone(),
        params,
        default: index == 0,
    };
    Ok(options.partition_sched.iter().enumerate().map(planned).collect())
}
