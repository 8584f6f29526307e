//! The facts about a modelled job that the next node manager needs, if the present node manager
//! ends before the job (`docs/decisions/0139-takeover-in-the-simulated-machine.md`).
//!
//! The modelled ranks themselves know where they stand, and how much input they have taken.

use crate::{JobKey, JobTask, PmiStep};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use storm_rm::Rank;
use storm_rm::message::{Report, Stream};

/// Requests that change nothing. A rank with an open question is requested to repeat the question.
const QUESTIONS: [&str; 5] =
    ["cmd=get ", "cmd=get_maxes", "cmd=get_appnum", "cmd=get_my_kvsname", "cmd=get_universe_size"];
/// How much output is kept. The Machine Manager has handled older output, as on a real node.
const KEPT_BYTES: usize = 1 << 20;
/// How much each rank may add to it.
const KEPT_BYTES_PER_RANK: usize = 8 << 10;

/// The ledger of one job.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) task: Rc<JobTask>,
    /// Whether the keeper has ended the job because its lease ran out.
    pub(super) lease_over: Cell<bool>,
    pmi: RefCell<Vec<PmiStep>>,
    outputs: RefCell<Outputs>,
}

#[derive(Debug, Default)]
struct Outputs {
    kept: VecDeque<Report>,
    kept_bytes: usize,
    /// How many bytes of each stream have arrived. The flag is true for standard error.
    totals: BTreeMap<(Rank, bool), u64>,
}

impl Ledger {
    pub(super) fn new(task: Rc<JobTask>) -> Ledger {
        Ledger {
            task,
            lease_over: Cell::new(false),
            pmi: RefCell::default(),
            outputs: RefCell::default(),
        }
    }

    /// Logs a request, if it changes anything. Returns whether it is among the steps.
    pub(super) fn log_line(&self, rank: Rank, line: &str) -> bool {
        let text = line.trim_start();
        let is_logged = !QUESTIONS.iter().any(|question| text.starts_with(question));
        if is_logged {
            self.pmi.borrow_mut().push(PmiStep::Line { rank, line: line.to_owned() });
        }
        is_logged
    }

    /// Logs the end of a fence.
    pub(super) fn log_fence(&self, sequence: u64, puts: &[(String, String)]) {
        self.pmi.borrow_mut().push(PmiStep::FenceDone { sequence, puts: puts.to_vec() });
    }

    pub(super) fn pmi(&self) -> Vec<PmiStep> {
        self.pmi.borrow().clone()
    }

    /// Keeps output that left the pipe of a rank.
    pub(super) fn keep_output(&self, rank: Rank, stream: Stream, data: &Bytes) {
        let outputs = &mut *self.outputs.borrow_mut();
        let total = outputs.totals.entry((rank, stream == Stream::Stderr)).or_default();
        let offset = *total;
        *total += data.len() as u64;
        let (JobKey { step, incarnation }, data) = (self.task.key(), data.clone());
        outputs.kept_bytes += data.len();
        outputs.kept.push_back(Report::Output { step, incarnation, rank, stream, offset, data });
        let most = KEPT_BYTES + self.task.count as usize * KEPT_BYTES_PER_RANK;
        while outputs.kept_bytes > most
            && let Some(Report::Output { data, .. }) = outputs.kept.pop_front()
        {
            outputs.kept_bytes -= data.len();
        }
    }

    /// How many bytes of a stream have arrived.
    pub(super) fn output_offset(&self, rank: Rank, stream: Stream) -> u64 {
        let outputs = self.outputs.borrow();
        outputs.totals.get(&(rank, stream == Stream::Stderr)).copied().unwrap_or_default()
    }

    /// Output that may not have reached the Machine Manager.
    pub(super) fn outputs(&self) -> Vec<Report> {
        self.outputs.borrow().kept.iter().cloned().collect()
    }
}
