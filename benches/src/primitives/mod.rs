//! The times of the primitives by node count and size, on any backend: a root that issues
//! operations, and nodes that only serve.

pub mod floor;
pub mod hop;
pub mod live;
mod round_trips;
pub mod simulated;

use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::VecDeque;
use storm_primitives::{
    CompareAndWrite, EventId, Layout, NodeSet, PrimitiveError, Primitives, Region, Relation,
    Runtime, Var, Xfer,
};

/// The longest transfer that can be measured.
pub const MAX_BYTES: u64 = 4 << 20;
/// Transfers on their way while bandwidth is measured.
const IN_FLIGHT: usize = 4;
/// Operations before the measured ones. They set up connections, caches and blocks.
const WARM_UP: u32 = 20;

/// The longest time of an operation that succeeds: a minute.
const MAX_NS: u64 = 60_000_000_000;

/// The layout of the measurements.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The layout, the same on all nodes.
    pub layout: Layout,
    word: Var<u64>,
    bulk: Region,
    arrived: EventId,
}

/// The measurements to take.
#[derive(Clone, Debug)]
pub struct Work {
    /// The sizes of the node sets.
    pub nodes: Vec<u32>,
    /// The lengths of the transfers in bytes.
    pub sizes: Vec<u64>,
    /// Operations per figure.
    pub rounds: u32,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// `xfer`, `caw`, `caw+write`, or the kind of hop.
    pub operation: &'static str,
    /// Nodes of the set.
    pub nodes: u32,
    /// Bytes of a transfer.
    pub bytes: u64,
    /// The least time until the initiator knows that the operation is complete, in microseconds.
    pub least_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// Bytes that each node got per second, with four transfers under way, in MiB/s.
    pub mib_s: Option<f64>,
}

impl Plan {
    /// The plan, which is the same for all measurements.
    pub fn new() -> Plan {
        let mut builder = Layout::builder();
        let word = builder.var("word");
        let bulk = builder.region("bulk", MAX_BYTES * IN_FLIGHT as u64);
        let arrived = builder.event("arrived");
        Plan { layout: builder.build(), word, bulk, arrived }
    }
}

impl Default for Plan {
    fn default() -> Plan {
        Plan::new()
    }
}

/// Measures everything from `root`, whose cluster has as many nodes as the largest set.
///
/// # Errors
/// If an operation fails.
pub async fn measure<P: Primitives>(
    root: &P,
    plan: &Plan,
    work: &Work,
) -> Result<Vec<Figure>, PrimitiveError> {
    let mut figures = Vec::new();
    for &nodes in &work.nodes {
        let set = NodeSet::compute(nodes);
        for &bytes in &work.sizes {
            let data = vec![7; bytes as usize];
            let xfer = Xfer::new(set.clone(), plan.bulk.addr, data).signal_remote(plan.arrived);
            let times = repeat(root, work.rounds, async || {
                root.xfer_and_wait(xfer.clone()).await.map(drop)
            });
            let times = times.await?;
            let mib_s = bandwidth(root, plan, &xfer, work.rounds).await?;
            figures.push(Figure { mib_s: Some(mib_s), ..figure("xfer", nodes, bytes, &times) });
        }
        let ask = CompareAndWrite::new(set, plan.word, Relation::GreaterOrEqual, 0);
        let write = ask.clone().then_write(plan.word, 1);
        for (operation, question) in [("caw", ask), ("caw+write", write)] {
            let times = repeat(root, work.rounds, async || {
                root.compare_and_write(question.clone()).await.map(drop)
            });
            figures.push(figure(operation, nodes, 8, &times.await?));
        }
    }
    Ok(figures)
}

fn figure(operation: &'static str, nodes: u32, bytes: u64, ns: &Histogram<u64>) -> Figure {
    let quantile = |at: f64| ns.value_at_quantile(at) as f64 / 1e3;
    let (least_us, p50_us, p99_us) = (ns.min() as f64 / 1e3, quantile(0.5), quantile(0.99));
    Figure { operation, nodes, bytes, least_us, p50_us, p99_us, mib_s: None }
}

async fn repeat<P: Primitives>(
    root: &P,
    rounds: u32,
    operation: impl AsyncFn() -> Result<(), PrimitiveError>,
) -> Result<Histogram<u64>, PrimitiveError> {
    let mut ns = Histogram::new_with_max(MAX_NS, 3).expect("bounds that hold");
    for round in 0..WARM_UP + rounds {
        let start = root.runtime().now();
        operation().await?;
        if round >= WARM_UP {
            let took = (root.runtime().now() - start).as_nanos();
            ns.saturating_record(u64::try_from(took).unwrap_or(u64::MAX));
        }
    }
    Ok(ns)
}

/// The bandwidth of transfers, each to another place.
async fn bandwidth<P: Primitives>(
    root: &P,
    plan: &Plan,
    xfer: &Xfer,
    rounds: u32,
) -> Result<f64, PrimitiveError> {
    let bytes = xfer.data.len() as f64 * f64::from(rounds);
    let mut flying = VecDeque::new();
    let start = root.runtime().now();
    for round in 0..rounds as usize {
        if flying.len() == IN_FLIGHT {
            finish_first(root, &mut flying).await?;
        }
        let done = root.events().local();
        let addr = plan.bulk.addr.offset((round % IN_FLIGHT) as u64 * MAX_BYTES);
        root.xfer_and_signal(Xfer { addr, ..xfer.clone() }.signal_local(done.id()));
        flying.push_back(done);
    }
    while !flying.is_empty() {
        finish_first(root, &mut flying).await?;
    }
    Ok(bytes / (root.runtime().now() - start).as_secs_f64() / f64::from(1 << 20))
}

async fn finish_first<P: Primitives>(
    root: &P,
    flying: &mut VecDeque<storm_primitives::LocalEvent>,
) -> Result<(), PrimitiveError> {
    match flying.pop_front() {
        Some(done) => root.await_event(done.id()).await.map(drop),
        None => Ok(()),
    }
}
