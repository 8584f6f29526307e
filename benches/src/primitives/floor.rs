//! The least cost of one hop: two processes with one queue pair each, doing only what a lane's
//! contract needs.
//!
//! A short message is one WRITE. The other side finds it by polling memory, and answers. A longer
//! message is a WRITE WITH IMMEDIATE. The other side finds its completion, and posts a receive
//! request for the next. A chunk is written to one of a few places, and the answer grants the place
//! again.
//!
//! There is no runtime, task, copy, ring, checksum or way to sleep. The calls are those of the
//! backend.

use super::hop::OtherEnd;
use super::round_trips::RoundTrips;
use super::{Figure, figure};
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Instant;
use storm_backend_verbs::VerbsConfig;
use storm_backend_verbs::guard::{
    Access, CompletionChannel, CompletionQueue, Device, Endpoint, MemoryRegion, Notice, OpenDevice,
    Outcome, Port, ProtectionDomain, QueuePair, RemoteAddr, Route, Source, Sources,
};
use storm_verbs::port_address::{self, Wish};

/// Set in the environment of the process that is the other end.
const VARIABLE: &str = "STORM_BENCH_FLOOR";
/// Receive requests that are ready.
const RECEIVES: u32 = 64;
/// Send requests under way.
const SENDS: u32 = 16;
/// Data up to this length travels inside its request, as on a lane.
const INLINE_BYTES: u32 = 220;
/// Bytes in front of the payload of a chunk, as long as its header.
const HEAD_BYTES: usize = 24;
/// Chunks under way, as many as blocks are granted.
const PLACES: u64 = 4;
/// Round trips before those that count.
const WARM_UP: u32 = 100;
/// The kind of a write: answered by a write of the same length.
const ECHO: u32 = 1;
/// A message that is to be answered by a message without bytes.
const CHUNK: u32 = 2;
/// Found in memory, and to be answered so.
const SHORT: u32 = 3;
/// The polls of memory between two polls of the queue.
const LOOKS: u32 = 16;

/// One end of the queue pair.
struct End {
    pair: QueuePair,
    queue: Arc<CompletionQueue>,
    /// Outgoing data is in front, incoming data behind it.
    own: Arc<MemoryRegion>,
    into: Arc<MemoryRegion>,
    to: RemoteAddr,
    /// Writes that have arrived and were not asked for yet.
    arrived: VecDeque<(u32, u32)>,
    /// Short messages that were sent, and that were found.
    sent: u32,
    found: u32,
}

/// Serves as the other end if this process is one.
///
/// # Errors
/// If the device cannot be opened, or a request fails.
pub fn serve_if_other_end() -> Result<bool> {
    let Ok(place_bytes) = std::env::var(VARIABLE) else { return Ok(false) };
    let mut stdin = std::io::stdin().lock();
    let mut end = End::connect(place_bytes.parse()?, &mut stdin, &mut std::io::stdout())?;
    // Runs until the starting side ends this process.
    loop {
        match end.next_of_any()? {
            (SHORT, len) => end.write_short(len as usize)?,
            (ECHO, len) => end.write(0..len as usize, 0, ECHO)?,
            _ => end.write(0..0, 0, CHUNK)?,
        }
    }
}

/// Measures the same as [`hop::run`](super::hop::run).
///
/// # Errors
/// If the device cannot be opened, or a request fails.
pub fn run(sizes: &[u64], rounds: u32, chunks: u32) -> Result<Vec<Figure>> {
    let chunk_bytes = VerbsConfig::default().chunk_bytes as usize;
    let longest = sizes.iter().map(|bytes| *bytes as usize).max().unwrap_or(0);
    let place_bytes = longest.max(chunk_bytes + HEAD_BYTES);
    let mut other = OtherEnd::start(VARIABLE, &place_bytes.to_string())?;
    let (mut from, mut to) = other.pipes()?;
    let mut end = End::connect(place_bytes, &mut from, &mut to)?;
    let mut figures = vec![bandwidth(&mut end, chunk_bytes, chunks)?];
    for bytes in sizes {
        figures.push(latency(&mut end, *bytes, rounds)?);
    }
    Ok(figures)
}

fn latency(end: &mut End, bytes: u64, rounds: u32) -> Result<Figure> {
    let mut trips = RoundTrips::begin(WARM_UP, rounds);
    for _ in 0..WARM_UP + rounds {
        if (8..=INLINE_BYTES as u64).contains(&bytes) {
            end.write_short(bytes as usize)?;
            end.next_of_any()?;
        } else {
            end.write(0..bytes as usize, 0, ECHO)?;
            end.next()?;
        }
        trips.end_one();
    }
    Ok(figure("floor, one way", 1, bytes, &trips.one_way_ns()?))
}

/// Measures chunks. The time of a chunk is the time between two grants of a place.
fn bandwidth(end: &mut End, bytes: usize, chunks: u32) -> Result<Figure> {
    let mut ns = Histogram::new(3)?;
    let (start, chunks) = (Instant::now(), u64::from(chunks));
    let mut last = start;
    for chunk in 0..chunks {
        if chunk >= PLACES {
            end.next()?;
        }
        end.write(0..HEAD_BYTES + bytes, chunk % PLACES, CHUNK)?;
        let now = Instant::now();
        ns.record(u64::try_from((now - last).as_nanos())?)?;
        last = now;
    }
    for _ in 0..PLACES.min(chunks) {
        end.next()?;
    }
    let mib = bytes as f64 * chunks as f64 / f64::from(1 << 20);
    let mib_s = Some(mib / start.elapsed().as_secs_f64());
    Ok(Figure { mib_s, ..figure("floor, a chunk of many", 1, bytes as u64, &ns) })
}

