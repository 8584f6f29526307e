//! A manager that answers as a test wants, and a command to address it.

use std::future::Future;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};
use storm_mm::api::{Call, FromClient, Server, ServerLimits, Spool};
use tempfile::TempDir;
use tokio::net::UnixListener;

/// A server with a core, on a thread of its own.
pub(crate) struct Served {
    directory: TempDir,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Serves until `core` has ended.
    pub(crate) fn start<F>(
        core: impl FnOnce(async_channel::Receiver<Call>) -> F + Send + 'static,
    ) -> Served
    where
        F: Future<Output = ()>,
    {
        let directory = tempfile::tempdir().expect("a directory");
        let spool =
            Spool::open_directory(directory.path().join("spool"), 1 << 30).expect("a spool");
        let listener = std::os::unix::net::UnixListener::bind(directory.path().join("mm.sock"))
            .expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let listener = UnixListener::from_std(listener).expect("a socket");
                let (sender, heard) = async_channel::bounded(8);
                let (passed_on, calls) = async_channel::bounded(8);
                let server = Server::new(spool, ServerLimits::default(), sender).serve(listener);
                // The tests are about requests, not about clients that leave.
                let requests = async {
                    while let Ok(said) = heard.recv().await {
                        if let FromClient::Call(call) = said
                            && passed_on.send(call).await.is_err()
                        {
                            break;
                        }
                    }
                };
                let core = async {
                    core(calls).await;
                    heard.close();
                };
                tokio::join!(server, core, requests);
            });
        });
        Served { directory, thread: Some(thread) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `storm` with these arguments, in a directory of its own, addressed to this manager.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_storm"));
        command
            .args(arguments)
            .env("STORM_SOCKET", self.path("mm.sock"))
            .current_dir(self.directory.path());
        command
    }

    /// Runs it.
    pub(crate) fn storm(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it can be started")
    }

    /// Checks that the core got all requests that it expects.
    pub(crate) fn end(mut self) {
        let thread = self.thread.take().expect("it is there until now");
        thread.join().expect("the core was satisfied");
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
