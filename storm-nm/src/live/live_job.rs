//! One job on a real node: its pad, its ranks' streams, its directory.

use super::ledger::Ledger;
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
    /// None of a job that was taken over when its pad was no longer its own.
    pub(super) freezer: Option<Arc<Freezer>>,
    /// None of a job that was taken over: its ranks have been launched.
    pub(super) spec: Option<EncodedSpec>,
    pub(super) program: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) streams: RefCell<BTreeMap<Rank, Rc<RankStreams>>>,
    pub(super) ranks: RefCell<BTreeMap<PlIndex, Rank>>,
    /// What each rank of this node is bound to, in order; empty when they are not.
    pub(super) cpus: Vec<Vec<u16>>,
    /// How its ranks are told to wait for messages.
    pub(super) waiting: Vec<(&'static str, String)>,
    /// The memory that it may have on this node, where that is limited.
    pub(super) memory_limit_bytes: Option<u64>,
    /// Processes of former jobs of the pad that were killed for too much of it.
    pub(super) memory_kills_before: u64,
    /// Where its ranks say what they do, where they are asked to.
    pub(super) page: Option<Arc<RankPage>>,
    /// The processes of ranks that have not ended.
    pub(super) processes: RefCell<BTreeMap<Rank, ProcessId>>,
    /// What the last switch did to it.
    pub(super) stopped: Cell<bool>,
    /// The files that its ranks share, where they do.
    pub(super) shared_files: Option<Rc<SharedFiles>>,
    /// What the next node manager has to know of it; none where it ends with this one.
    pub(super) ledger: Option<Rc<Ledger>>,
    /// The pad has been given back: it must not be stopped any more.
    pub(super) over: Cell<bool>,
}

impl LiveJob {
    pub(super) fn streams_of(&self, rank: Rank) -> Option<Rc<RankStreams>> {
        self.streams.borrow().get(&rank).cloned()
    }

    /// Descriptors of the processes of ranks that have not ended, as far as this node has heard.
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

    /// None of its ranks will be heard of any more.
    pub(super) fn ranks_ended(&self) {
        self.streams.borrow().values().for_each(|streams| streams.rank_ended());
    }

    /// What the rank is bound to.
    pub(super) fn cpus_of(&self, rank: Rank) -> Vec<u16> {
        let index = rank.0.saturating_sub(self.task.first.0) as usize;
        self.cpus.get(index).cloned().unwrap_or_default()
    }

    pub(super) fn rank_of(&self, pl: PlIndex) -> Option<Rank> {
        self.ranks.borrow().get(&pl).copied()
    }
}
