//! `storm relay`: the daemon of a login host, which lets its users in without keys of their own.
//!
//! It holds a door key. The manager accepts it as proof for every user but root, and for nobody as
//! an administrator.

use super::upstream::{Keys, ManagerDoor, Upstream};
use super::{Relay, bind_system_socket};
use crate::cli::RelayOptions;
use crate::daemon::socket_path::SocketFile;
use crate::daemon::{DaemonError, start_log};
use crate::event_loop::event_loop;
use crate::key_file;
use crate::target::SYSTEM_SOCKET;
use std::io;
use std::path::Path;
use storm_pl::DescriptorLimit;
use storm_session::DoorKey;
use tokio::signal::unix::{SignalKind, signal};

/// Runs the relay of a login host until it is ordered to end.
pub(crate) fn run_relay(options: RelayOptions) -> Result<(), DaemonError> {
    start_log();
    let key: DoorKey = key_file::read(&options.key)?;
    if let Err(error) = DescriptorLimit::raise() {
        tracing::warn!(%error, "the limit on open descriptors stays as it is");
    }
    let failed = |source| DaemonError::Path { path: options.socket.clone(), source };
    let bound = match options.socket == Path::new(SYSTEM_SOCKET) {
        true => bind_system_socket(),
        false => SocketFile::bind(&options.socket),
    };
    let bound = bound.map_err(failed)?;
    let managers = options.manager.iter().map(|manager| manager.as_str().to_owned()).collect();
    let upstream = Upstream::new(Keys::Door(key), ManagerDoor::At(managers));
    let runtime =
        event_loop().map_err(|source| DaemonError::System { what: "the event loop", source })?;
    let ended = runtime.block_on(async {
        // Signals are received before anybody is let in.
        let (mut term, mut int) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let relay = Relay::start(vec![bound], upstream, false)?;
        tokio::select! {
            _ = term.recv() => tracing::info!("asked to end by SIGTERM"),
            _ = int.recv() => tracing::info!("asked to end by SIGINT"),
        }
        drop(relay);
        Ok::<_, io::Error>(())
    });
    ended.map_err(|source| DaemonError::System { what: "the relay", source })
}
