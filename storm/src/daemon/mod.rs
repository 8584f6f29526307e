//! The mains of the two daemons. The mains read the configuration, open the resources, and call the
//! daemons' crates.

mod backend;
mod descriptor;
mod file_sizes;
mod last_words;
mod local_nodes;
mod mm;
mod nm;
mod open_journal;
mod relay;
mod remote_users;
mod settings;
mod socket_path;
mod user_database;
mod work_dir;

pub(crate) use file_sizes::too_small_bytes;
pub(crate) use mm::run_mm;
pub(crate) use nm::run_nm;
pub(crate) use relay::run_relay;

use crate::config::{ConfigError, ConfigProblem};
use crate::failure::{EXIT_USAGE, Failure};
use crate::key_file::KeyFileError;
use last_words::LastWords;
use nix::libc;
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use storm_backend_tcp::{JoinError, Refusal};
use storm_mm::PartitionError;
use storm_mm::driver::DriverError;
use storm_mm::journal::JournalError;
use storm_nm::live::ServeError;
use storm_pl::DescriptorLimit;
use thiserror::Error;

/// Why a daemon did not start, or ended before its time.
#[derive(Debug, Error)]
pub(crate) enum DaemonError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the cluster cannot be planned")]
    Plan(#[from] ConfigProblem),
    #[error(transparent)]
    Key(#[from] KeyFileError),
    #[error("{address} is not a loopback address, and there is no cluster key")]
    KeyNeeded { address: std::net::SocketAddr },
    #[error("the policies cannot be set up")]
    Partition(#[from] PartitionError),
    #[error("the journal {} cannot be used", path.display())]
    Journal { path: PathBuf, source: JournalError },
    #[error("another manager (process {pid}) is running: it answers on {}", socket.display())]
    Running { socket: PathBuf, pid: i32 },
    #[error("{} cannot be used", path.display())]
    Path { path: PathBuf, source: io::Error },
    #[error("{} cannot become the directory of a cluster", path.display())]
    NotEmpty { path: PathBuf, source: io::Error },
    #[error("verbs cannot be used")]
    Verbs(#[from] storm_backend_verbs::VerbsError),
    #[error("cannot listen for nodes on {listen}")]
    Listen { listen: std::net::SocketAddr, source: io::Error },
    #[error("cannot listen for users of other hosts on {listen}")]
    ListenClients { listen: std::net::SocketAddr, source: io::Error },
    #[error("{what} cannot be set up")]
    System { what: &'static str, source: io::Error },
    #[error("the Node Manager of {node} ended before it joined")]
    NodeDied { node: String, source: LastWords },
    #[error("{joined} of {nodes} local nodes joined in time")]
    NodesLate { joined: usize, nodes: u32 },
    #[error("the Machine Manager stopped")]
    Driver(#[from] DriverError),
    #[error("the keeper of processes cannot be started")]
    Keeper(#[from] storm_pl::StartError),
    #[error("the Node Manager stopped")]
    Serve(#[from] ServeError),
    #[error("the Machine Manager's address {address} cannot be resolved")]
    Resolve { address: String, source: io::Error },
    #[error("the Node Manager stopped: {reason}")]
    NodeStopped { reason: String },
    #[error(
        "the Machine Manager refuses this node: it offers {offered} PEs, {configured} are configured"
    )]
    TooFewPes { offered: u32, configured: u32 },
    #[error("{} is not this Node Manager's own directory, but {what}", path.display())]
    NotOwn { path: PathBuf, what: String },
    #[error("another Node Manager works in {}", path.display())]
    InUse { path: PathBuf },
    #[error(
        "jobs of cluster {cluster} wait for its Node Manager in {} (their keeper is process {pid})",
        path.display()
    )]
    OtherCluster { path: PathBuf, cluster: String, pid: i32 },
}

impl DaemonError {
    /// Whether the error is an unknown policy: misuse, as in every other command.
    fn is_misuse(&self) -> bool {
        matches!(
            self,
            DaemonError::Config(ConfigError { problem: ConfigProblem::NoSuchPolicy { .. }, .. })
                | DaemonError::Plan(ConfigProblem::NoSuchPolicy { .. })
                | DaemonError::Partition(PartitionError::Policy { .. })
        )
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            DaemonError::NodeDied { .. } | DaemonError::NodesLate { .. }
                if few_files().is_some() =>
            {
                few_files().map(Cow::from)
            }
            DaemonError::System { source, .. } if source.raw_os_error() == Some(libc::EMFILE) => {
                few_files().map(Cow::from)
            }
            DaemonError::NodeDied { source, .. } => source.hint.clone().map(Cow::from),
            DaemonError::Journal { .. } if too_small_bytes().is_some() => Some(
                "the limit on file sizes (RLIMIT_FSIZE) is too small: `ulimit -f unlimited`".into(),
            ),
            other => other.fixed_hint().map(Cow::from),
        }
    }

    /// The hint that needs nothing of the error's own text.
    fn fixed_hint(&self) -> Option<&'static str> {
        match self {
            DaemonError::Config(ConfigError { problem: ConfigProblem::Read(_), .. }) => {
                Some("--config names the file; is the path right, and may you read it?")
            }
            DaemonError::Config(_) | DaemonError::Plan(_) | DaemonError::Partition(_) => {
                Some("correct the file; docs/user-guide.md lists its keys")
            }
            DaemonError::Listen { source, .. }
                if source.kind() == io::ErrorKind::AddrNotAvailable =>
            {
                Some(
                    "`listen` in the configuration names no address of this host: give one that `ip address` shows",
                )
            }
            DaemonError::Listen { .. } => {
                Some("is another manager running? `listen` in the configuration names the address")
            }
            DaemonError::ListenClients { .. } => Some(
                "set `listen` in [clients] to an address of this host other than the one for \
                 nodes",
            ),
            DaemonError::Verbs(_) => {
                Some("`storm nodes --fabric` lists the devices; --backend tcp needs none")
            }
            DaemonError::Journal { source, .. } => Some(journal_hint(source)),
            DaemonError::Running { .. } => Some(ONE_MANAGER),
            DaemonError::Driver(DriverError::Journal(_)) => Some(
                "is the file system of `state-dir` full? start it again when it can be written: \
                 the nodes keep the jobs meanwhile",
            ),
            DaemonError::NotEmpty { .. } => {
                Some("name a --runtime-dir that is empty or does not exist")
            }
            DaemonError::Path { .. } => Some("check that it exists and who may write to it"),
            DaemonError::Key(_) => Some("every daemon of a cluster needs the same key file"),
            DaemonError::KeyNeeded { .. } => {
                Some("give the cluster's key with --key; `storm key new` makes one")
            }
            DaemonError::Keeper(storm_pl::StartError::TooMany(_)) => {
                Some("start it again with that limit: its jobs go on for `node-return`")
            }
            DaemonError::Keeper(_) => Some("is a Node Manager of this name running here already?"),
            DaemonError::Serve(ServeError::Join(why)) => Some(join_hint(why.as_ref())),
            DaemonError::TooFewPes { .. } => Some(
                "--pes says how many this node offers (otherwise its processors count), `pes` in \
                 [[nodes]] of the manager's configuration how many are expected",
            ),
            DaemonError::NotOwn { .. } => {
                Some("remove it, or name another directory by --work-dir")
            }
            DaemonError::InUse { .. } => {
                Some("end it; if it is of another cluster, name another directory by --work-dir")
            }
            DaemonError::OtherCluster { .. } => Some(
                "is --cluster right? to give up those jobs end their keeper (`kill`), else name \
                 another directory by --work-dir",
            ),
            DaemonError::Serve(_) | DaemonError::Resolve { .. } => Some(CHECK_ALL),
            DaemonError::System { .. }
            | DaemonError::NodeDied { .. }
            | DaemonError::NodesLate { .. }
            | DaemonError::Driver(DriverError::Network(_))
            | DaemonError::NodeStopped { .. } => None,
        }
    }
}

/// The hint when a node could not join.
fn join_hint(why: &(dyn std::error::Error + Send + Sync + 'static)) -> &'static str {
    if is_unreached(why) {
        "is the manager up, and is that its address for nodes (`listen` in its configuration)? \
         --join-timeout waits longer for it"
    } else if is_name_in_use(why) {
        "another Node Manager of this name is in the cluster (`storm nodes` says on which host): \
         end it, or give this one the --name of another node"
    } else {
        CHECK_ALL
    }
}

/// The hint when a node cannot serve for a reason without a hint of its own.
const CHECK_ALL: &str =
    "check --mm, --cluster, --name and --key, and that the manager runs the same version";
/// A daemon of a local cluster needs a hundred descriptors or so.
const FEW_DESCRIPTORS: u64 = 128;
/// The hint if this process and the daemons that it starts may open few files.
fn few_files() -> Option<String> {
    let DescriptorLimit(limit) = DescriptorLimit::of_this_process();
    let is_few = limit < FEW_DESCRIPTORS;
    is_few.then(|| format!("the daemons may open {limit} files each: raise it (`ulimit -n`)"))
}

/// The hint when another manager is running.
const ONE_MANAGER: &str = "one manager per state-dir: end the other one first";

fn journal_hint(error: &JournalError) -> &'static str {
    match error {
        JournalError::InUse(_) => ONE_MANAGER,
        JournalError::Damaged { .. } => {
            "put back a copy of the file, or move it away to begin without the jobs in it; \
             Node Managers then end what they still run"
        }
        JournalError::Form { .. } | JournalError::Entry { .. } => {
            "start the version that wrote it, or move the file away to begin without the jobs in \
             it; Node Managers then end what they still run"
        }
        JournalError::Store(_)
        | JournalError::File(_)
        | JournalError::Encoding(_)
        | JournalError::WriterGone
        | JournalError::Thread(_) => {
            "is the file a journal, readable and writable, with room on its disk? Moving it away \
             begins without the jobs in it"
        }
    }
}

/// Whether nobody answered the join request of a node.
fn is_unreached(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(nm::JoinFailed::Unreached { .. }))
}

/// Whether a node of this name is already a member.
fn is_name_in_use(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let refused = match error.downcast_ref() {
        Some(nm::JoinFailed::NotLetIn { source: JoinError::Refused(refused), .. }) => refused,
        _ => return false,
    };
    matches!(refused, Refusal::NameInUse { .. })
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Failure {
        let failure = Failure::of("daemon", &error);
        let failure = if error.is_misuse() { failure.exit(EXIT_USAGE) } else { failure };
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// Logs to standard error at the level of `STORM_LOG`, `info` by default.
fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("STORM_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    // Only the first call in a process has an effect.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        .try_init();
}
