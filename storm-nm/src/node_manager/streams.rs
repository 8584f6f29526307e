//! Output of the ranks on its way up. A rank's pipe is the bound: output stays there while the
//! network or the client does not keep up.

use super::Node;
use super::inputs::Inputs;
use crate::core::Event;
use crate::outbox::Outbox;
use crate::{Host, JobKey, JobTask};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use storm_primitives::{Bell, Primitives};
use storm_rm::Rank;
use storm_rm::message::{Report, Stream};
use storm_rm::termination::Urgency;

/// Most output that is read from a rank at once. If many ranks write, the backlog may exceed its
/// bound by this times their number.
const READ_BYTES_MAX: usize = 4096;
/// Bytes of an output report besides the output.
const OUTPUT_HEAD_BYTES: usize = 64;

/// The bytes of ranks, and other reports, on their way.
pub(super) struct Streams {
    outbox: Outbox,
    inputs: Inputs,
    held: HeldOutputs,
}

impl Streams {
    /// Nothing is on its way; reports leave by this outbox.
    pub(super) fn new(outbox: Outbox) -> Streams {
        Streams { outbox, inputs: Inputs::default(), held: HeldOutputs::default() }
    }

    /// Reports on their way to the Machine Manager.
    pub(super) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Drops what is left of the output of a job that is over.
    pub(super) fn forget_output(&self, job: JobKey) {
        self.held.jobs.borrow_mut().remove(&job);
        self.held.cut.borrow_mut().remove(&job);
        self.held.changed.ring();
    }

    /// Input on its way to ranks.
    pub(super) fn inputs(&self) -> &Inputs {
        &self.inputs
    }
}

/// The jobs whose client does not keep up, or may return.
#[derive(Debug, Default)]
struct HeldOutputs {
    jobs: RefCell<BTreeSet<JobKey>>,
    /// Output of jobs whose Machine Manager was lost: it was read and not sent.
    cut: RefCell<BTreeMap<JobKey, Vec<Report>>>,
    changed: Bell,
}

impl HeldOutputs {
    fn is_held(&self, job: JobKey) -> bool {
        self.jobs.borrow().contains(&job) || self.cut.borrow().contains_key(&job)
    }

    /// Keeps a report of a job whose output is cut. Returns the report of any other job.
    fn keep(&self, job: JobKey, report: Report) -> Option<Report> {
        match self.cut.borrow_mut().get_mut(&job) {
            Some(kept) => {
                kept.push(report);
                None
            }
            None => Some(report),
        }
    }
}

impl<P: Primitives, H: Host> Node<P, H> {
    /// Starts to serve the streams of a job's ranks.
    pub(super) fn open_streams(self: &Rc<Self>, task: &Rc<JobTask>) {
        let key = task.key();
        if task.shares_files() {
            let first = task.first;
            self.spawn(|node| async move { node.await_files(key, first).await });
        }
        for rank in task.ranks() {
            if task.output_to_client() {
                for stream in [Stream::Stdout, Stream::Stderr] {
                    self.spawn(|node| async move { node.pump_output(key, rank, stream).await });
                }
            }
            if task.reads_input(rank) {
                self.open_input(key, rank);
            }
        }
    }

    /// Stops reading the output of a job, or continues.
    pub(super) fn hold_output(self: &Rc<Self>, job: JobKey, hold: bool) {
        if hold {
            self.streams.held.jobs.borrow_mut().insert(job);
        } else {
            self.streams.held.jobs.borrow_mut().remove(&job);
            let kept = self.streams.held.cut.borrow_mut().remove(&job);
            for report in kept.into_iter().flatten() {
                self.post_output(job, report);
            }
        }
        self.streams.held.changed.ring();
    }

    /// Sends output. Reports do not name the run, so output of a run that is given up would be
    /// taken for the next run's.
    fn post_output(self: &Rc<Self>, job: JobKey, report: Report) {
        if self.core.borrow().wants_output(job) {
            self.post(report, Urgency::AtOnce);
        }
    }

    /// Cuts the output of all orphans: no more is read until each job is ordered to continue. Keeps
    /// all output that may not have reached a client: unsent reports, and sent ones that the lost
    /// Machine Manager may not have passed on. Clients drop output that they have had. Other
    /// reports are dropped, since the next Machine Manager gets all of them anew.
    pub(super) fn cut_outputs(&self) {
        let mut cut = self.streams.held.cut.borrow_mut();
        for held in self.core.borrow().held() {
            let job = JobKey { step: held.step, incarnation: held.incarnation };
            cut.entry(job).or_default();
        }
        self.streams.held.jobs.borrow_mut().clear();
        self.streams.held.changed.ring();
        for report in self.streams.outbox.drain() {
            let of_job = match &report {
                Report::Output { step, incarnation, .. } => {
                    cut.get_mut(&JobKey { step: *step, incarnation: *incarnation })
                }
                _ => None,
            };
            if let Some(kept) = of_job {
                kept.push(report);
            }
        }
        for (job, kept) in cut.iter_mut() {
            if let Some(reports) = self.host.kept_output(*job) {
                *kept = reports;
            }
        }
    }

    /// Takes output that a former node manager read, to be sent with the Machine Manager's consent.
    pub(super) fn inherit_output(&self, job: JobKey, reports: Vec<Report>) {
        self.streams.held.cut.borrow_mut().insert(job, reports);
    }

    /// The end of a job waits until the output of its ranks is in the files that they share.
    async fn await_files(self: &Rc<Self>, job: JobKey, first: Rank) {
        if let Err(reason) = self.host.files_written(job).await {
            self.handle(Event::Unserviceable { job, reason });
        }
        self.handle(Event::StreamEnded { job, rank: first, stream: Stream::Stdout });
    }

    async fn pump_output(self: &Rc<Self>, key: JobKey, rank: Rank, stream: Stream) {
        let room =
            (self.life.plan().config.report_bytes as usize).saturating_sub(OUTPUT_HEAD_BYTES);
        let limit = READ_BYTES_MAX.min(room.max(1));
        let mut offset = self.host.output_offset(key, rank, stream);
        let may_read = || (!self.streams.held.is_held(key)).then_some(());
        loop {
            self.streams.held.changed.until(may_read).await;
            self.streams.outbox.room().await;
            let Some(data) = self.host.read_output(key, rank, stream, limit).await else { break };
            let begins = offset;
            offset += data.len() as u64;
            let JobKey { step, incarnation } = key;
            let report = Report::Output { step, incarnation, rank, stream, offset: begins, data };
            if let Some(report) = self.streams.held.keep(key, report) {
                self.post_output(key, report);
            }
        }
        self.handle(Event::StreamEnded { job: key, rank, stream });
    }
}
