//! Bringing a job's files to its nodes (Algorithm 6), a few files at a time.

use super::Shared;
use super::stall::{Movement, MovingSource, STALL_LIMIT};
use crate::{StageJob, StageOutcome};
use futures_util::future::{Either, select};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;
use storm_primitives::{PrimitiveError, Primitives, Runtime};
use storm_rm::file_transfer::{ChunkSource, TransferError, transfer_file};
use storm_rm::message::{Command, ReceiveFile};
use storm_rm::remote_queue::EnqueueError;
use storm_rm::{Channel, ContentHash, FileSpec, Generation};

/// Where the manager keeps the contents that clients sent it.
pub trait Contents {
    /// An open content.
    type Source: ChunkSource;

    /// Opens a content that user `uid` sent.
    fn open(&self, uid: u32, hash: &ContentHash) -> impl Future<Output = io::Result<Self::Source>>;

    /// Called at intervals. May remove contents that `needed` does not name, by user and content,
    /// where room is short.
    ///
    /// # Errors
    /// The storage failed.
    fn make_room(
        &self,
        needed: HashSet<(u32, ContentHash)>,
    ) -> impl Future<Output = io::Result<()>>;
}

/// Time between two checks of the room that contents take.
const TENDING_INTERVAL: Duration = Duration::from_secs(30);

/// Removes contents that no job needs any more, for as long as the manager runs.
pub(super) async fn tend<P: Primitives, C: Contents + 'static>(shared: Rc<Shared<P, C>>) {
    let runtime = shared.primitives.runtime().clone();
    loop {
        runtime.sleep(TENDING_INTERVAL).await;
        let needed = shared.core().needed_contents();
        if let Err(error) = shared.staging.contents.make_room(needed).await {
            tracing::warn!(%error, "files that no job needs are not removed");
        }
    }
}

/// Files on their way to nodes.
pub(super) struct Staging<C> {
    contents: C,
    channels: Channels,
    failures: FileFailures,
}

impl<C> Staging<C> {
    pub(super) fn new(contents: C, channels: u32) -> Staging<C> {
        let (channels, failures) = (Channels::new(channels), FileFailures::default());
        Staging { contents, channels, failures }
    }

    /// The contents that clients sent.
    pub(super) fn contents(&self) -> &C {
        &self.contents
    }

    /// Records a node's failure to write a file. Failures of earlier uses of the channel are
    /// dropped.
    pub(super) fn note_failure(&self, channel: Channel, generation: Generation, reason: String) {
        self.failures.note(channel, generation, reason);
    }
}

/// The channels of the plan, each used by one transfer at a time, and the count of their uses.
struct Channels {
    free: RefCell<Vec<Channel>>,
    waiting: RefCell<VecDeque<Waker>>,
    generation: Cell<u64>,
}

impl Channels {
    fn new(channels: u32) -> Channels {
        Channels {
            free: RefCell::new((0..channels).rev().map(Channel).collect()),
            waiting: RefCell::default(),
            generation: Cell::new(0),
        }
    }

    async fn take(&self) -> Lease<'_> {
        let channel = std::future::poll_fn(|cx| match self.free.borrow_mut().pop() {
            Some(channel) => Poll::Ready(channel),
            None => {
                self.waiting.borrow_mut().push_back(cx.waker().clone());
                Poll::Pending
            }
        })
        .await;
        self.generation.set(self.generation.get() + 1);
        Lease { channels: self, channel, generation: Generation(self.generation.get()) }
    }
}

/// One use of a channel; free again when dropped.
struct Lease<'a> {
    channels: &'a Channels,
    channel: Channel,
    generation: Generation,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.channels.free.borrow_mut().push(self.channel);
        // Wakes all waiters, since one may have been cancelled.
        self.channels.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

/// The failures of each channel's latest transfer, as nodes report them.
#[derive(Default)]
struct FileFailures {
    reasons: RefCell<BTreeMap<Channel, (Generation, Vec<String>)>>,
}

impl FileFailures {
    /// Records a node's failure. Failures of earlier uses of the channel are dropped.
    fn note(&self, channel: Channel, generation: Generation, reason: String) {
        let mut all = self.reasons.borrow_mut();
        let (newest, reasons) = all.entry(channel).or_insert((generation, Vec::new()));
        if *newest < generation {
            *newest = generation;
            reasons.clear();
        }
        if *newest == generation {
            reasons.push(reason);
        }
    }

    fn take(&self, channel: Channel, generation: Generation) -> Option<Vec<String>> {
        let mut all = self.reasons.borrow_mut();
        let found = all.get(&channel).is_some_and(|(newest, _)| *newest == generation);
        if found { all.remove(&channel).map(|(_, reasons)| reasons) } else { None }
    }
}

