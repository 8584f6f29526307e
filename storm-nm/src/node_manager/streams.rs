//! Output of the ranks up, input down. Both have a bound: output by leaving it in
//! the rank's pipe, input by ending a job that does not read what it is sent.

use super::Node;
use crate::bell::Bell;
use crate::core::Event;
use crate::{Host, JobKey, JobTask};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use storm_primitives::Primitives;
use storm_rm::message::{Report, Stream};
use storm_rm::termination::Urgency;
use storm_rm::{InputSpec, Rank};

/// Most output read from a rank at once: with many ranks writing, this times
/// their number is what the backlog may exceed its bound by.
const READ_BYTES_MAX: usize = 4096;
/// What a report of output holds beside the output.
const OUTPUT_HEAD_BYTES: usize = 64;

/// Input on its way to the ranks.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    queues: RefCell<BTreeMap<(JobKey, Rank), Rc<InputQueue>>>,
}

#[derive(Debug, Default)]
struct InputQueue {
    pending: RefCell<VecDeque<Piece>>,
    news: Bell,
}

#[derive(Debug)]
enum Piece {
    Data(Bytes),
    End,
}

/// The jobs whose client does not keep up.
#[derive(Debug, Default)]
pub(super) struct HeldOutputs {
    jobs: RefCell<BTreeSet<JobKey>>,
    changed: Bell,
}

impl Inputs {
    fn queue(&self, job: JobKey, rank: Rank) -> Rc<InputQueue> {
        self.queues.borrow_mut().entry((job, rank)).or_default().clone()
    }

    /// Drops what a job has not read.
    pub(super) fn forget(&self, job: JobKey) {
        self.queues.borrow_mut().retain(|(key, _), queue| {
            if *key == job {
                queue.pending.borrow_mut().clear();
                queue.push(Piece::End);
            }
            *key != job
        });
    }
}

impl InputQueue {
    fn bytes(&self) -> usize {
        let size = |piece: &Piece| match piece {
            Piece::Data(data) => data.len(),
            Piece::End => 0,
        };
        self.pending.borrow().iter().map(size).sum()
    }

    fn push(&self, piece: Piece) {
        self.pending.borrow_mut().push_back(piece);
        self.news.ring();
    }

    async fn next(&self) -> Piece {
        self.news.until(|| self.pending.borrow_mut().pop_front()).await
    }
}

impl<P: Primitives, H: Host> Node<P, H> {
    /// Starts to serve the streams of a job's ranks.
    pub(super) fn open_streams(self: &Rc<Self>, task: &Rc<JobTask>) {
        let key = task.key();
        for rank in task.ranks() {
            if task.output_to_client() {
                for stream in [Stream::Stdout, Stream::Stderr] {
                    self.spawn(|node| async move { node.pump_output(key, rank, stream).await });
                }
            }
            let reads = match task.spec().input {
                InputSpec::None => false,
                InputSpec::RankZero => rank.0 == 0,
                InputSpec::All => true,
            };
            if reads {
                self.spawn(|node| async move { node.pump_input(key, rank).await });
            }
        }
    }

    /// Queues input for ranks.
    pub(super) fn input(self: &Rc<Self>, job: JobKey, ranks: &[Rank], data: &Bytes, eof: bool) {
        for rank in ranks {
            let queue = self.inputs.queue(job, *rank);
            if queue.bytes() + data.len() > self.config.input_backlog_bytes {
                tracing::error!(%job, %rank, "the rank does not read its input: the job is ended");
                self.handle(Event::Unserviceable { job, reason: "input".to_owned() });
                return;
            }
            if !data.is_empty() {
                queue.push(Piece::Data(data.clone()));
            }
            if eof || data.is_empty() {
                queue.push(Piece::End);
            }
        }
    }

    /// Stops reading the output of a job, or goes on.
    pub(super) fn hold_output(&self, job: JobKey, hold: bool) {
        if hold {
            self.held.jobs.borrow_mut().insert(job);
        } else {
            self.held.jobs.borrow_mut().remove(&job);
        }
        self.held.changed.ring();
    }

    async fn pump_input(&self, job: JobKey, rank: Rank) {
        let queue = self.inputs.queue(job, rank);
        loop {
            match queue.next().await {
                Piece::Data(data) => self.host.write_input(job, rank, data).await,
                Piece::End => break self.host.close_input(job, rank),
            }
        }
    }

    async fn pump_output(self: &Rc<Self>, key: JobKey, rank: Rank, stream: Stream) {
        let room = (self.plan.config.report_bytes as usize).saturating_sub(OUTPUT_HEAD_BYTES);
        let limit = READ_BYTES_MAX.min(room.max(1));
        let may_read = || (!self.held.jobs.borrow().contains(&key)).then_some(());
        loop {
            self.held.changed.until(may_read).await;
            self.outbox.room().await;
            let Some(data) = self.host.read_output(key, rank, stream, limit).await else { break };
            let report = Report::Output { job: key.job, rank, stream, data };
            self.post(report, Urgency::AtOnce);
        }
        self.handle(Event::StreamEnded { job: key, rank, stream });
    }
}
