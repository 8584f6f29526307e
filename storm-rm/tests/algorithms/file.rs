//! Files in memory, the Machine Manager's side of a transfer, and Node Managers
//! that do nothing but receive files.

use crate::cluster::{Cluster, spawn_on};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::sim::{SimPrimitives, SimRuntime};
use storm_primitives::{Instant, NodeId, NodeSet, Primitives, Runtime, Task};
use storm_rm::file_transfer::{
    ChunkSink, ChunkSource, TransferError, TransferTimes, mark_failed, mark_present,
    prepare_channel, receive_file, transfer_file,
};
use storm_rm::heartbeat::{HeartbeatError, heartbeat_handled, issue_heartbeat, receive_heartbeat};
use storm_rm::message::{Command, Heartbeat, ReceiveFile};
use storm_rm::remote_queue::{Reader, Writer};
use storm_rm::{
    Channel, ContentHash, Destination, FileSpec, Generation, GlobalPlan, OsBytes, Owner,
};

/// A file that is read in some virtual time per chunk.
pub(crate) struct MemorySource {
    pub(crate) content: Bytes,
    pub(crate) runtime: SimRuntime,
    pub(crate) read_time: Duration,
    /// When each read began and ended.
    pub(crate) reads: Rc<RefCell<Vec<(Instant, Instant)>>>,
}

impl ChunkSource for MemorySource {
    async fn read(&mut self, len: usize) -> io::Result<Bytes> {
        let began = self.runtime.now();
        self.runtime.sleep(self.read_time).await;
        self.reads.borrow_mut().push((began, self.runtime.now()));
        Ok(self.content.split_to(len.min(self.content.len())))
    }
}

/// The files on the nodes' disks, and the disks that fail.
#[derive(Clone, Default)]
pub(crate) struct Disks {
    files: Rc<RefCell<BTreeMap<(NodeId, ContentHash), Bytes>>>,
    writes: Rc<RefCell<BTreeMap<NodeId, u64>>>,
    fails_at: Rc<RefCell<BTreeMap<NodeId, u64>>>,
    slow: Rc<Cell<bool>>,
}

impl Disks {
    /// Lets writing take longer than all questions of the master.
    pub(crate) fn slow_down(&self) {
        self.slow.set(true);
    }

    pub(crate) fn put(&self, node: NodeId, content: &Bytes) {
        let hash = ContentHash::of(content);
        self.files.borrow_mut().insert((node, hash), content.clone());
    }

    pub(crate) fn has(&self, node: NodeId, content: &[u8]) -> bool {
        let hash = ContentHash::of(content);
        self.files.borrow().get(&(node, hash)).is_some_and(|file| *file == content)
    }

    /// Chunks written by a node so far.
    pub(crate) fn writes(&self, node: NodeId) -> u64 {
        self.writes.borrow().get(&node).copied().unwrap_or(0)
    }

    /// Lets the write number `write` of `node` fail, or its finish when there are
    /// not so many.
    pub(crate) fn fail(&self, node: NodeId, write: u64) {
        self.fails_at.borrow_mut().insert(node, write);
    }
}

struct DiskSink {
    cluster: Cluster,
    node: SimPrimitives,
    disks: Disks,
    hash: ContentHash,
    written: Vec<u8>,
}

impl ChunkSink for DiskSink {
    async fn write(&mut self, chunks: Vec<Bytes>) -> io::Result<()> {
        let longest = Duration::from_micros(if self.disks.slow.get() { 5000 } else { 100 });
        self.cluster.pause(&self.node, longest).await;
        let node = self.node.node();
        let number = self.disks.writes(node);
        self.disks.writes.borrow_mut().insert(node, number + 1);
        if self.disks.fails_at.borrow().get(&node) == Some(&number) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.extend(chunks.iter().flatten());
        Ok(())
    }

