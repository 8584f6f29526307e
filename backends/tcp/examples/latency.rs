//! Measures the primitives over TCP on this host. Every node is a process of its own.
//!
//! ```text
//! cargo run --release -p storm-backend-tcp --example latency -- \
//!     [NODES] [FANOUT] [CHUNK_KIB] [SESSIONS]
//! ```
//!
//! SESSIONS is `none`, `open` (authenticated, as on loopback) or `sealed` (also encrypted, as
//! between hosts). The program prints the median and the 99th percentile of a small XFER-AND-SIGNAL
//! to 1, 8 and all nodes, and of a COMPARE-AND-WRITE with and without a write. It also prints the
//! time of 12 MB in chunks of 512 KiB, four of them in flight at a time.

use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::error::Error;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::Duration;
use storm_backend_tcp::{
    ClusterKey, NameTable, Node, NodeConfig, Root, RootConfig, TcpPrimitives, Trust,
};
use storm_primitives::{
    CompareAndWrite, EventId, Layout, NodeSet, Primitives, Region, Relation, Runtime, Var, Xfer,
};

/// Small operations per figure.
const ROUNDS: u32 = 2000;
/// The size of the binary in the paper's Figure 2.
const FILE_BYTES: u64 = 12_000_000;
/// The part of a file that one XFER-AND-SIGNAL carries.
const CHUNK_BYTES: u64 = 512 << 10;
/// Chunks in flight at a time.
const CHUNKS_IN_FLIGHT: usize = 4;
/// Times the file is sent.
const FILE_ROUNDS: u32 = 7;
/// The root's address, in the environment of a node's process.
const ROOT_VARIABLE: &str = "STORM_TCP_LATENCY_ROOT";

/// The key, in the environment of a node's process.
const KEY_VARIABLE: &str = "STORM_TCP_LATENCY_KEY";
/// Whether to encrypt on loopback, too.
const SEALED_VARIABLE: &str = "STORM_TCP_LATENCY_SEALED";

struct Plan {
    layout: Layout,
    word: Var<u64>,
    file: Region,
    strobe: EventId,
}

fn plan() -> Plan {
    let mut builder = Layout::builder();
    let word = builder.var("word");
    let file = builder.region("file", CHUNK_BYTES * CHUNKS_IN_FLIGHT as u64);
    let strobe = builder.event("strobe");
    Plan { layout: builder.build(), word, file, strobe }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let body = async {
        match std::env::var(ROOT_VARIABLE) {
            Ok(root) => node(root.parse()?).await,
            Err(_) => {
                let mut args = std::env::args().skip(1);
                let nodes = args.next().map_or(Ok(64), |text| text.parse())?;
                let fanout = args.next().map(|text| text.parse()).transpose()?;
                let chunk_kib = args.next().map(|text| text.parse()).transpose()?;
                let sessions = args.next().unwrap_or_else(|| "none".to_owned());
                measure(nodes, fanout, chunk_kib, &sessions).await
            }
        }
    };
    tokio::task::LocalSet::new().block_on(&runtime, body)
}

async fn node(root: SocketAddr) -> Result<(), Box<dyn Error>> {
    let name = format!("pid{}", std::process::id());
    let mut config = NodeConfig::new(root, name, loopback(), plan().layout);
    if let Ok(key) = std::env::var(KEY_VARIABLE) {
        config.trust = Some(trust(key.parse()?, std::env::var_os(SEALED_VARIABLE).is_some()));
    }
    let handle = Node::join(config).await?;
    handle.closed().await;
    Ok(())
}

fn trust(key: ClusterKey, sealed: bool) -> Trust {
    let trust = Trust::new(key);
    if sealed { trust.encrypt_loopback() } else { trust }
}

