//! The manager's journal in memory; each entry is a fact.

use crate::interconnect::Interconnect;
use crate::record::Record;
use crate::{Defect, Fact};
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
}

impl RecordedJournal {
    pub(super) fn new(
        record: Rc<Record>,
        interconnect: Interconnect,
        defect: Option<Rc<dyn Defect>>,
    ) -> RecordedJournal {
        RecordedJournal { entries: MemoryJournal::default(), record, interconnect, defect }
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.entries.entries()
    }
}

impl Journal for RecordedJournal {
    async fn append(&self, mut entries: Vec<Entry>) -> Result<(), JournalError> {
        if let Some(defect) = &self.defect {
            entries.retain(|(job, event)| defect.journals(*job, &event.kind));
        }
        let facts = entries.clone();
        self.entries.append(entries).await?;
        for (job, event) in &facts {
            if matches!(event.kind, JobEventKind::Ended { .. } | JobEventKind::Requeued { .. }) {
                self.interconnect.forget(*job);
            }
            self.record.note(Fact::Journal(*job, &event.kind));
        }
        Ok(())
    }
}
