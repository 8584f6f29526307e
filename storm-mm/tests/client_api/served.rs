//! A server with a manager of the test's behind it.

use async_channel::Receiver;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use storm_mm::api::{
    Call, Client, ClientEnd, ClientId, FromClient, Hello, LineReader, MAX_REPLY_LINE_BYTES,
    ManagerRequest, Reply, ReplyLine, Server, ServerLimits, Spool,
};
use storm_rm::{ContentHash, Destination, FileSpec, JobId, JobSpec, Owner, Program};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Nothing in these tests takes this long, so a longer step counts as a hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test on a runtime like the manager's.
pub(crate) fn on_runtime<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { timeout(PATIENCE, test).await.expect("the test hangs") })
}

/// A running server. Its calls are answered by the test.
pub(crate) struct Served {
    directory: TempDir,
    pub(crate) calls: Receiver<FromClient>,
    pub(crate) server: JoinHandle<()>,
    pub(crate) spool: Spool,
}

impl Served {
    pub(crate) fn start() -> Served {
        Served::with(ServerLimits::default(), Spool::DEFAULT_FILE_LIMIT_BYTES)
    }

    pub(crate) fn with(limits: ServerLimits, file_limit_bytes: u64) -> Served {
        Served::extended(limits, file_limit_bytes, |server| server)
    }

    /// A server with extensions.
    pub(crate) fn extended(
        limits: ServerLimits,
        file_limit_bytes: u64,
        extend: impl FnOnce(Server) -> Server,
    ) -> Served {
        let directory = tempfile::tempdir().expect("a directory");
        let spool = Spool::open_directory(directory.path().join("spool"), file_limit_bytes)
            .expect("a spool");
        let listener = UnixListener::bind(directory.path().join("mm.sock")).expect("a socket");
        let (sender, calls) = async_channel::bounded(8);
        let server = extend(Server::new(spool.clone(), limits, sender));
        let server = tokio::spawn(server.serve(listener));
        Served { directory, calls, server, spool }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("mm.sock")
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.socket()).await.expect("it listens")
    }

    pub(crate) async fn raw(&self) -> Raw {
        let stream = UnixStream::connect(self.socket()).await.expect("it listens");
        let (read, write) = stream.into_split();
        Raw { lines: LineReader::new(read, MAX_REPLY_LINE_BYTES), write }
    }

    /// Answers every call from now on: `answer` gives the reply.
    pub(crate) fn answer_with(&self, answer: impl Fn(&ManagerRequest) -> Reply + Send + 'static) {
        let calls = self.calls.clone();
        tokio::spawn(async move {
            while let Ok(call) = calls.recv().await {
                let FromClient::Call(call) = call else { continue };
                // Some tests are about a disconnected client.
                let _ = call.replies.send(answer(&call.request));
            }
        });
    }

    /// The next call.
    pub(crate) async fn call(&self) -> Call {
        loop {
            if let FromClient::Call(call) = self.calls.recv().await.expect("the server lives") {
                return call;
            }
        }
    }

    /// The next client that leaves.
    pub(crate) async fn left(&self) -> (ClientId, ClientEnd) {
        loop {
            let heard = self.calls.recv().await.expect("the server lives");
            if let FromClient::Left { client, end } = heard {
                return (client, end);
            }
        }
    }
}

/// A client that writes anything.
pub(crate) struct Raw {
    pub(crate) lines: LineReader<OwnedReadHalf>,
    pub(crate) write: OwnedWriteHalf,
}

impl Raw {
    pub(crate) async fn send(&mut self, text: &str) {
        self.write.write_all(text.as_bytes()).await.expect("the server reads");
    }

    pub(crate) async fn hello(&mut self) {
        self.send("{\"storm_api\":2}\n").await;
        let line = self.lines.line().await.expect("readable").expect("a hello");
        let hello: Hello = serde_json::from_slice(&line).expect("a hello");
        assert_eq!(hello.storm_api, 2);
    }

    /// The next reply; `None` at the end.
    pub(crate) async fn reply(&mut self) -> Option<ReplyLine> {
        let line = self.lines.line().await.ok().flatten()?;
        Some(serde_json::from_slice(&line).expect("a reply"))
    }

    /// The next reply, which is a refusal.
    pub(crate) async fn refusal(&mut self) -> storm_mm::api::ApiError {
        match self.reply().await.expect("a reply").reply {
            Reply::Error { error } => error,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// A job that ships these contents; the first is the program.
pub(crate) fn job(contents: &[&[u8]]) -> JobSpec {
    let mut files = contents.iter().map(|content| FileSpec {
        hash: ContentHash::of(content),
        size_bytes: content.len() as u64,
        mode: 0o755,
        name: "file".into(),
        destination: Destination::JobDirectory,
    });
    let program = files.next().map_or(Program::OnNodes("/bin/true".into()), Program::Shipped);
    let owner = Owner { uid: 4242, gid: 4242 };
    let mut spec = JobSpec { owner, ..JobSpec::plain("file", program) };
    spec.step.env = vec![("A".into(), "B".into())].into();
    spec.step.files = files.collect();
    spec
}

/// A manager's answer to a submission.
pub(crate) fn submitted(_: &ManagerRequest) -> Reply {
    Reply::Submitted { job: JobId(7) }
}