    async fn finish(&mut self) -> io::Result<()> {
        let node = self.node.node();
        let fails = self.disks.fails_at.borrow().contains_key(&node);
        if fails || ContentHash::of(&self.written) != self.hash {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.disks.put(node, &Bytes::from(std::mem::take(&mut self.written)));
        Ok(())
    }
}

/// Algorithms 5 and 7 on every compute node.
pub(crate) fn start_receivers(cluster: &Cluster, plan: &GlobalPlan, disks: &Disks) {
    for node in cluster.compute().iter() {
        let node = cluster.network.node(node);
        let serving = serve(cluster.clone(), node.clone(), plan.clone(), disks.clone());
        spawn_on(&node, serving).detach();
    }
}

async fn serve(cluster: Cluster, node: SimPrimitives, plan: GlobalPlan, disks: Disks) {
    let mut queue = Reader::new(node.clone(), &plan.heartbeats);
    let mut receiving: Option<Task> = None;
    while let Ok((heartbeat, item)) = receive_heartbeat(&mut queue).await {
        for (set, command) in &heartbeat.commands {
            if let Command::ReceiveFile(info) = command
                && set.contains(node.node())
            {
                // The last file's task must not touch the channel any more.
                drop(receiving.take());
                receiving = begin(&cluster, &node, &plan, &disks, info);
            }
        }
        heartbeat_handled(&node, &plan, &heartbeat);
        queue.release(item);
    }
    drop(receiving);
}

fn begin(
    cluster: &Cluster,
    node: &SimPrimitives,
    plan: &GlobalPlan,
    disks: &Disks,
    info: &ReceiveFile,
) -> Option<Task> {
    let hash = info.file.hash;
    if disks.files.borrow().contains_key(&(node.node(), hash)) {
        mark_present(node, plan, info);
        return None;
    }
    let mut reader = prepare_channel(node, plan, info).expect("the channel exists");
    let (disks, cluster) = (disks.clone(), cluster.clone());
    let mut sink = DiskSink { cluster, node: node.clone(), disks, hash, written: Vec::new() };
    let (node, plan, info) = (node.clone(), plan.clone(), info.clone());
    Some(spawn_on(&node.clone(), async move {
        match receive_file(&mut reader, &info, &mut sink).await {
            Ok(()) => mark_present(&node, &plan, &info),
            Err(_) => mark_failed(&node, &plan, &info),
        }
    }))
}

/// The Machine Manager's side.
pub(crate) struct Sender {
    pub(crate) mm: SimPrimitives,
    pub(crate) plan: GlobalPlan,
    pub(crate) read_time: Duration,
    pub(crate) reads: Rc<RefCell<Vec<(Instant, Instant)>>>,
    /// The file has become shorter since it was announced.
    pub(crate) truncate_source_at: Option<usize>,
    heartbeats: Writer<SimPrimitives>,
    number: u64,
}

impl Sender {
    pub(crate) fn new(cluster: &Cluster, plan: &GlobalPlan) -> Sender {
        let mm = cluster.mm();
        let heartbeats = Writer::new(mm.clone(), &plan.heartbeats);
        let (plan, reads) = (plan.clone(), Rc::default());
        let read_time = Duration::from_micros(50);
        let truncate_source_at = None;
        Sender { mm, plan, read_time, reads, truncate_source_at, heartbeats, number: 0 }
    }

    /// Announces `content` to `set` and transfers it, as a new generation.
    pub(crate) async fn send(
        &mut self,
        set: &NodeSet,
        content: &Bytes,
    ) -> Result<TransferTimes, TransferError> {
        self.send_through(&self.mm.clone(), set, content).await
    }

    /// The same, with the transfer itself through other primitives.
    pub(crate) async fn send_through<P: Primitives>(
        &mut self,
        primitives: &P,
        set: &NodeSet,
        content: &Bytes,
    ) -> Result<TransferTimes, TransferError> {
        self.number += 1;
        let info = announcement(Generation(self.number), content, self.plan.config.chunk_bytes);
        let commands = vec![(set.clone(), Command::ReceiveFile(info.clone()))];
        let heartbeat = Heartbeat { number: self.number, issued_ns: 0, commands };
        let issued = issue_heartbeat(&self.mm, &mut self.heartbeats, set, &heartbeat).await;
        match issued {
            Ok(()) => {}
            Err(HeartbeatError::NotDelivered(error)) => return Err(error.into()),
            Err(error) => panic!("{error}"),
        }
        let mut source = MemorySource {
            content: content.slice(..self.truncate_source_at.unwrap_or(content.len())),
            runtime: self.mm.runtime().clone(),
            read_time: self.read_time,
            reads: self.reads.clone(),
        };
        transfer_file(primitives, &self.plan, set, &info, &mut source).await
    }
}

fn announcement(generation: Generation, content: &[u8], chunk_bytes: u32) -> ReceiveFile {
    let file = FileSpec {
        hash: ContentHash::of(content),
        size_bytes: content.len() as u64,
        mode: 0o755,
        name: OsBytes::from("file"),
        destination: Destination::JobDirectory,
    };
    let owner = Owner { uid: 1000, gid: 1000 };
    ReceiveFile { channel: Channel(1), generation, file, owner, chunk_bytes, sum: None }
}

/// Content that differs from seed to seed and from chunk to chunk.
pub(crate) fn content(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}
