//! Reports on their way to the Machine Manager, in order, with several in an item.
//!
//! An item is a sequence of reports in postcard encoding. The backlog of rank output is bounded by
//! making its readers wait; other reports are few.

use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Bell, NodeId, NodeSet, Primitives, Runtime};
use storm_rm::message::{MAX_REPORT_BYTES, Report};
use storm_rm::remote_queue::{EnqueueError, Writer};
use storm_rm::termination::{Outbox as ReportOutbox, Urgency};

/// Room in an item for the number of its reports.
const COUNT_BYTES: usize = 10;
/// Bytes of a partial report besides its piece: its kind, a length, and whether it is the last.
const PART_BYTES: usize = 16;

/// The queue of one node. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Encoded reports, each with the number of output bytes in it.
    queue: RefCell<VecDeque<(Vec<u8>, usize)>>,
    output_bytes: Cell<usize>,
    output_limit: usize,
    item_limit: Cell<usize>,
    urgent: Cell<bool>,
    sending: Cell<bool>,
    news: Bell,
    sent: Bell,
}

impl Outbox {
    /// An empty queue for items of at most `item_limit` bytes.
    pub(crate) fn new(item_limit: usize, output_limit: usize) -> Outbox {
        let inner = Inner {
            queue: RefCell::default(),
            output_bytes: Cell::new(0),
            output_limit,
            item_limit: Cell::new(item_limit.saturating_sub(COUNT_BYTES)),
            urgent: Cell::new(false),
            sending: Cell::new(false),
            news: Bell::default(),
            sent: Bell::default(),
        };
        Outbox { inner: Rc::new(inner) }
    }

    /// Limits items to this many bytes, from the next report on.
    pub(crate) fn set_item_limit(&self, item_limit: usize) {
        self.inner.item_limit.set(item_limit.saturating_sub(COUNT_BYTES));
    }

    /// Queues a report, in parts if it does not fit an item. Returns false if it is too large to be
    /// sent at all.
    pub(crate) fn try_post(&self, report: &Report, urgency: Urgency) -> bool {
        let Ok(encoded) = postcard::to_stdvec(report) else { return false };
        if encoded.len() > MAX_REPORT_BYTES {
            return false;
        }
        let output = match report {
            Report::Output { data, .. } => data.len(),
            _ => 0,
        };
        self.inner.output_bytes.set(self.inner.output_bytes.get() + output);
        self.queue(encoded, output);
        if urgency == Urgency::AtOnce {
            self.inner.urgent.set(true);
        }
        self.inner.news.ring();
        true
    }

    fn queue(&self, encoded: Vec<u8>, output: usize) {
        let mut queue = self.inner.queue.borrow_mut();
        let limit = self.inner.item_limit.get();
        if encoded.len() <= limit {
            return queue.push_back((encoded, output));
        }
        let whole = Bytes::from(encoded);
        let piece = limit.saturating_sub(PART_BYTES).max(1);
        for start in (0..whole.len()).step_by(piece) {
            let end = (start + piece).min(whole.len());
            let (bytes, last) = (whole.slice(start..end), end == whole.len());
            // Encoding bytes cannot fail.
            let part = postcard::to_stdvec(&Report::Part { bytes, last }).unwrap_or_default();
            queue.push_back((part, if last { output } else { 0 }));
        }
    }

    /// Waits until output may be read.
    pub(crate) async fn room(&self) {
        let inner = &self.inner;
        let room = || (inner.output_bytes.get() < inner.output_limit).then_some(());
        inner.sent.until(room).await;
    }

    /// Removes and returns all reports that have not left.
    pub(crate) fn drain(&self) -> Vec<Report> {
        let queue = self.inner.queue.take();
        self.inner.output_bytes.set(0);
        self.inner.urgent.set(false);
        self.inner.sending.set(false);
        self.inner.sent.ring();
        // Decoding cannot fail after a successful encoding.
        queue.iter().filter_map(|(encoded, _)| postcard::from_bytes(encoded).ok()).collect()
    }

    /// Waits until all reports have left.
    pub(crate) async fn flushed(&self) {
        let inner = &self.inner;
        inner.urgent.set(true);
        inner.news.ring();
        let empty = || (inner.queue.borrow().is_empty() && !inner.sending.get()).then_some(());
        inner.sent.until(empty).await;
    }

