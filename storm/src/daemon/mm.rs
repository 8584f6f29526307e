//! The Machine Manager's main.

use super::file_sizes::allow_large_files;
use super::local_nodes::LocalNodes;
use super::remote_users::remote_clients;
use super::settings::Settings;
use super::socket_path::{let_in_all, make_way};
use super::user_database;
use super::{DaemonError, backend, descriptor, open_journal::open_journal, start_log};
use crate::cli::MmOptions;
use crate::config::{Idle, NetworkConfig, PlannedPartition};
use crate::event_loop::event_loop;
use crate::local_cluster::{LOG_NAME, Ready, check_unused, nodes_dir};
use nix::unistd::{getegid, geteuid};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::future::pending;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use storm_backend_tcp::{NameTable, Root, RootConfig, TcpPrimitives};
use storm_mm::api::{
    ApiError, Call, ClientId, ErrorCode, FromClient, ManagerRequest, Peer, RemoteClients,
    ReplySink, Server, ServerLimits, Spool, reply_channel,
};
use storm_mm::driver::{self, DriverConfig, DriverError};
use storm_mm::journal::{JournalError, RedbJournal};
use storm_mm::{Core, CoreConfig, NodeBook, SpoolContents};
use storm_nm::live::{let_go_at_rest, let_go_of_text};
use storm_primitives::{Primitives, Runtime};
use storm_rm::GlobalPlan;
use storm_rm::message::ClientsAddress;
use storm_sched::PolicyParams;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{LocalSet, spawn_local};

/// Most requests of clients that wait for the core.
const WAITING_CALLS: usize = 1024;
/// Descriptors of the links to a node of the tree.
const LANES: u64 = 2;
/// Each user who follows a job is a client, so fewer clients than these are too few for a cluster.
const FEW_CLIENTS: u64 = 64;
/// Largest reply to a request of our own, in bytes.
const OWN_REPLY_BYTES: usize = 64 << 10;

/// Runs a Machine Manager until it is ordered to end. On SIGTERM and SIGINT, the manager of a
/// configured cluster leaves the jobs running; the manager of a local cluster ends the cluster.
pub(crate) fn run_mm(options: MmOptions) -> Result<(), DaemonError> {
    start_log();
    allow_large_files();
    let adopt = |number| {
        descriptor::adopt(number)
            .map_err(|source| DaemonError::System { what: "an inherited descriptor", source })
    };
    let lifeline = options.lifeline_fd.map(adopt).transpose()?;
    let ready = options.ready_fd.map(adopt).transpose()?;
    open_all_descriptors();
    let settings = match Settings::read(&options) {
        Ok(settings) => settings,
        Err(error) => return Err(refuse(ready, error)),
    };
    if let Some(local) = &settings.local
        && let Err(source) = check_unused(&local.runtime_dir)
    {
        let path = local.runtime_dir.clone();
        return Err(refuse(ready, DaemonError::NotEmpty { path, source }));
    }
    if let Err(refused) = storm_pl::realtime::become_realtime(storm_pl::realtime::DEFAULT_PRIORITY)
    {
        tracing::warn!(%refused, "strobes are issued by an ordinary thread");
    }
    let runtime =
        event_loop().map_err(|source| DaemonError::System { what: "the event loop", source })?;
    let outcome = LocalSet::new().block_on(&runtime, serve(&settings, lifeline, ready));
    runtime.shutdown_background();
    if let Some(local) = &settings.local {
        match &outcome {
            // The directory belongs to another manager, which was first.
            Err(
                DaemonError::Running { .. }
                | DaemonError::Journal { source: JournalError::InUse(_), .. },
            ) => {}
            // The message that a kept cluster has died refers to the log, so the log stays. The
            // owner of an embedded cluster removes the directory.
            Err(DaemonError::Driver(_)) => remove_all_but_log(&local.runtime_dir),
            Ok(()) | Err(_) => remove_local(&local.runtime_dir),
        }
    }
    outcome
}

/// Reports to the process that waits for the start that it has failed.
fn refuse(ready: Option<OwnedFd>, error: DaemonError) -> DaemonError {
    if let Some(ready) = ready {
        let causes: Vec<String> =
            std::iter::successors(std::error::Error::source(&error), |source| source.source())
                .map(ToString::to_string)
                .collect();
        let mut refusal = ApiError::new(ErrorCode::Internal, error.to_string());
        if !causes.is_empty() {
            refusal = refusal.why(causes.join(": "));
        }
        if let Some(hint) = error.hint() {
            refusal = refusal.hint(hint);
        }
        // Perhaps nobody waits any more.
        let _ = Ready::Failed { error: refusal }.tell(ready);
    }
    error
}