impl End {
    /// Each side sends the other its endpoint in one line. This side has `place_bytes` for each of
    /// the chunks under way.
    fn connect(place_bytes: usize, from: &mut impl BufRead, to: &mut impl Write) -> Result<End> {
        let device = Device::open(None)?;
        let port = device.active_port(1)?;
        let (gid_index, gid) = port_address::choose(&Wish::default(), &device, &port)?;
        let mut end = End::new(&device, &port, place_bytes)?;
        let own = Endpoint { number: end.pair.number(), first_packet: 0, gid, lid: port.attr.lid };
        let gid: String = gid.raw.iter().map(|byte| format!("{byte:02x}")).collect();
        let (addr, rkey) = (end.into.addr(), end.into.rkey());
        writeln!(to, "{} {gid} {} {addr} {rkey}", own.number, own.lid)?;
        to.flush()?;
        let mut line = String::new();
        from.read_line(&mut line)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [number, gid, lid, addr, rkey] = words[..] else { bail!("it says {line:?}") };
        let mut theirs = Endpoint { number: number.parse()?, lid: lid.parse()?, ..own };
        for (at, byte) in theirs.gid.raw.iter_mut().enumerate() {
            let digits = gid.get(2 * at..2 * at + 2).context("half an address")?;
            *byte = u8::from_str_radix(digits, 16)?;
        }
        end.to = RemoteAddr { addr: addr.parse()?, rkey: rkey.parse()? };
        let route = Route { gid_index, mtu: port.attr.active_mtu };
        end.pair.connect(&port, &route, &own, &theirs)?;
        // Neither side sends before the other can receive.
        writeln!(to, "ready")?;
        to.flush()?;
        from.read_line(&mut line)?;
        Ok(end)
    }

    fn new(device: &Arc<OpenDevice>, port: &Port, place_bytes: usize) -> Result<End> {
        let domain = ProtectionDomain::new(device)?;
        let channel = CompletionChannel::new(device)?;
        let queue = Arc::new(CompletionQueue::new(&channel, 0, SENDS + RECEIVES)?);
        let pair = QueuePair::new(&domain, &queue, SENDS, RECEIVES, INLINE_BYTES)?;
        pair.initialise(port)?;
        pair.post_receives(RECEIVES)?;
        let region = |bytes, access| MemoryRegion::new(&domain, bytes, access).map(Arc::new);
        let own = region(place_bytes, Access::Read)?;
        let into = region(place_bytes * PLACES as usize, Access::RemoteWrite)?;
        let (to, arrived) = (RemoteAddr { addr: 0, rkey: 0 }, VecDeque::new());
        Ok(End { pair, queue, own, into, to, arrived, sent: 0, found: 0 })
    }

    /// Writes `bytes` to the other side's place of this number. The range includes the header.
    fn write(&mut self, bytes: std::ops::Range<usize>, place: u64, what: u32) -> Result<()> {
        let place_bytes = (self.into.len() / PLACES as usize) as u64;
        let to = RemoteAddr { addr: self.to.addr + place * place_bytes, ..self.to };
        if bytes.end <= INLINE_BYTES as usize {
            let bytes = &[7; INLINE_BYTES as usize][bytes];
            self.pair.post_inline([bytes, &[]], to, Notice::Wakes(what))?;
            return Ok(());
        }
        let part = |range| Some(Source::Part(self.own.clone(), range));
        let sources: Sources = [part(0..HEAD_BYTES), part(HEAD_BYTES..bytes.end)];
        self.pair.post_write(sources, to, what)?;
        Ok(())
    }

    /// Writes `len` bytes, at least 8. The first bytes tell the receiver that the message is there.
    fn write_short(&mut self, len: usize) -> Result<()> {
        self.sent += 1;
        let head = u64::from(self.sent) << 32 | len as u64;
        let rest = &[7; INLINE_BYTES as usize][..len - 8];
        self.pair.post_inline([&head.to_le_bytes(), rest], self.to, Notice::Nothing)?;
        Ok(())
    }

    /// Like [`next`](Self::next), including short messages.
    fn next_of_any(&mut self) -> Result<(u32, u32)> {
        loop {
            for _ in 0..LOOKS {
                let head = self.into.word(0);
                if head >> 32 == u64::from(self.found) + 1 {
                    self.found += 1;
                    return Ok((SHORT, head as u32));
                }
            }
            if let Some(next) = self.look()? {
                return Ok(next);
            }
        }
    }

    /// Waits for the next write of the other side. Returns its kind and length.
    fn next(&mut self) -> Result<(u32, u32)> {
        loop {
            if let Some(next) = self.look()? {
                return Ok(next);
            }
        }
    }

    /// The next write that a completion reports, if there is one.
    fn look(&mut self) -> Result<Option<(u32, u32)>> {
        if self.arrived.is_empty() {
            let mut failed = None;
            self.queue.poll(|completion| match completion.outcome {
                Outcome::Sent => self.pair.completed(completion.id),
                Outcome::Written { immediate, len } => self.arrived.push_back((immediate, len)),
                other => failed = Some(other),
            })?;
            if let Some(failed) = failed {
                bail!("a request has failed: {failed:?}");
            }
        }
        let next = self.arrived.pop_front();
        if next.is_some() {
            self.pair.post_receives(1)?;
        }
        Ok(next)
    }
}
