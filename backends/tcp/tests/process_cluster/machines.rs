//! The machines of a cluster's nodes: all nodes on this machine, or on two. This program also runs
//! on the other machine as a starter, which starts processes there for the suite.
//!
//! Each connection to the starter is one process. The suite first sends the environment: entries
//! `NAME=value`, each followed by a zero byte, and an empty entry at the end. From then on, every
//! byte is a signal to deliver, and the starter answers with the same byte. The process ends with
//! the connection.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use storm_primitives::NodeId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;

/// The address of the other machine's starter; set for the suite's process.
const OTHER_VARIABLE: &str = "STORM_TEST_OTHER_MACHINE";
/// The address of the suite's own machine, if there is another.
const OWN_VARIABLE: &str = "STORM_TEST_OWN_MACHINE";
/// The address for the starter to listen on; set for its process.
const STARTER_VARIABLE: &str = "STORM_TEST_STARTER";

/// The machines of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machines {
    own: IpAddr,
    other: Option<SocketAddr>,
}

/// A node's process, on either machine. Dropping the value ends it.
pub(crate) enum Process {
    /// On this machine.
    Here(Child),
    /// On the other machine: the connection to its starter.
    There(Mutex<tokio::net::TcpStream>),
}

impl Machines {
    /// The machines named by the environment; this machine if it names no other.
    pub(crate) fn from_env() -> Machines {
        let address = |name| std::env::var(name).ok();
        Machines {
            own: address(OWN_VARIABLE)
                .map_or(Ipv4Addr::LOCALHOST.into(), |text| text.parse().expect("an address")),
            other: address(OTHER_VARIABLE).map(|text| text.parse().expect("address and port")),
        }
    }

    /// The address of the suite's machine.
    pub(crate) fn own(&self) -> IpAddr {
        self.own
    }

    /// The address of the machine of `node`. With a fan-out of two and no dead node, each node is
    /// on another machine than its parent, so all lanes cross between the two.
    pub(crate) fn of(&self, node: NodeId) -> IpAddr {
        let depth = (node.0 + 1).ilog2();
        match self.other {
            Some(other) if depth % 2 == 1 => other.ip(),
            _ => self.own,
        }
    }

    /// Starts this program on the machine of `node`, with `environment`.
    pub(crate) async fn start(
        &self,
        node: NodeId,
        environment: &BTreeMap<&'static str, String>,
    ) -> io::Result<Process> {
        let Some(other) = self.other.filter(|other| other.ip() == self.of(node)) else {
            return Ok(Process::Here(command(environment)?.spawn()?));
        };
        let mut stream = tokio::net::TcpStream::connect(other).await?;
        stream.set_nodelay(true)?;
        let variables = environment.iter().map(|(name, value)| format!("{name}={value}\0"));
        stream.write_all(format!("{}\0", variables.collect::<String>()).as_bytes()).await?;
        Ok(Process::There(Mutex::new(stream)))
    }
}

impl Process {
    /// Sends the process a signal. Returns when the process has received it or is gone.
    pub(crate) async fn signal(&self, signal: Signal) {
        match self {
            Process::Here(child) => {
                // The process is a child and not reaped: its id is not reused.
                kill(Pid::from_raw(child.id() as i32), signal).expect("a child");
            }
            Process::There(stream) => {
                let mut stream = stream.lock().await;
                let mut byte = [signal as u8];
                stream.write_all(&byte).await.expect("the starter lives");
                stream.read_exact(&mut byte).await.expect("the starter lives");
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Process::Here(child) = self {
            // An error means that the process has ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Serves as the starter until killed, if the environment asks for it.
pub(crate) fn serve_if_starter() {
    let Ok(address) = std::env::var(STARTER_VARIABLE) else { return };
    let listener = TcpListener::bind(address).expect("an address of this machine");
    println!("the starter listens");
    for stream in listener.incoming() {
        let stream = stream.expect("a connection");
        std::thread::spawn(move || serve(&stream).expect("the suite keeps to the protocol"));
    }
}

/// Runs one process until the suite ends it.
fn serve(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut environment = BTreeMap::new();
    loop {
        let mut variable = Vec::new();
        reader.read_until(0, &mut variable)?;
        variable.pop();
        match String::from_utf8_lossy(&variable).split_once('=') {
            Some((name, value)) => environment.insert(name.to_owned(), value.to_owned()),
            None => break,
        };
    }
    if environment.is_empty() {
        // The peer only probes whether the port is open.
        return Ok(());
    }
    let mut child = command(&environment)?.spawn()?;
    let pid = Pid::from_raw(child.id() as i32);
    let mut byte = [0];
    while matches!(reader.read(&mut byte), Ok(1)) {
        let signal = Signal::try_from(i32::from(byte[0])).map_err(io::Error::from)?;
        // The process is not reaped: its id is not reused.
        kill(pid, signal).map_err(io::Error::from)?;
        (&*stream).write_all(&byte)?;
    }
    // An error means that the process has ended by itself.
    let _ = child.kill();
    child.wait().map(drop)
}

/// A command that runs this program as one node.
fn command<S: AsRef<std::ffi::OsStr>>(environment: &BTreeMap<S, String>) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", "node_process", "--nocapture", "--test-threads=1"]);
    command.envs(environment).env_remove(STARTER_VARIABLE);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}