/// Warns if clients will soon be refused because this process may open few descriptors.
fn warn_of_few_descriptors(limits: &ServerLimits, network: &NetworkConfig) {
    // The lowest free descriptor has the number of those that are open.
    let Ok(next) = fs::File::open("/dev/null") else { return };
    let open = u64::try_from(next.as_raw_fd()).unwrap_or(0);
    let links = LANES.saturating_mul(network.fan_out.into());
    let clients = limits.ordinary_descriptors().saturating_sub(open.saturating_add(links));
    if clients < FEW_CLIENTS {
        tracing::warn!(
            limit = limits.descriptor_limit,
            clients,
            "the limit on open descriptors is low: with more clients at a time, others are refused; \
             raise its hard limit (ulimit -Hn, LimitNOFILE= of the unit)"
        );
    }
}

/// Raises the limit on descriptors to the maximum: each client and each node takes a descriptor.
fn open_all_descriptors() {
    if let Err(error) = storm_pl::DescriptorLimit::raise() {
        tracing::warn!(%error, "the limit on open descriptors stays as it is");
    }
}

async fn serve(
    settings: &Settings,
    lifeline: Option<OwnedFd>,
    ready: Option<OwnedFd>,
) -> Result<(), DaemonError> {
    let manager = match Manager::open(settings) {
        Ok(manager) => manager,
        Err(error) => return Err(refuse(ready, error)),
    };
    let Manager { root, plan, core, journal, spool, tells_sums, listener, remote } = manager;
    let primitives = root.handle();
    let (calls, waiting) = async_channel::bounded(WAITING_CALLS);
    let contents = SpoolContents::new(spool.clone(), settings.spool_bytes, tells_sums);
    let limits = settings.server_limits();
    warn_of_few_descriptors(&limits, &settings.network);
    let mut server = Server::new(spool, limits, calls.clone());
    if let Some((listener, clients)) = remote {
        announce_remote(&listener);
        server = server.with_remote_clients(listener, clients);
    }
    let config = DriverConfig {
        heartbeat_interval: settings.heartbeat,
        known_users: Some(learn_users(settings)),
        ..DriverConfig::default()
    };
    let driver = driver::run(primitives.clone(), plan, core, journal, contents, waiting, config);
    // Releases memory whether there are jobs or not: a manager does little for them.
    spawn_local(let_go_at_rest(|| false, let_go_of_text));
    let Some(local) = &settings.local else {
        announce_idle_settings(settings);
        announce(settings, &root, ready);
        drop(calls);
        let ended = serve_until_end(driver, server.serve(listener), lifeline).await;
        let _ = fs::remove_file(&settings.socket);
        return Ok(ended?);
    };
    let mut driver = Box::pin(driver);
    let serving = spawn_local(server.serve(listener));
    let ender = spawn_local(shut_down_when_asked(lifeline, calls.clone()));
    let start = start_local(settings, local, &root, &primitives, &calls, ready);
    let nodes = tokio::select! {
        ended = &mut driver => return Ok(ended?),
        started = start => started?,
    };
    let ended = driver.await;
    ender.abort();
    drop(calls);
    // The last replies are on their way.
    let _ = serving.await;
    drop(root);
    nodes.leave().await;
    let _ = fs::remove_file(&settings.socket);
    Ok(ended?)
}

/// Users that are unknown to the host now, each sent once the host's user database has it.
fn learn_users(settings: &Settings) -> async_channel::Receiver<(String, u32)> {
    let unknown = settings.plan.service.unknown_users.iter().map(|user| user.name.clone());
    let names: BTreeSet<String> = unknown.collect();
    let (known, learned) = async_channel::bounded(WAITING_CALLS);
    spawn_local(user_database::ask_again(names.into_iter().collect(), known));
    learned
}

/// Serves the clients of a configured cluster until a shutdown, a request to end this manager, or a
/// failure. Clients are answered at the end only on a shutdown. Otherwise the jobs continue, and no
/// client may receive an error that its job got no answer.
async fn serve_until_end(
    driver: impl Future<Output = Result<(), DriverError>>,
    serving: impl Future<Output = ()>,
    lifeline: Option<OwnedFd>,
) -> Result<(), DriverError> {
    let mut driver = Box::pin(driver);
    let mut serving = Box::pin(serving);
    let mut served = false;
    let ended = tokio::select! {
        ended = &mut driver => Some(ended),
        () = asked_to_end(lifeline) => None,
        // The driver, which takes the calls, is about to end as well.
        () = async { serving.as_mut().await; served = true; pending().await } => None,
    };
    match ended {
        Some(Ok(())) => {
            if !served {
                // The last replies are on their way.
                serving.await;
            }
            Ok(())
        }
        Some(Err(_)) | None => {
            tracing::info!("ending; the jobs go on, and the next manager finds them");
            // Dropped before the driver, and before its connections have another turn.
            drop(serving);
            ended.unwrap_or(Ok(()))
        }
    }
}

