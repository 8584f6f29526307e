//! The Node Manager's main.

use super::file_sizes::allow_large_files;
use super::relay::{self, News, Relay};
use super::settings::{LOCAL_LEASE, ROOT_TIMEOUT, plan_config};
use super::work_dir::WorkDir;
use super::{DaemonError, backend, start_log};
use crate::cli::{BackendOptions, NmOptions, NodeAddress};
use crate::config::{MAX_PES, MmConfig, NetworkConfig, SecurityConfig, TimeoutConfig};
use crate::local_cluster::memory_directory;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use storm_backend_tcp::fabric::Fabric;
use storm_backend_tcp::{Adopt, JoinError, Node, NodeConfig, TcpPrimitives};
use storm_nm::classes::ClassRules;
use storm_nm::live::{
    Departure, LiveConfig, PmixStarter, ScriptCommands, ServeError, serve, start_keeper,
};
use storm_nm::{ExitReason, Life, NmExit};
use storm_rm::{GlobalPlan, PlanConfig};
use storm_session::Trust;
use storm_slurm::Verb;
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_local;

/// Marks a Node Manager that had joined before: it waits for its manager's return without a
/// time limit in practice.
const REJOIN: &str = "STORM_NM_REJOIN";
/// Shorter periods cost more than they gain (Nagar et al., SPAA 1999).
const SHORTEST_BOOST_PERIOD: Duration = Duration::from_millis(1);
/// How long a node waits for a manager that it had joined.
const REJOIN_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Longest time from SIGTERM until the link is closed. The hand-over itself has a shorter bound.
const DEPARTURE_MAX: Duration = Duration::from_secs(4);

/// Runs a Node Manager until it is ordered to end.
pub(crate) fn run_nm(options: NmOptions) -> Result<(), DaemonError> {
    start_log();
    allow_large_files();
    if options.parent.is_some_and(|parent| !lives_with(parent)) {
        return Ok(());
    }
    let (root, address) = addresses(&options.mm)?;
    let SharedSettings { cluster, network, nodes, timeouts, class_rules, cache_bytes } =
        shared_settings(&options)?;
    let security = security(&options)?;
    check_reach(&options, root, &security)?;
    let above = options.work_dir.clone().unwrap_or_else(memory_directory);
    let work_dir = WorkDir::make(&above, &options.name, &cluster)?;
    let mut config = live_config(&options, cluster.clone(), address, &work_dir);
    config.class_rules = class_rules;
    config.cache_bytes = options.cache_bytes.or(cache_bytes);
    let heartbeat_bytes = Arc::new(AtomicU32::new(network.heartbeat_bytes));
    config.pmix = pmix_starter(&heartbeat_bytes);
    config.script_commands = script_commands();
    let once = options.once;
    keep_jobs(&mut config, &timeouts, once);
    let keeper = start_keeper(&config)?;
    let relay = relay::of_node(&options, security.trust()?, work_dir.path(), (root, address));
    config.relay = relay.as_ref().map(|relay| relay.for_jobs(root, options.clients.is_some()));
    let asked_to_end = config.asked_to_end.clone();
    let network_variables = config.network_variables.clone();
    let departure = Departing { by: config.departure.clone(), ends_jobs: config.ends_jobs.clone() };
    watch_for_end(&asked_to_end, &config.ends_jobs)?;
    let plan = GlobalPlan::new(plan_config(&network, nodes));
    let present = Rc::new(RefCell::new(plan.clone()));
    let mut joins_again = std::env::var_os(REJOIN).is_some() || keeper.has_jobs();
    let join = async || {
        let listen = listen_address(&options, address)?;
        let layout = present.borrow().layout.clone();
        let mut node = NodeConfig::new(root, options.name.clone(), listen, layout);
        node.adopt = adopt(&present);
        // The node was in the cluster, so whatever refuses it now may be temporary.
        node.persist = joins_again;
        node.cluster.clone_from(&cluster);
        // Read anew in each incarnation, since the key may have been replaced.
        node.trust = security.trust().map_err(io::Error::other)?;
        tell_keys(relay.as_ref(), node.trust.as_ref());
        node.await_key = joins_again;
        node.root_timeout = ROOT_TIMEOUT;
        let tried = if joins_again { REJOIN_TIMEOUT } else { options.join_timeout };
        node.join_timeout = tried;
        joins_again = true;
        node.fabric = open_network(&options.network, listen.ip(), &network_variables)?;
        node.follows = node.fabric.is_some() && backend::may_follow(&options.network);
        // From now on `ends` receives signals. The flag has earlier signals, which arrived between
        // two incarnations of this node.
        let ends = Ends::hear()?;
        let joined = match asked_to_end.load(Ordering::Relaxed) {
            true => Err(asked_before()),
            false => {
                let leaving = (ends, departure.clone());
                join_cluster(&options.network, node, &network_variables, leaving).await
            }
        };
        let primitives = joined.map_err(|error| JoinFailed::of(error, &options.mm, tried))?;
        let plan = present.borrow().clone();
        heartbeat_bytes.store(plan.config.heartbeat_bytes, Ordering::Relaxed);
        Ok::<_, JoinFailed>(Life { primitives, plan: Some(plan) })
    };
    let exit = serve::<TcpPrimitives, _, _>(keeper, config, plan, join);
    // The directory is empty then, and the next incarnation makes a new one.
    drop(relay);
    drop(work_dir);
    end(exit, once, asked_to_end.load(Ordering::Relaxed))
}

