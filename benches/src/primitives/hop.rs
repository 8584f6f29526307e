//! One hop on verbs: two processes and the lanes between them, without a tree, an order or
//! operations. It measures the same as perftest, but over the queue pairs of the backend.

use super::live::{block_on, verbs};
use super::round_trips::RoundTrips;
use super::{Figure, figure};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};
use storm_backend_tcp::fabric::{Carrier, End, Fabric, Opening};
use storm_backend_tcp::wire::Lane;
use storm_primitives::NodeId;

/// How long the other end polls for completions, in microseconds, in its environment.
const SPIN_VARIABLE: &str = "STORM_BENCH_HOP_SPIN_US";
/// Bytes in front of the payload of a chunk, as long as its header.
const HEAD_BYTES: usize = 24;
/// Round trips before those that count.
const WARM_UP: u32 = 100;

/// Both lanes of one end.
struct Lanes {
    express: Rc<dyn Carrier>,
    bulk: Rc<dyn Carrier>,
}

/// Serves as the other end if this process is one: echoes the express lane, and reports on it when
/// the announced number of chunks has arrived.
///
/// # Errors
/// If the device cannot be opened, or a lane ends too soon.
pub fn serve_if_other_end() -> Result<bool> {
    let Ok(spin_us) = std::env::var(SPIN_VARIABLE) else { return Ok(false) };
    let spin = Duration::from_micros(spin_us.parse()?);
    block_on(as_task(async move {
        let fabric = verbs(spin, None)?;
        let mut stdin = std::io::stdin().lock();
        let lanes = connect(&*fabric, End::Child, &mut stdin, &mut std::io::stdout())?;
        // The child's first message shows that its lane works.
        send(&*lanes.express, [Bytes::from_static(b"hello")]).await?;
        let mut line = String::new();
        stdin.read_line(&mut line)?;
        let chunks: u32 = line.trim().parse()?;
        for _ in 0..chunks {
            lanes.bulk.read().await?;
        }
        send(&*lanes.express, [Bytes::from_static(b"all")]).await?;
        // Echo until the other side closes the lane. One queue, as in a link.
        let mut out = VecDeque::new();
        while let Ok(run) = lanes.express.read().await {
            out.push_back(run);
            send_all(&*lanes.express, &mut out).await?;
        }
        Ok(true)
    }))
}

/// Measures the one-way time of messages of each size, half of a round trip. Then measures the
/// bandwidth of chunks of the length that transfers use.
///
/// # Errors
/// If the device cannot be opened, or a lane ends.
pub fn run(spin: Duration, sizes: &[u64], rounds: u32, chunks: u32) -> Result<Vec<Figure>> {
    let sizes = sizes.to_vec();
    block_on(as_task(async move {
        let fabric = verbs(spin, None)?;
        let mut other = OtherEnd::start(SPIN_VARIABLE, &spin.as_micros().to_string())?;
        let (mut from, mut to) = other.pipes()?;
        let lanes = connect(&*fabric, End::Parent, &mut from, &mut to)?;
        lanes.express.read().await.context("the other end is silent")?;
        writeln!(to, "{chunks}")?;
        let mut figures = vec![bandwidth(&*fabric, &lanes, chunks).await?];
        for bytes in sizes {
            figures.push(latency(&*lanes.express, bytes, rounds).await?);
        }
        Ok(figures)
    }))
}

/// A member's links are read by tasks of the `LocalSet`, not by its main future.
async fn as_task<T: 'static>(body: impl Future<Output = Result<T>> + 'static) -> Result<T> {
    tokio::task::spawn_local(body).await?
}

async fn latency(lane: &dyn Carrier, bytes: u64, rounds: u32) -> Result<Figure> {
    let message = Bytes::from(vec![7; bytes as usize]);
    let mut out = VecDeque::new();
    let mut trips = RoundTrips::begin(WARM_UP, rounds);
    for _ in 0..WARM_UP + rounds {
        out.push_back(message.clone());
        send_all(lane, &mut out).await?;
        let mut missing = message.len();
        while missing > 0 {
            missing -= lane.read().await?.len();
        }
        trips.end_one();
    }
    Ok(figure("hop, one way", 1, bytes, &trips.one_way_ns()?))
}

