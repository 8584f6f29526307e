//! The daemon: a keeper, a thread, a runtime, and a network that the caller chooses.

use super::at_rest::{let_go_at_rest, let_go_of_all};
use super::{AttachError, LiveConfig, LiveHost};
use crate::reason::explain;
use crate::{Host, Life, NmExit, SwitchLog, run_and_return};
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use storm_pl::{InheritedJob, Keeper, ProcessId, StartError};
use storm_primitives::Primitives;
use storm_rm::GlobalPlan;
use thiserror::Error;
use tokio::task::LocalSet;

/// Threads for files: one writes incoming files, one does what a launch needs.
const BLOCKING_THREADS: usize = 2;

/// Why a node manager did not start to run, or did not end properly.
#[derive(Debug, Error)]
pub enum ServeError {
    /// There is no event loop.
    #[error("the event loop cannot be started")]
    Runtime(#[source] io::Error),
    /// The node cannot be used.
    #[error("this node cannot serve")]
    Attach(#[from] AttachError),
    /// The cluster cannot be joined.
    #[error("the cluster cannot be joined")]
    Join(#[source] Box<dyn Error + Send + Sync>),
    /// The jobs of a former node manager were found, but no Machine Manager claimed them.
    #[error("no Machine Manager came for the jobs of this node")]
    NoManager,
    /// The record of switches cannot be written.
    #[error("the record of switches {path} cannot be written")]
    SwitchLog {
        /// The path of the record.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A keeper, with the jobs that it has kept since its last node manager ended.
#[derive(Debug)]
pub struct LiveKeeper {
    pub(super) keeper: Keeper,
    pub(super) jobs: Vec<InheritedJob>,
}

impl LiveKeeper {
    /// Whether the keeper has kept any jobs.
    #[must_use]
    pub fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// The keeper's process.
    #[must_use]
    pub fn pid(&self) -> ProcessId {
        self.keeper.pid()
    }
}

impl From<Keeper> for LiveKeeper {
    fn from(keeper: Keeper) -> LiveKeeper {
        LiveKeeper { keeper, jobs: Vec::new() }
    }
}

/// Takes over the keeper of a former node manager of this node, or starts a new keeper. Call it
/// before the process makes any thread.
///
/// # Errors
/// [`StartError`].
pub fn start_keeper(config: &LiveConfig) -> Result<LiveKeeper, StartError> {
    // The directory must exist: its real path names the leftovers that the keeper removes at the
    // end. If the directory cannot be made, the node manager reports the failure when it uses the
    // directory. Parents are not made: another process may just have removed them.
    let _ = std::fs::create_dir(&config.dir);
    let config = config.keeper();
    match Keeper::take_over(&config)? {
        Some((keeper, jobs)) => Ok(LiveKeeper { keeper, jobs }),
        None => Keeper::start(&config).map(LiveKeeper::from),
    }
}

/// Runs a node manager on the calling thread until it is shut down or the cluster is lost.
///
/// `join` runs inside the runtime (one thread, tokio, in a `LocalSet`) and returns the node's end
/// of the network. `join` adds the plan of global memory if the plan differs from `plan`, or from
/// that of the life before. If the link is lost and the jobs are kept
/// ([`NmConfig::manager_lost`](crate::NmConfig)), `join` is called again.
///
/// # Errors
/// [`ServeError`]. Nothing of the node manager is left then.
pub fn serve<P, L, E>(
    keeper: LiveKeeper,
    config: LiveConfig,
    plan: GlobalPlan,
    mut join: impl AsyncFnMut() -> Result<L, E>,
) -> Result<NmExit, ServeError>
where
    P: Primitives,
    L: Into<Life<P>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    tracing::info!(node = %config.name, "{}", keeper.keeper.capabilities());
    become_realtime(&config);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(ServeError::Runtime)?;
    let local = LocalSet::new();
    let (nm, switch_log) = (config.nm.clone(), config.switch_log.clone());
    let asked_to_end = config.asked_to_end.clone();
    let exit = local.block_on(&runtime, async {
        let inherits = !keeper.jobs.is_empty();
        let host = LiveHost::attach(keeper, config)?;
        // Found jobs are kept as long as the jobs of a node that was cut off.
        let joined = match inherits {
            true => tokio::time::timeout(nm.manager_lost, join()).await,
            false => Ok(join().await),
        };
        let Ok(joined) = joined else {
            tracing::error!("no Machine Manager came for the jobs that were found: they are ended");
            host.leave().await;
            return Err(ServeError::NoManager);
        };
        match joined {
            Ok(life) => {
                let Life { primitives, plan: told } = life.into();
                let plan = told.unwrap_or(plan);
                host.joined_as(primitives.node());
                let at_rest = let_go_at_rest(host.has_jobs(), let_go_of_all);
                tokio::task::spawn_local(at_rest);
                let way_back = async || match join().await {
                    Ok(life) => Some(life),
                    // The node manager was ordered to end, so its end is no failure.
                    Err(_) if asked_to_end.load(Ordering::Relaxed) => None,
                    Err(error) => {
                        let error: Box<dyn Error + Send + Sync> = error.into();
                        tracing::warn!(error = explain(&*error), "no way back to the cluster");
                        None
                    }
                };
                Ok(run_and_return(primitives, plan, host, nm, way_back).await)
            }
            Err(error) => {
                // Found jobs stay: a node manager that is started after the repair continues them.
                match inherits && host.keeps_jobs().is_some() {
                    true => host.detach(),
                    false => host.leave().await,
                }
                Err(ServeError::Join(error.into()))
            }
        }
    })?;
    if let Some(path) = switch_log {
        write_log(&path, &exit.switches)
            .map_err(|source| ServeError::SwitchLog { path, source })?;
    }
    Ok(exit)
}

fn become_realtime(config: &LiveConfig) {
    if let Some(priority) = config.realtime_priority
        && let Err(refused) = storm_pl::realtime::become_realtime(priority)
    {
        tracing::warn!(node = %config.name, %refused, "strobes are handled by an ordinary thread");
    }
}

fn write_log(path: &Path, switches: &SwitchLog) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    switches.write_csv(&mut out)?;
    out.flush()
}