/// Sends the node's relay the keys of the node, which may have been replaced.
fn tell_keys(relay: Option<&Relay>, trust: Option<&Trust>) {
    if let (Some(relay), Some(trust)) = (relay, trust) {
        relay.tell(News::Trust(trust.clone()));
    }
}

/// The address of the manager, and the own address on the way there.
fn addresses(mm: &NodeAddress) -> Result<(SocketAddr, IpAddr), DaemonError> {
    let unresolved = |source| DaemonError::Resolve { address: mm.as_str().to_owned(), source };
    let root = mm.resolve().map_err(unresolved)?;
    let own = own_address(root)
        .map_err(|source| DaemonError::System { what: "a route to the manager", source })?;
    Ok((root, own))
}

/// The options of this node as a configuration.
fn live_config(
    options: &NmOptions,
    cluster: String,
    address: IpAddr,
    work_dir: &WorkDir,
) -> LiveConfig {
    let (name, directory) = (options.name.clone(), work_dir.path().to_owned());
    let pes = options.pes.unwrap_or_else(|| processors().min(MAX_PES));
    let pes = u16::try_from(pes).unwrap_or(u16::MAX);
    let mut config = LiveConfig::new(cluster, name, pes, address.to_string(), directory);
    config.switch_log =
        options.switch_log.as_ref().map(|dir| dir.join(format!("{}.csv", options.name)));
    config.boost_period = options.boost_period.max(SHORTEST_BOOST_PERIOD);
    config
}

/// Makes the kernel end this process with its parent. Returns whether the parent is still there.
fn lives_with(parent: i32) -> bool {
    let asked = set_pdeathsig(Signal::SIGTERM);
    // The parent may have ended before the call.
    asked.is_ok() && getppid().as_raw() == parent
}

/// Sets how long jobs are kept without a manager.
fn keep_jobs(config: &mut LiveConfig, timeouts: &TimeoutConfig, once: bool) {
    config.nm.manager_lost = timeouts.manager_lost();
    config.nm.requeue_fence = timeouts.requeue_fence();
    config.nm.lease = timeouts.lease();
    config.nm.node_return = timeouts.node_return();
    if once {
        // A cluster for a single job needs a single place for it per node at the start.
        config.pads = 1;
        // The owner ends with the manager, and nobody needs the job any more.
        config.nm.manager_lost = Duration::ZERO;
        config.nm.lease = LOCAL_LEASE;
        config.nm.node_return = Duration::ZERO;
    }
}

/// Starts ranks under PMIx. Without a PMIx starter, jobs under PMIx end with a message that gives
/// this reason.
fn pmix_starter(heartbeat_bytes: &Arc<AtomicU32>) -> Option<PmixStarter> {
    let program = std::env::current_exe().ok()?;
    Some(PmixStarter { program, heartbeat_bytes: heartbeat_bytes.clone() })
}

/// Slurm's commands for scripts: this program by their names.
fn script_commands() -> Option<ScriptCommands> {
    let program = std::env::current_exe().ok()?;
    Some(ScriptCommands { program, names: Verb::ALL.iter().map(|verb| verb.name()).collect() })
}

/// Replaces the present plan of memory if the manager's differs.
fn adopt(present: &Rc<RefCell<GlobalPlan>>) -> Adopt {
    let present = present.clone();
    Adopt::new(move |sizes| {
        let plan = GlobalPlan::new(PlanConfig::decode(sizes)?);
        let layout = plan.layout.clone();
        present.replace(plan);
        Some(layout)
    })
}

/// The address and port where the node listens.
fn listen_address(options: &NmOptions, address: IpAddr) -> io::Result<SocketAddr> {
    let chosen = options.listen.as_ref().map(NodeAddress::resolve).transpose()?;
    Ok(chosen.unwrap_or(SocketAddr::new(address, 0)))
}

/// The result of the process, which was asked to end or not.
fn end(exit: Result<NmExit, ServeError>, once: bool, asked: bool) -> Result<(), DaemonError> {
    match exit {
        Err(ServeError::Join(_)) if asked => Ok(()),
        exit => after(&exit?.reason, once || asked),
    }
}

