//! The manager's journal in memory. Each event of a job is a fact, which names nodes by the numbers
//! of their names.

use super::numbers::Numbers;
use crate::interconnect::Interconnect;
use crate::record::Record;
use crate::{Defect, Fact};
use std::cell::RefCell;
use std::rc::Rc;
use storm_mm::job::JobEventKind;
use storm_mm::journal::{Entry, Journal, JournalError, MemoryJournal};

/// Outlives the managers of a machine. Clones share it.
#[derive(Clone)]
pub(super) struct RecordedJournal {
    entries: MemoryJournal,
    record: Rc<Record>,
    interconnect: Interconnect,
    defect: Option<Rc<dyn Defect>>,
    /// The numbers of the nodes, as used by the manager that writes the journal.
    numbers: Rc<RefCell<Numbers>>,
}

impl RecordedJournal {
    pub(super) fn new(
        record: Rc<Record>,
        interconnect: Interconnect,
        defect: Option<Rc<dyn Defect>>,
        numbers: Rc<RefCell<Numbers>>,
    ) -> RecordedJournal {
        RecordedJournal { entries: MemoryJournal::default(), record, interconnect, defect, numbers }
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries = self.entries.entries();
        if let Some(defect) = &self.defect {
            for entry in &mut entries {
                if let Entry::Job(job, event) = entry {
                    defect.reads(*job, &mut event.kind);
                }
            }
        }
        entries
    }

    /// An event with the nodes' own numbers; `None` if it names no node by number.
    fn named(&self, kind: &JobEventKind) -> Option<JobEventKind> {
        let mut kind = match kind {
            JobEventKind::Placed { .. } => kind.clone(),
            _ => return None,
        };
        if let JobEventKind::Placed { ranks, .. } = &mut kind {
            let numbers = self.numbers.borrow();
            ranks.iter_mut().for_each(|share| share.node = numbers.node(share.node));
        }
        Some(kind)
    }
}

impl Journal for RecordedJournal {
    async fn append(&self, mut entries: Vec<Entry>) -> Result<(), JournalError> {
        if let Some(defect) = &self.defect {
            entries.retain(|entry| {
                entry.of_job().is_none_or(|(job, event)| defect.journals(job, &event.kind))
            });
        }
        let facts = entries.clone();
        self.entries.append(entries).await?;
        for (job, event) in facts.iter().filter_map(Entry::of_job) {
            if matches!(event.kind, JobEventKind::Ended { .. } | JobEventKind::Requeued { .. }) {
                self.interconnect.forget(job);
            }
            let named = self.named(&event.kind);
            self.record.note(Fact::Journal(job, named.as_ref().unwrap_or(&event.kind)));
        }
        Ok(())
    }
}