async fn measure(
    nodes: u32,
    fanout: Option<u32>,
    chunk_kib: Option<u32>,
    sessions: &str,
) -> Result<(), Box<dyn Error>> {
    let plan = plan();
    let mut config = RootConfig::new(loopback(), plan.layout.clone(), NameTable::open(nodes));
    config.fanout = fanout.unwrap_or(config.fanout);
    config.chunk_bytes = chunk_kib.map_or(config.chunk_bytes, |kib| kib << 10);
    println!("{nodes} nodes, fan-out {}, sessions: {sessions}", config.fanout);
    let sealed = sessions == "sealed";
    let key = (sessions != "none").then(ClusterKey::generate).transpose()?;
    config.trust = key.clone().map(|key| trust(key, sealed));
    let root = Root::bind(config)?;
    let mm = root.handle();
    let start = mm.runtime().now();
    let processes = (0..nodes).map(|_| spawn(root.local_addr(), key.as_ref(), sealed));
    let processes = Processes(processes.collect::<Result<_, _>>()?);
    while mm.membership().alive().len() <= nodes as usize {
        mm.membership().changed(mm.membership().epoch()).await;
    }
    println!("{:<28} {:>9.1?}", "all joined", mm.runtime().now() - start);
    for to in [1, 8, nodes] {
        let set = NodeSet::compute(to.min(nodes));
        let xfer = Xfer::new(set, plan.word.addr(), vec![1; 8]).signal_remote(plan.strobe);
        let took = repeat(&mm, async || mm.xfer_and_wait(xfer.clone()).await).await?;
        report(&format!("XFER 8 B to {to}"), &took);
    }
    for to in [1, 8, nodes] {
        let set = NodeSet::compute(to.min(nodes));
        let ask = CompareAndWrite::new(set, plan.word, Relation::GreaterOrEqual, 0);
        let write = ask.clone().then_write(plan.word, 1);
        let took = repeat(&mm, async || mm.compare_and_write(ask.clone()).await.map(|_| ()));
        report(&format!("CAW of {to}"), &took.await?);
        let took = repeat(&mm, async || mm.compare_and_write(write.clone()).await.map(|_| ()));
        report(&format!("CAW of {to}, with write"), &took.await?);
    }
    let mut file = Histogram::new(3)?;
    for _ in 0..FILE_ROUNDS {
        let start = mm.runtime().now();
        send_file(&mm, &plan, &NodeSet::compute(nodes)).await?;
        file.record((mm.runtime().now() - start).as_micros() as u64)?;
    }
    report(&format!("12 MB to {nodes}"), &file);
    drop(processes);
    Ok(())
}

async fn repeat<E: Error + 'static>(
    mm: &TcpPrimitives,
    operation: impl AsyncFn() -> Result<(), E>,
) -> Result<Histogram<u64>, Box<dyn Error>> {
    let mut took = Histogram::new(3)?;
    for _ in 0..ROUNDS {
        let start = mm.runtime().now();
        operation().await?;
        took.record((mm.runtime().now() - start).as_micros() as u64)?;
    }
    Ok(took)
}

/// Sends the file in chunks. A slot of the buffer is reused when its chunk is on all nodes.
async fn send_file(mm: &TcpPrimitives, plan: &Plan, set: &NodeSet) -> Result<(), Box<dyn Error>> {
    let data = bytes::Bytes::from(vec![7; FILE_BYTES as usize]);
    let mut flying = VecDeque::new();
    for (index, start) in (0..FILE_BYTES).step_by(CHUNK_BYTES as usize).enumerate() {
        if flying.len() == CHUNKS_IN_FLIGHT {
            await_front(mm, &mut flying).await?;
        }
        let end = (start + CHUNK_BYTES).min(FILE_BYTES);
        let slot = (index % CHUNKS_IN_FLIGHT) as u64 * CHUNK_BYTES;
        let done = mm.events().local();
        let chunk = data.slice(start as usize..end as usize);
        let xfer = Xfer::new(set.clone(), plan.file.addr.offset(slot), chunk);
        mm.xfer_and_signal(xfer.signal_local(done.id()));
        flying.push_back(done);
    }
    while !flying.is_empty() {
        await_front(mm, &mut flying).await?;
    }
    Ok(())
}

async fn await_front(
    mm: &TcpPrimitives,
    flying: &mut VecDeque<storm_primitives::LocalEvent>,
) -> Result<(), Box<dyn Error>> {
    if let Some(done) = flying.pop_front() {
        mm.await_event(done.id()).await?;
    }
    Ok(())
}

fn report(what: &str, took: &Histogram<u64>) {
    let mut line = format!("{what:<28}");
    let shown = [("min", took.min()), ("p50", took.value_at_quantile(0.5))];
    for (name, us) in shown.into_iter().chain([("p99", took.value_at_quantile(0.99))]) {
        // Writing to a string does not fail.
        let _ = write!(line, " {name} {:>9.1?}", Duration::from_micros(us));
    }
    println!("{line}");
}

/// The nodes' processes. Dropping the value ends them.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // An error means only that the process has ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spawn(root: SocketAddr, key: Option<&ClusterKey>, sealed: bool) -> std::io::Result<Child> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    if let Some(key) = key {
        command.env(KEY_VARIABLE, &*key.to_text());
    }
    if sealed {
        command.env(SEALED_VARIABLE, "1");
    }
    command.env(ROOT_VARIABLE, root.to_string()).stdin(Stdio::null()).spawn()
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}