/// The open resources of a manager.
struct Manager {
    root: Root,
    plan: GlobalPlan,
    core: Core,
    journal: RedbJournal,
    spool: Spool,
    /// Nobody can change the data on the way to nodes; RDMA encrypts nothing.
    tells_sums: bool,
    listener: UnixListener,
    remote: Option<(TcpListener, RemoteClients)>,
}

impl Manager {
    fn open(settings: &Settings) -> Result<Manager, DaemonError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| DaemonError::Path { path, source }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(&settings.state_dir)
            .map_err(at(&settings.state_dir))?;
        let (journal, entries) = open_journal(settings)?;
        let names = || settings.plan.nodes.iter().map(|node| node.name.as_str());
        let book = NodeBook::of(&entries, names())?;
        let plan = GlobalPlan::new(settings.global_plan(&book));
        let ids = names().filter_map(|name| Some((name, book.id(name)?)));
        let mut config =
            RootConfig::new(settings.listen, plan.layout.clone(), NameTable::numbered(ids));
        config.plan = plan.config.encode();
        config.cluster.clone_from(&settings.cluster);
        config.trust.clone_from(&settings.trust);
        config.fanout = settings.network.fan_out;
        let opened =
            backend::open(&settings.backend, settings.listen.ip(), Some(settings.multicast))?;
        config.fabric = opened.map(|opened| opened.fabric);
        config.patience.stall_timeout = settings.node_dead / 2;
        config.patience.ping_timeout = settings.node_dead / 2;
        config.patience.hang_timeout = settings.node_hung;
        let listen = settings.listen;
        let tells_sums = config.fabric.is_none();
        let root = Root::bind(config).map_err(|source| DaemonError::Listen { listen, source })?;
        let now = root.handle().runtime().now();
        let remote = remote_clients(settings)?;
        let clients = remote.as_ref().and_then(|(listener, _)| listener.local_addr().ok());
        let (job_slots, clients) = (plan.config.job_slots, clients.map(ClientsAddress::from));
        let core_config = CoreConfig { job_slots, clients, ..settings.core_config(now) };
        let mut core = Core::new(core_config, entries, now)?;
        let spool = open_spool(settings)?;
        let needed = core.needed_contents();
        let missing =
            needed.into_iter().filter(|(uid, hash)| spool.size_bytes(*uid, hash).is_none());
        core.contents_missing(now, &missing.collect());
        let listener = listen_for_clients(settings).map_err(at(&settings.socket))?;
        Ok(Manager { root, plan, core, journal, spool, tells_sums, listener, remote })
    }
}

fn open_spool(settings: &Settings) -> Result<Spool, DaemonError> {
    let path = settings.state_dir.join("spool");
    Spool::open_directory(path.clone(), Spool::DEFAULT_FILE_LIMIT_BYTES)
        .map_err(|source| DaemonError::Path { path, source })
}

/// Every local user may connect, since the kernel identifies the user. Replaces a socket that a
/// dead manager left.
fn listen_for_clients(settings: &Settings) -> io::Result<UnixListener> {
    let socket = &settings.socket;
    make_way(socket)?;
    let listener = UnixListener::bind(socket)?;
    let_in_all(socket)?;
    Ok(listener)
}

fn announce_remote(listener: &TcpListener) {
    match listener.local_addr() {
        Ok(clients) => tracing::info!(%clients, "users of other hosts are let in"),
        Err(error) => tracing::warn!(%error, "users of other hosts cannot connect"),
    }
}

fn announce(settings: &Settings, root: &Root, ready: Option<OwnedFd>) {
    if settings.trust.is_none() {
        tracing::warn!(
            "no cluster key: every user of this host can pose as a node; run `storm key new` and \
             set key-file in [security]"
        );
    }
    if settings.trust.is_some() && settings.clients.is_none() && settings.local.is_none() {
        tracing::info!(
            "users of other hosts and in jobs there cannot connect: `listen` in [clients] is not set"
        );
    }
    tracing::info!(
        cluster = %settings.cluster,
        nodes = settings.plan.nodes.len(),
        listen = %root.local_addr(),
        socket = %settings.socket.display(),
        "the Machine Manager is up"
    );
    if let Some(ready) = ready {
        let nodes = settings.plan.nodes.len() as u32;
        let pes = settings.local.as_ref().map_or(0, |local| local.pes);
        let up = Ready::Ready { socket: settings.socket.clone(), nodes, pes };
        // Perhaps nobody waits any more.
        let _ = up.tell(ready);
    }
}