/// The result of the process. If `ends` is true, there is no further incarnation.
fn after(reason: &ExitReason, ends: bool) -> Result<(), DaemonError> {
    match reason {
        ExitReason::Shutdown | ExitReason::AskedToEnd => Ok(()),
        ExitReason::Disconnected if ends => Ok(()),
        ExitReason::Disconnected => Err(start_again()),
        ExitReason::TooFewPes { offered, configured } => {
            Err(DaemonError::TooFewPes { offered: *offered, configured: *configured })
        }
        reason => Err(DaemonError::NodeStopped { reason: reason.to_string() }),
    }
}

/// Sets `asked` as soon as a signal orders this Node Manager to end, even while it is busy. SIGINT
/// sets `ends_jobs` as well.
fn watch_for_end(asked: &Arc<AtomicBool>, ends_jobs: &Arc<AtomicBool>) -> Result<(), DaemonError> {
    let flags = [(Signal::SIGINT, ends_jobs), (Signal::SIGTERM, asked), (Signal::SIGINT, asked)];
    for (signal, flag) in flags {
        signal_hook::flag::register(signal as i32, flag.clone())
            .map_err(|source| DaemonError::System { what: "the watch for signals", source })?;
    }
    Ok(())
}

/// The signals that order a Node Manager to end.
struct Ends {
    term: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
}

impl Ends {
    /// Receives the signals from now on.
    fn hear() -> io::Result<Ends> {
        let [term, int] = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        Ok(Ends { term: term?, int: int? })
    }

    /// Waits for a signal, and logs it.
    async fn come(&mut self) {
        tokio::select! {
            _ = self.term.recv() => tracing::info!("asked to end by SIGTERM"),
            _ = self.int.recv() => tracing::info!("asked to end by SIGINT"),
        }
    }
}

/// Events to wait for before the link is closed.
#[derive(Clone)]
struct Departing {
    by: Arc<Departure>,
    ends_jobs: Arc<AtomicBool>,
}

impl Departing {
    /// Lets the Node Manager hand over its jobs, if they are to continue.
    async fn prepare(&self) {
        if !self.ends_jobs.load(Ordering::Relaxed) {
            // A node that has no link at this moment does not answer.
            let _ = tokio::time::timeout(DEPARTURE_MAX, self.by.ask()).await;
        }
    }
}

/// Variables for ranks, by name.
type Variables = Mutex<Vec<(&'static str, String)>>;

/// Gives ranks the RDMA device of this node's network in their environment; `None` is TCP.
fn tell_ranks(variables: &Variables, device: Option<String>) {
    let told = device.map(|device| (storm_nm::RDMA_DEVICE_VARIABLE, device));
    *variables.lock().unwrap_or_else(PoisonError::into_inner) = told.into_iter().collect();
}

/// Opens the network, and announces it to ranks.
fn open_network(
    network: &BackendOptions,
    address: IpAddr,
    variables: &Variables,
) -> io::Result<Option<Rc<dyn Fabric>>> {
    let opened = backend::open(network, address, None).map_err(io::Error::other)?;
    tell_ranks(variables, opened.as_ref().map(|opened| opened.device.clone()));
    Ok(opened.map(|opened| opened.fabric))
}

/// Joins, and leaves on a signal to end.
async fn join_cluster(
    network: &BackendOptions,
    config: NodeConfig,
    variables: &Variables,
    (mut ends, departure): (Ends, Departing),
) -> Result<TcpPrimitives, JoinError> {
    let name = config.name.clone();
    let joined = tokio::select! {
        joined = join_or_follow(network, config, variables) => joined?,
        () = ends.come() => return Err(interrupted()),
    };
    tracing::info!(node = %name, "joined the cluster");
    let leaving = joined.clone();
    spawn_local(async move {
        ends.come().await;
        tokio::select! {
            () = departure.prepare() => {}
            // A second signal does not wait.
            () = ends.come() => {}
        }
        leaving.shut_down();
    });
    Ok(joined)
}

/// Joins. If the manager is on another network and this node may choose, joins on that network.
async fn join_or_follow(
    network: &BackendOptions,
    config: NodeConfig,
    variables: &Variables,
) -> Result<TcpPrimitives, JoinError> {
    let on_tcp = NodeConfig { fabric: None, ..config.clone() };
    match Node::join(config).await {
        Err(refused) if backend::can_follow(network, &refused) => {
            tracing::info!("on TCP, as the manager is");
            tell_ranks(variables, None);
            Node::join(on_tcp).await
        }
        joined => joined,
    }
}

/// Why this node did not join the cluster.
#[derive(Debug, Error)]
pub(super) enum JoinFailed {
    #[error(
        "the Machine Manager at {address} cannot be reached; it was tried for {} s", tried.as_secs()
    )]
    Unreached { address: String, tried: Duration, source: io::Error },
    #[error("the Machine Manager at {address} does not let this node in")]
    NotLetIn { address: String, source: JoinError },
    #[error("this node cannot connect to a cluster")]
    Here(#[from] io::Error),
}