/// Measures chunks. The time of a chunk is the time between two grants of a block.
async fn bandwidth(fabric: &dyn Fabric, lanes: &Lanes, chunks: u32) -> Result<Figure> {
    let data = Bytes::from(vec![7; fabric.max_chunk_bytes() as usize]);
    let payload = fabric.place(data, false);
    let head = Bytes::from(vec![1; HEAD_BYTES]);
    let mut ns = Histogram::new(3)?;
    let start = Instant::now();
    let mut last = start;
    for _ in 0..chunks {
        send(&*lanes.bulk, [head.clone(), payload.clone()]).await?;
        let now = Instant::now();
        ns.record(u64::try_from((now - last).as_nanos())?)?;
        last = now;
    }
    lanes.express.read().await?;
    let mib = payload.len() as f64 * f64::from(chunks) / f64::from(1 << 20);
    let mib_s = Some(mib / start.elapsed().as_secs_f64());
    Ok(Figure { mib_s, ..figure("hop, a chunk of many", 1, payload.len() as u64, &ns) })
}

async fn send<const N: usize>(lane: &dyn Carrier, parts: [Bytes; N]) -> Result<()> {
    send_all(lane, &mut VecDeque::from(parts)).await
}

async fn send_all(lane: &dyn Carrier, out: &mut VecDeque<Bytes>) -> Result<()> {
    while !lane.write_some(out)? {
        lane.writable().await?;
    }
    Ok(())
}

/// Opens both lanes. Each side sends the other its offers in two lines.
fn connect(
    fabric: &dyn Fabric,
    end: End,
    from: &mut impl BufRead,
    to: &mut impl Write,
) -> Result<Lanes> {
    let peer = match end {
        End::Parent => NodeId(1),
        End::Child => NodeId::MM,
    };
    let mut open = |lane| -> Result<Rc<dyn Carrier>> {
        let opening = fabric.open(peer, lane, end)?;
        let own = encode(&*opening);
        // The child connects after the parent has.
        if end == End::Child {
            writeln!(to, "{own}")?;
            to.flush()?;
        }
        let mut line = String::new();
        from.read_line(&mut line)?;
        let connected = opening.connect(&decode(line.trim())?)?;
        if end == End::Parent {
            writeln!(to, "{own}")?;
            to.flush()?;
        }
        Ok(connected)
    };
    Ok(Lanes { express: open(Lane::Express)?, bulk: open(Lane::Bulk)? })
}

fn encode(opening: &dyn Opening) -> String {
    opening.offer().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(line: &str) -> Result<Vec<u8>> {
    if line.is_empty() || !line.is_ascii() || !line.len().is_multiple_of(2) {
        bail!("the other end says {line:?}");
    }
    let digits = (0..line.len()).step_by(2);
    Ok(digits.map(|at| u8::from_str_radix(&line[at..at + 2], 16)).collect::<Result<_, _>>()?)
}

/// The process of the other end. Dropping the value ends it.
pub(super) struct OtherEnd(Child);

impl OtherEnd {
    /// Starts this program with `variable` in its environment.
    pub(super) fn start(variable: &str, value: &str) -> Result<OtherEnd> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(variable, value);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(OtherEnd(command.spawn().context("the other end cannot be started")?))
    }

    pub(super) fn pipes(&mut self) -> Result<(impl BufRead + use<>, impl Write + use<>)> {
        let from = self.0.stdout.take().context("no pipe")?;
        let to = self.0.stdin.take().context("no pipe")?;
        Ok((std::io::BufReader::new(from), to))
    }
}

impl Drop for OtherEnd {
    fn drop(&mut self) {
        // An error means that the process has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
