//! Standard input on its way to the ranks. The Machine Manager receives reports of how much the
//! ranks have taken, and sends at most a window more (`storm_rm::input_flow`). A job that does not
//! read, because it is busy or stopped, therefore makes its client wait.
//!
//! The input of a rank that is gone or has closed its input is discarded. The other ranks and the
//! client continue.

use super::Node;
use crate::{Host, InheritedInput, JobKey};
use bytes::Bytes;
use futures_util::future::select;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::rc::Rc;
use storm_primitives::{Bell, Primitives};
use storm_rm::Rank;
use storm_rm::input_flow::REPORT_BYTES;
use storm_rm::message::Report;
use storm_rm::termination::Urgency;

/// Input on its way to the ranks of all jobs.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    jobs: RefCell<BTreeMap<JobKey, Rc<JobInput>>>,
}

#[derive(Debug, Default)]
struct JobInput {
    readers: RefCell<BTreeMap<Rank, Rc<Reader>>>,
    /// The number of bytes taken by all ranks that was last reported.
    reported_bytes: Cell<u64>,
}

/// The input of one rank.
#[derive(Debug, Default)]
struct Reader {
    pending: RefCell<VecDeque<Piece>>,
    received_bytes: Cell<u64>,
    taken_bytes: Cell<u64>,
    /// Whether the rank reads no more, so that its input is discarded.
    over: Cell<bool>,
    changed: Bell,
}

#[derive(Debug)]
enum Piece {
    Data(Bytes),
    End,
}

impl Inputs {
    fn reader(&self, job: JobKey, rank: Rank) -> Rc<Reader> {
        let input = self.jobs.borrow_mut().entry(job).or_default().clone();
        let mut readers = input.readers.borrow_mut();
        readers.entry(rank).or_default().clone()
    }

    /// Drops the input that a job has not read.
    pub(super) fn forget(&self, job: JobKey) {
        if let Some(input) = self.jobs.borrow_mut().remove(&job) {
            input.readers.borrow().values().for_each(|reader| reader.end());
        }
    }

    /// Takes over the number of bytes that a former node manager has handed to a rank.
    pub(super) fn inherit(&self, job: JobKey, input: InheritedInput) {
        let reader = self.reader(job, input.rank);
        reader.received_bytes.set(input.taken_bytes);
        reader.taken_bytes.set(input.taken_bytes);
    }

    /// The number of bytes that all ranks of the job have taken. The number counts as reported.
    fn taken(&self, job: JobKey) -> Option<u64> {
        let input = self.jobs.borrow().get(&job)?.clone();
        let taken = input.readers.borrow().values().map(|reader| reader.taken_bytes.get()).min()?;
        input.reported_bytes.set(taken);
        Some(taken)
    }

    /// The number of bytes that all ranks of the job have taken, if it is worth a report.
    fn progress(&self, job: JobKey) -> Option<u64> {
        let input = self.jobs.borrow().get(&job)?.clone();
        let taken = input.readers.borrow().values().map(|reader| reader.taken_bytes.get()).min()?;
        (taken >= input.reported_bytes.get() + REPORT_BYTES).then(|| {
            input.reported_bytes.set(taken);
            taken
        })
    }
}

impl Reader {
    fn push(&self, piece: Piece) {
        if let Piece::Data(data) = &piece {
            self.received_bytes.set(self.received_bytes.get() + data.len() as u64);
        }
        if self.over.get() {
            self.taken_bytes.set(self.received_bytes.get());
        } else {
            self.pending.borrow_mut().push_back(piece);
            self.changed.ring();
        }
    }

    /// The next piece; `None` once the rank reads no more.
    async fn next(&self) -> Option<Piece> {
        let next = || match self.over.get() {
            true => Some(None),
            false => self.pending.borrow_mut().pop_front().map(Some),
        };
        self.changed.until(next).await
    }

    async fn ended(&self) {
        self.changed.until(|| self.over.get().then_some(())).await;
    }

    fn took(&self, len: usize) {
        if !self.over.get() {
            self.taken_bytes.set(self.taken_bytes.get() + len as u64);
        }
    }

    fn end(&self) {
        self.over.set(true);
        self.pending.borrow_mut().clear();
        self.taken_bytes.set(self.received_bytes.get());
        self.changed.ring();
    }
}

impl<P: Primitives, H: Host> Node<P, H> {
    /// Starts to hand input to a rank.
    pub(super) fn open_input(self: &Rc<Self>, job: JobKey, rank: Rank) {
        let reader = self.streams.inputs().reader(job, rank);
        self.spawn(|node| async move { node.pump_input(job, rank, &reader).await });
    }

    /// Reports to the Machine Manager how much of a job's input all of these ranks have taken. The
    /// Machine Manager waits for this report before it sends more.
    pub(super) fn tell_input(self: &Rc<Self>, key: JobKey, ranks: &[Rank]) {
        if ranks.is_empty() {
            return;
        }
        let taken_bytes = self.streams.inputs().taken(key).unwrap_or(0);
        let JobKey { step, incarnation } = key;
        self.post(Report::InputTaken { step, incarnation, taken_bytes }, Urgency::AtOnce);
    }

    /// Queues input for ranks, without the part that they have received already if its offset is
    /// known.
    pub(super) fn input(
        self: &Rc<Self>,
        job: JobKey,
        ranks: &[Rank],
        (offset, data): (Option<u64>, &Bytes),
        eof: bool,
    ) {
        for rank in ranks {
            let reader = self.streams.inputs().reader(job, *rank);
            let known = offset.map_or(0, |at| reader.received_bytes.get().saturating_sub(at));
            let known = usize::try_from(known).unwrap_or(usize::MAX).min(data.len());
            let data = data.slice(known..);
            if !data.is_empty() {
                reader.push(Piece::Data(data.clone()));
            }
            if eof {
                reader.push(Piece::End);
            }
        }
        self.report_input(job);
    }

    /// Discards the input of a rank that is gone, even if a child of it keeps the pipe.
    pub(super) fn drop_input(self: &Rc<Self>, job: JobKey, rank: Rank) {
        self.streams.inputs().reader(job, rank).end();
        self.report_input(job);
    }

    async fn pump_input(self: &Rc<Self>, job: JobKey, rank: Rank, reader: &Reader) {
        while let Some(Piece::Data(data)) = reader.next().await {
            let len = data.len();
            let write = pin!(self.host.write_input(job, rank, data));
            // In both cases the rank is not given this piece again.
            let _ = select(write, pin!(reader.ended())).await;
            reader.took(len);
            self.report_input(job);
        }
        reader.end();
        self.host.close_input(job, rank);
        self.report_input(job);
    }

    fn report_input(self: &Rc<Self>, key: JobKey) {
        if let Some(taken_bytes) = self.streams.inputs().progress(key) {
            let JobKey { step, incarnation } = key;
            self.post(Report::InputTaken { step, incarnation, taken_bytes }, Urgency::AtOnce);
        }
    }
}