/// Logs settings that a partition's policy has no use for. The settings stay in the configuration
/// for another policy, but the administrator may have meant another policy now.
fn announce_idle_settings(settings: &Settings) {
    let defaults = PolicyParams::default();
    for PlannedPartition { name, sched, params, .. } in &settings.plan.partitions {
        let Some(idle) = Idle::under(sched) else { continue };
        let given = [
            ("mpl-limit", idle.mpl_limit && params.mpl_limit != defaults.mpl_limit),
            ("quantum", idle.quantum && params.quantum_us != defaults.quantum_us),
        ];
        for (setting, _) in given.iter().filter(|(_, in_vain)| *in_vain) {
            tracing::warn!(partition = %name, %sched, "{setting} has no effect under this policy");
        }
    }
}

async fn start_local(
    settings: &Settings,
    local: &super::settings::LocalCluster,
    root: &Root,
    primitives: &TcpPrimitives,
    calls: &async_channel::Sender<FromClient>,
    ready: Option<OwnedFd>,
) -> Result<LocalNodes, DaemonError> {
    let started = LocalNodes::start(local, root.local_addr(), &settings.cluster);
    let joined = match started {
        Ok(mut nodes) => match nodes.joined(primitives.membership()).await {
            Ok(()) => all_up(calls, primitives, local.nodes).await.map(|()| nodes),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    match joined {
        Ok(nodes) => {
            announce(settings, root, ready);
            Ok(nodes)
        }
        Err(error) => Err(refuse(ready, error)),
    }
}

/// Waits until the core counts every node as up, so each node has reported its properties.
async fn all_up(
    calls: &async_channel::Sender<FromClient>,
    primitives: &TcpPrimitives,
    nodes: u32,
) -> Result<(), DaemonError> {
    /// Pause between two checks; the nodes take about as long.
    const POLL: std::time::Duration = std::time::Duration::from_millis(2);
    /// Most checks: 20 s in total.
    const POLLS: u32 = 10_000;
    let mut up = 0;
    for _ in 0..POLLS {
        if let Some(storm_mm::api::Reply::Status { status }) =
            ask(calls, ManagerRequest::Status).await
        {
            up = status.nodes_up;
        }
        if up >= nodes {
            return Ok(());
        }
        primitives.runtime().sleep(POLL).await;
    }
    Err(DaemonError::NodesLate { joined: up as usize, nodes })
}

/// Ends the cluster on request.
async fn shut_down_when_asked(lifeline: Option<OwnedFd>, calls: async_channel::Sender<FromClient>) {
    asked_to_end(lifeline).await;
    ask(&calls, ManagerRequest::Shutdown).await;
}

/// Waits for SIGTERM, SIGINT, or the end of the lifeline.
async fn asked_to_end(lifeline: Option<OwnedFd>) {
    let (Ok(mut term), Ok(mut int)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be received");
        return std::future::pending().await;
    };
    let cut = async {
        match lifeline {
            Some(lifeline) => {
                // A lifeline that cannot be read counts as cut.
                let _ = descriptor::cut(lifeline).await;
            }
            None => pending().await,
        }
    };
    tokio::select! {
        _ = term.recv() => tracing::info!("asked to end by SIGTERM"),
        _ = int.recv() => tracing::info!("asked to end by SIGINT"),
        () = cut => tracing::info!("the owner of this cluster is gone"),
    }
}

/// Sends a request of our own to the core.
async fn ask(
    calls: &async_channel::Sender<FromClient>,
    request: ManagerRequest,
) -> Option<storm_mm::api::Reply> {
    let peer = {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        Peer { uid, gid, pid: std::process::id() as i32, by_door: false }
    };
    let answers = reply_channel(OWN_REPLY_BYTES);
    let replies: ReplySink = answers.sink(1, false);
    let call = Call { peer, client: ClientId::MANAGER, request, replies };
    calls.send(FromClient::Call(call)).await.ok()?;
    answers.next().await.map(|line| line.reply)
}

/// Removes a local cluster's files, all inside the directory that it was given for its own.
fn remove_local(directory: &Path) {
    if let Err(error) = nodes_dir::remove(directory)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(directory = %directory.display(), %error, "not removed");
    }
}

/// Removes all but the log of a kept cluster that failed. The record names the log; `storm down`
/// and `storm up` remove both.
fn remove_all_but_log(directory: &Path) {
    nodes_dir::clear(directory);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = match entry.file_name() {
            name if name == LOG_NAME => Ok(()),
            _ if is_directory => storm_pl::remove_tree(&entry.path()),
            _ => fs::remove_file(entry.path()),
        };
        if let Err(error) = removed {
            tracing::warn!(path = %entry.path().display(), %error, "not removed");
        }
    }
}