impl JoinFailed {
    fn of(error: JoinError, mm: &NodeAddress, tried: Duration) -> JoinFailed {
        let address = mm.as_str().to_owned();
        match error {
            JoinError::Io(error) if is_of_this_host(&error) => JoinFailed::Here(error),
            JoinError::Io(source) => JoinFailed::Unreached { address, tried, source },
            source => JoinFailed::NotLetIn { address, source },
        }
    }
}

/// Whether the error is about the address on which this node listens.
fn is_of_this_host(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

/// The error if a signal arrived between two incarnations.
fn asked_before() -> JoinError {
    tracing::info!("asked to end by a signal");
    interrupted()
}

fn interrupted() -> JoinError {
    JoinError::Io(io::ErrorKind::Interrupted.into())
}

/// Starts this process anew after the loss of the manager, with fresh memory and a fresh keeper.
/// The new process waits for the manager's return. Returns only if the start fails.
fn start_again() -> DaemonError {
    tracing::warn!("cut off from the cluster; joining again");
    storm_pl::DescriptorLimit::restore();
    let error = match std::env::current_exe() {
        Ok(program) => {
            Command::new(program).args(std::env::args_os().skip(1)).env(REJOIN, "1").exec()
        }
        Err(error) => error,
    };
    DaemonError::System { what: "a new start", source: error }
}

/// The address by which this host reaches the manager. Sends nothing.
fn own_address(root: SocketAddr) -> io::Result<IpAddr> {
    let any: SocketAddr = match root {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(root)?;
    Ok(socket.local_addr()?.ip())
}

/// The settings of the configuration file that concern nodes.
struct SharedSettings {
    /// Must equal the manager's. Sizes and number of nodes are only a guess, which saves a
    /// question: the manager's values count.
    cluster: String,
    network: NetworkConfig,
    nodes: usize,
    /// How long jobs are kept without a manager.
    timeouts: TimeoutConfig,
    /// The rules by which ranks are classified.
    class_rules: ClassRules,
    /// Most bytes of the cache of files.
    cache_bytes: Option<u64>,
}

fn shared_settings(options: &NmOptions) -> Result<SharedSettings, DaemonError> {
    let Some(file) = &options.config else {
        return Ok(SharedSettings {
            cluster: options.cluster.clone(),
            network: NetworkConfig::default(),
            nodes: 0,
            timeouts: TimeoutConfig::default(),
            class_rules: ClassRules::default(),
            cache_bytes: None,
        });
    };
    let config = MmConfig::read(file)?;
    Ok(SharedSettings {
        nodes: config.plan()?.nodes.len(),
        cache_bytes: config.cache_bytes,
        cluster: config.cluster,
        network: config.network,
        timeouts: config.timeouts,
        class_rules: config.flexible.rules(),
    })
}

/// The keys of this node. Its own options take precedence over the file.
fn security(options: &NmOptions) -> Result<SecurityConfig, DaemonError> {
    match (&options.key, &options.config) {
        (None, Some(file)) => Ok(MmConfig::read(file)?.security),
        (key_file, _) => Ok(SecurityConfig {
            key_file: key_file.clone(),
            previous_key_file: options.previous_key.clone(),
        }),
    }
}

/// Without a key, the node serves this host only. Reports an unusable key at once.
fn check_reach(
    options: &NmOptions,
    root: SocketAddr,
    security: &SecurityConfig,
) -> Result<(), DaemonError> {
    if security.trust()?.is_some() {
        return Ok(());
    }
    let listen = options.listen.as_ref().and_then(|listen| listen.resolve().ok());
    let beyond = |addr: &SocketAddr| !addr.ip().to_canonical().is_loopback();
    match std::iter::once(root).chain(listen).find(beyond) {
        Some(address) => Err(DaemonError::KeyNeeded { address }),
        None => Ok(()),
    }
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_backend_tcp::Refusal;
    use storm_primitives::NodeId;

    #[test]
    fn a_node_refused_for_its_name_hears_of_the_other_node() {
        let refusal = Refusal::NameInUse { name: "n1".to_owned(), node: NodeId(1) };
        let address = "head:7117".to_owned();
        let failed = JoinFailed::NotLetIn { address, source: JoinError::Refused(refusal) };
        let hint = DaemonError::Serve(ServeError::Join(failed.into())).hint();
        assert!(hint.is_some_and(|hint| hint.contains("another Node Manager of this name")));
    }
}
