//! One job on a real node: its pad, its ranks' streams, its directory.

use super::ledger::{LaunchProgress, Ledger};
use super::rank_streams::RankStreams;
use super::shared_files::SharedFiles;
use crate::JobTask;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use storm_mpi::page::RankPage;
use storm_pl::boost::Process;
use storm_pl::{EncodedSpec, Freezer, PadId, PlIndex, ProcessId};
use storm_rm::Rank;

pub(super) struct LiveJob {
    pub(super) task: Rc<JobTask>,
    pub(super) pad: PadId,
    /// `None` for a job that was taken over after its pad had been given back.
    pub(super) freezer: Option<Arc<Freezer>>,
    /// `None` for a job that was taken over: its ranks have been launched.
    pub(super) spec: Option<EncodedSpec>,
    pub(super) program: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) streams: RefCell<BTreeMap<Rank, Rc<RankStreams>>>,
    pub(super) ranks: RefCell<BTreeMap<PlIndex, Rank>>,
    /// The processors that each rank of this node is bound to, in order; empty without binding.
    pub(super) cpus: Vec<Vec<u16>>,
    /// The way in which its ranks are ordered to wait for messages.
    pub(super) waiting: Vec<(&'static str, String)>,
    /// The memory that the job may use on this node, if it is limited.
    pub(super) memory_limit_bytes: Option<u64>,
    /// How many processes of the pad's former jobs were killed for too much memory.
    pub(super) memory_kills_before: u64,
    /// The page in which the ranks report what they do, if they have to.
    pub(super) page: Option<Arc<RankPage>>,
    /// The processes of ranks that have not ended.
    pub(super) processes: RefCell<BTreeMap<Rank, ProcessId>>,
    /// Whether the last switch stopped the job.
    pub(super) stopped: Cell<bool>,
    /// The files that the ranks share, if any.
    pub(super) shared_files: Option<Rc<SharedFiles>>,
    /// The ledger for the next node manager; `None` if the job ends with this node manager.
    pub(super) ledger: Option<Rc<Ledger>>,
    /// Whether the pad has been given back: it must not be stopped any more.
    pub(super) over: Cell<bool>,
}

impl LiveJob {
    pub(super) fn streams_of(&self, rank: Rank) -> Option<Rc<RankStreams>> {
        self.streams.borrow().get(&rank).cloned()
    }

    /// Opens the processes of ranks whose end this node has not received.
    pub(super) fn open_processes(&self) -> BTreeMap<Rank, Arc<Process>> {
        let processes = self.processes.borrow();
        let open = |(rank, pid): (&Rank, &ProcessId)| {
            let opened = Process::of(*pid).inspect_err(|error| {
                tracing::debug!(job = %self.task.key(), %rank, %error, "a rank is not followed");
            });
            Some((*rank, Arc::new(opened.ok()?)))
        };
        processes.iter().filter_map(open).collect()
    }

    /// Whether the keeper has been given all its ranks so far.
    pub(super) fn is_kept_whole(&self) -> bool {
        let told = self.ledger.as_ref().and_then(|ledger| ledger.progress().ok());
        told.is_some_and(|told| told != LaunchProgress::Unkept)
    }

    /// Notes that no more events of its ranks will arrive.
    pub(super) fn ranks_ended(&self) {
        self.streams.borrow().values().for_each(|streams| streams.rank_ended());
    }

    /// The processors that the rank is bound to.
    pub(super) fn cpus_of(&self, rank: Rank) -> Vec<u16> {
        let index = rank.0.saturating_sub(self.task.first.0) as usize;
        self.cpus.get(index).cloned().unwrap_or_default()
    }

    pub(super) fn rank_of(&self, pl: PlIndex) -> Option<Rank> {
        self.ranks.borrow().get(&pl).copied()
    }
}