/// Longest time until the core has received a death that a transfer met.
const DEATH_KNOWN: Duration = Duration::from_secs(10);

/// Brings all files of a job to its nodes and reports the outcome to the core.
pub(super) async fn run<P: Primitives, C: super::Contents + 'static>(
    shared: Rc<Shared<P, C>>,
    stage: StageJob,
) {
    let mut outcome = StageOutcome::default();
    let mut result = Ok(());
    for file in &stage.files {
        result = stage_file(&shared, &stage, file, &mut outcome).await;
        if result.is_err() {
            break;
        }
    }
    let result = result.map(|()| outcome);
    shared.drive(|core, now| core.staged(now, stage.job, stage.incarnation, result));
}

async fn stage_file<P: Primitives, C: super::Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    stage: &StageJob,
    file: &FileSpec,
    outcome: &mut StageOutcome,
) -> Result<(), String> {
    let name = file.name.to_string_lossy().into_owned();
    let asked = shared.now();
    let source = shared
        .staging
        .contents
        .open(stage.owner.uid, &file.hash)
        .await
        .map_err(|error| format!("{name} is not in the manager's spool: {error}"))?;
    outcome.read += shared.now() - asked;
    let lease = shared.staging.channels.take().await;
    let info = ReceiveFile {
        channel: lease.channel,
        generation: lease.generation,
        file: file.clone(),
        owner: stage.owner,
        chunk_bytes: shared.plan.config.chunk_bytes,
        sum: source.sum(),
    };
    shared.say(stage.nodes.clone(), Command::ReceiveFile(info.clone()));
    let runtime = shared.primitives.runtime().clone();
    let movement = Movement::begin(shared.now());
    let mut source = MovingSource { source, movement: &movement, runtime: runtime.clone() };
    let transfer =
        transfer_file(&shared.primitives, &shared.plan, &stage.nodes, &info, &mut source);
    let moved = match select(pin!(transfer), pin!(movement.stalled(&runtime))).await {
        Either::Left((moved, _)) => moved,
        Either::Right(((), _)) => {
            let seconds = STALL_LIMIT.as_secs();
            return Err(format!(
                "sending {name} has made no progress for {seconds} s, though its nodes answer: \
                 does one of their disks hang?"
            ));
        }
    };
    match moved {
        Ok(times) => {
            outcome.read += times.read;
            outcome.send += times.send;
            outcome.write += times.write;
            let bytes = if times.sent_to.is_empty() {
                &mut outcome.skipped_bytes
            } else {
                &mut outcome.sent_bytes
            };
            *bytes += file.size_bytes;
            Ok(())
        }
        Err(error) => {
            if met_a_death(&error) {
                // The core receives the death through the membership, blames the node and ends this
                // task.
                shared.primitives.runtime().sleep(DEATH_KNOWN).await;
            }
            Err(explain(shared, &name, &info, error).await)
        }
    }
}

fn met_a_death(error: &TransferError) -> bool {
    match error {
        TransferError::Network(error) | TransferError::Enqueue(EnqueueError::Network(error)) => {
            matches!(error, PrimitiveError::NodesDead { .. })
        }
        TransferError::Source(_)
        | TransferError::Enqueue(EnqueueError::TooLarge { .. })
        | TransferError::NotWritten { .. }
        | TransferError::NoSuchChannel(_) => false,
    }
}

/// The reason of a failed transfer in words; the node's own reason where it gave one.
async fn explain<P: Primitives, C: super::Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    name: &str,
    info: &ReceiveFile,
    error: TransferError,
) -> String {
    if let TransferError::NotWritten { nodes } = &error {
        // The flag is set with the report on its way: give it a moment.
        shared.primitives.runtime().sleep(super::nodes::REPORT_DELAY).await;
        if let Some(reasons) = shared.staging.failures.take(info.channel, info.generation) {
            return format!("{name} could not be written: {}", reasons.join("; "));
        }
        let nodes = shared.core().names_of_nodes(nodes);
        return format!("{name} could not be written on {nodes}");
    }
    if let TransferError::Network(cause) | TransferError::Enqueue(EnqueueError::Network(cause)) =
        &error
        && let PrimitiveError::TimedOut { nodes } = cause
    {
        let nodes = shared.core().names_of_nodes(nodes);
        return format!("{name} could not be sent: some of {nodes} did not answer in time");
    }
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    format!("{name} could not be sent: {error}{}", cause.unwrap_or_default())
}