    /// Sends posted reports for as long as the network takes them.
    pub(crate) async fn send_all<P: Primitives>(
        &self,
        runtime: &P::Runtime,
        mut writer: Writer<P>,
        coalesce: Duration,
    ) -> Result<Infallible, EnqueueError> {
        let inner = &self.inner;
        let mm = NodeSet::single(NodeId::MM);
        loop {
            inner.news.until(|| (!inner.queue.borrow().is_empty()).then_some(())).await;
            if !inner.urgent.get() {
                let hurry = inner.news.until(|| inner.urgent.get().then_some(()));
                // The time-out and the urgent report have the same effect: the reports leave now.
                let _ = runtime.timeout(coalesce, hurry).await;
            }
            // Waits before it takes reports, as taken reports must leave: this future may end at
            // any await, with the life in the cluster.
            writer.space().await?;
            if inner.queue.borrow().is_empty() {
                continue;
            }
            inner.sending.set(true);
            let (item, output) = self.take_item();
            let sent = writer.enqueue(&mm, item).await;
            inner.output_bytes.set(inner.output_bytes.get().saturating_sub(output));
            inner.sending.set(false);
            inner.sent.ring();
            sent?;
        }
    }

    /// The oldest reports, as many as fit an item, encoded as a sequence: their number, then one
    /// after the other.
    fn take_item(&self) -> (Bytes, usize) {
        let mut queue = self.inner.queue.borrow_mut();
        let (mut body, mut count, mut output) = (Vec::new(), 0u64, 0);
        while let Some((encoded, _)) = queue.front()
            && (count == 0 || body.len() + encoded.len() <= self.inner.item_limit.get())
            && let Some((encoded, bytes)) = queue.pop_front()
        {
            body.extend_from_slice(&encoded);
            count += 1;
            output += bytes;
        }
        if queue.is_empty() {
            self.inner.urgent.set(false);
        }
        let mut item = postcard::to_stdvec(&count).unwrap_or_default();
        item.extend_from_slice(&body);
        (item.into(), output)
    }
}

impl ReportOutbox for Outbox {
    fn post(&mut self, report: Report, urgency: Urgency) {
        if !self.try_post(&report, urgency) {
            // No other report has more than a few bytes for each rank of a node.
            let limit = MAX_REPORT_BYTES;
            tracing::error!(?report, limit, "a report is too long and was dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_rm::message::{NodeStatus, Stream};
    use storm_rm::{JobId, JobIncarnation, Rank, StepRef};

    fn output(len: usize) -> Report {
        let data = Bytes::from(vec![7; len]);
        Report::Output {
            step: StepRef::program(JobId(1)),
            incarnation: JobIncarnation(1),
            rank: Rank(300),
            stream: Stream::Stdout,
            offset: 0,
            data,
        }
    }

    #[test]
    fn items_hold_whole_reports_in_order_and_decode_as_a_sequence() {
        let outbox = Outbox::new(1000, 500);
        let status = Report::Status(NodeStatus { load_percent: 3, memory_available_mib: 9 });
        let posted = [output(300), status, output(600), output(500), output(1)];
        for report in &posted {
            assert!(outbox.try_post(report, Urgency::WhenConvenient));
        }
        let mut taken = Vec::new();
        for expected in [3, 2] {
            let (item, _) = outbox.take_item();
            assert!(item.len() <= 1000);
            let reports: Vec<Report> = postcard::from_bytes(&item).unwrap();
            assert_eq!(reports.len(), expected);
            taken.extend(reports);
        }
        assert_eq!(taken, posted);
    }

    #[test]
    fn a_report_that_is_longer_than_an_item_goes_in_parts() {
        let outbox = Outbox::new(1000, 500);
        let puts = vec![("key".to_owned(), "v".repeat(5000))];
        let long = Report::Fence { step: StepRef::program(JobId(1)), sequence: 1, puts };
        let small = output(10);
        for report in [&small, &long, &small] {
            assert!(outbox.try_post(report, Urgency::AtOnce));
        }
        let (mut whole, mut others, mut items) = (Vec::new(), 0, 0);
        while !outbox.inner.queue.borrow().is_empty() {
            let (item, _) = outbox.take_item();
            assert!(item.len() <= 1000);
            items += 1;
            for report in postcard::from_bytes::<Vec<Report>>(&item).unwrap() {
                match report {
                    Report::Part { bytes, last } => {
                        whole.extend_from_slice(&bytes);
                        assert_eq!(last, postcard::from_bytes::<Report>(&whole).is_ok());
                    }
                    other => {
                        assert_eq!(other, small);
                        others += 1;
                    }
                }
            }
        }
        assert!(items > 5, "{items}");
        assert_eq!((postcard::from_bytes(&whole), others), (Ok(long), 2));
        assert!(!outbox.try_post(&output(MAX_REPORT_BYTES), Urgency::AtOnce));
    }
}
