//! The meaning of qualities of service for a policy, and the jobs that released their elements
//! (`docs/decisions/0047`). Only this module changes them.

use crate::ServiceConfig;
use crate::job::JobRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use storm_rm::JobId;
use storm_sched::{Precedence, PreemptMode, QosId};

/// Which jobs may preempt which.
#[derive(Debug, Default)]
pub(super) struct Preemption {
    /// The meanings of the qualities of service for a policy, by name; empty when no job may
    /// preempt another.
    precedences: BTreeMap<String, Meanings>,
    /// Jobs that released their elements, since suspended jobs hold all places in the arrays of
    /// flags.
    stranded: BTreeSet<JobId>,
    /// Nodes of a former manager have not returned yet, and may turn out to be free.
    returning: bool,
    /// Whether elements are being released.
    giving_way: bool,
}

/// The meaning of a quality of service for a job.
#[derive(Debug)]
struct Meanings {
    /// For a job that requested to be run again if need be.
    of_requeuable: Arc<Precedence>,
    /// For a job that did not request to be run again: such a job is never run twice.
    of_others: Arc<Precedence>,
}

impl Preemption {
    pub(super) fn new(config: &ServiceConfig) -> Preemption {
        if config.qos.iter().all(|qos| qos.preempts.is_empty()) {
            return Preemption::default();
        }
        // Numbered by their order, so that all jobs of one manager have the same numbers.
        let numbered = || (0..).map(QosId).zip(&config.qos);
        let meanings = numbered().map(|(qos, own)| {
            let lower = numbered().filter(|(_, other)| own.preempts.contains(&other.name));
            let requeued = Precedence {
                qos,
                preempts: lower.map(|(lower, _)| lower).collect(),
                mode: own.preempt_mode,
            };
            let mode = match own.preempt_mode {
                Some(PreemptMode::Requeue) => Some(PreemptMode::Cancel),
                mode => mode,
            };
            let cancelled = Precedence { mode, ..requeued.clone() };
            let meanings =
                Meanings { of_requeuable: Arc::new(requeued), of_others: Arc::new(cancelled) };
            (own.name.clone(), meanings)
        });
        Preemption { precedences: meanings.collect(), ..Preemption::default() }
    }

    /// Whether any job may preempt another.
    pub(super) fn is_possible(&self) -> bool {
        !self.precedences.is_empty()
    }

    /// The meaning of a job's quality of service for its policy. While nodes of a former manager
    /// may return, no job preempts others for lack of them.
    pub(super) fn precedence_of(&self, record: &JobRecord) -> Option<Arc<Precedence>> {
        let meanings = self.precedences.get(record.service.qos.as_ref()?)?;
        let asked = record.spec.requeue;
        let own = if asked { &meanings.of_requeuable } else { &meanings.of_others };
        if self.returning && !own.preempts.is_empty() {
            return Some(Arc::new(Precedence { preempts: Default::default(), ..(**own).clone() }));
        }
        Some(own.clone())
    }

    /// Elements are released from now on, or no longer. Returns whether they were being released.
    pub(super) fn set_giving_way(&mut self, giving_way: bool) -> bool {
        std::mem::replace(&mut self.giving_way, giving_way)
    }

    /// A job releases its elements.
    pub(super) fn strand(&mut self, job: JobId) {
        self.stranded.insert(job);
    }

    /// Whether a job released its elements.
    pub(super) fn is_stranded(&self, job: JobId) -> bool {
        self.stranded.contains(&job)
    }

    /// Takes the jobs that released their elements, and leaves the set empty.
    pub(super) fn take_stranded(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.stranded)
    }

    /// Nodes of a former manager may return, or are no longer waited for. Returns whether they were
    /// waited for before.
    pub(super) fn set_returning(&mut self, returning: bool) -> bool {
        std::mem::replace(&mut self.returning, returning)
    }
}
