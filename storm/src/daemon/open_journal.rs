//! Opens the journal, which only one manager can hold at a time.

use super::DaemonError;
use super::settings::Settings;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use storm_mm::journal::{Entry, JournalError, RedbJournal};

/// How long a former manager may take to end. Freeing some hundred megabytes takes far less.
const FORMER_MANAGER_ENDS: Duration = Duration::from_secs(5);
/// A running manager greets a client at once; an overloaded one within this time.
const GREETING_TAKES: Duration = Duration::from_millis(500);
/// Pause between two attempts to lock the journal.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A killed manager holds the journal until the kernel has freed its memory.
#[expect(clippy::disallowed_methods, reason = "no event tells that a lock is free")]
pub(super) fn open_journal(settings: &Settings) -> Result<(RedbJournal, Vec<Entry>), DaemonError> {
    let path = settings.state_dir.join("journal.redb");
    let began = Instant::now();
    let mut said = false;
    loop {
        match RedbJournal::open(&path, settings.history) {
            Err(JournalError::InUse(_)) if began.elapsed() < FORMER_MANAGER_ENDS => {
                if let Some(pid) = answering_manager(&settings.socket) {
                    return Err(DaemonError::Running { socket: settings.socket.clone(), pid });
                }
                if !std::mem::replace(&mut said, true) {
                    let (journal, at_most) = (path.display(), FORMER_MANAGER_ENDS);
                    tracing::info!(%journal, ?at_most, "another process has the journal: waiting");
                }
                std::thread::sleep(LOOK_AGAIN);
            }
            opened => return opened.map_err(|source| DaemonError::Journal { path, source }),
        }
    }
}

/// The pid of the process that greets clients on this socket. A process being killed does not.
fn answering_manager(socket: &Path) -> Option<i32> {
    let mut stream = UnixStream::connect(socket).ok()?;
    let pid = getsockopt(&stream, PeerCredentials).ok()?.pid();
    stream.set_read_timeout(Some(GREETING_TAKES)).ok()?;
    stream.read_exact(&mut [0]).ok()?;
    Some(pid)
}
