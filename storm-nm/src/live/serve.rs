//! The daemon: a keeper, a thread, a runtime, a network of the caller's choice.

use super::at_rest::{let_go_at_rest, let_go_of_all};
use super::{AttachError, LiveConfig, LiveHost};
use crate::reason::explain;
use crate::{Host, Life, NmExit, SwitchLog, run_and_return};
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use storm_pl::{Keeper, StartError};
use storm_primitives::Primitives;
use storm_rm::GlobalPlan;
use thiserror::Error;
use tokio::task::LocalSet;

/// Threads for files: one that writes what comes and one for what a launch needs.
const BLOCKING_THREADS: usize = 2;

/// Why a node manager did not come to run, or not to its proper end.
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
    /// The record of switches cannot be written.
    #[error("the record of switches {path} cannot be written")]
    SwitchLog {
        /// Where to.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Starts the keeper. Call it before the process makes any thread.
///
/// # Errors
/// [`StartError`].
pub fn start_keeper(config: &LiveConfig) -> Result<Keeper, StartError> {
    // What the keeper removes at the end is named by the directory's place. Whether it can be made the
    // node manager says when it uses it. Not what is above: somebody may just have removed that.
    let _ = std::fs::create_dir(&config.dir);
    Keeper::start(&config.keeper())
}

/// Runs a node manager on the calling thread until it is shut down or the cluster
/// is lost. `join` is called inside of the runtime (one thread, tokio, in a
/// `LocalSet`) and gives the node's end of the network, with the plan of global memory where it is
/// another than `plan` or than that of the life before; it is called again when the link is lost and
/// the jobs are kept ([`NmConfig::manager_lost`](crate::NmConfig)).
///
/// # Errors
/// [`ServeError`]; nothing of the node manager is left then.
pub fn serve<P, L, E>(
    keeper: Keeper,
    config: LiveConfig,
    plan: GlobalPlan,
    mut join: impl AsyncFnMut() -> Result<L, E>,
) -> Result<NmExit, ServeError>
where
    P: Primitives,
    L: Into<Life<P>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    tracing::info!(node = %config.name, "{}", keeper.capabilities());
    if let Some(priority) = config.realtime_priority
        && let Err(refused) = storm_pl::realtime::become_realtime(priority)
    {
        tracing::warn!(node = %config.name, %refused, "strobes are handled by an ordinary thread");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(ServeError::Runtime)?;
    let local = LocalSet::new();
    let (nm, switch_log) = (config.nm.clone(), config.switch_log.clone());
    let asked_to_end = config.asked_to_end.clone();
    let exit = local.block_on(&runtime, async {
        let host = LiveHost::attach(keeper, config)?;
        match join().await {
            Ok(life) => {
                let Life { primitives, plan: told } = life.into();
                let plan = told.unwrap_or(plan);
                host.joined_as(primitives.node());
                let at_rest = let_go_at_rest(host.has_jobs(), let_go_of_all);
                tokio::task::spawn_local(at_rest);
                let way_back = async || match join().await {
                    Ok(life) => Some(life),
                    // Nothing stood in the way.
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
                host.leave().await;
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

fn write_log(path: &Path, switches: &SwitchLog) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    switches.write_csv(&mut out)?;
    out.flush()
}
