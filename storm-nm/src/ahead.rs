//! Future switches: a node manager orders them from its host, for the slices that it begins by its
//! own clock ([decision 0091](../../docs/decisions/0091-slices-by-the-nodes-clocks.md)).

use crate::JobKey;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use storm_primitives::Instant;
use storm_rm::PartitionId;
use storm_rm::message::Strobe;

/// A future switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchAhead {
    /// When it is due, by the node manager's clock.
    pub due: Instant,
    /// The strobe whose slice begins then.
    pub strobe: Strobe,
    /// The jobs that change hands.
    pub jobs: Arc<SwitchedJobs>,
}

/// The jobs of a switch. Rows take turns, so the slices of a strobe share a few of these values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchedJobs {
    /// Jobs to stop.
    pub stop: Vec<JobKey>,
    /// Jobs to resume, afterwards.
    pub resume: Vec<JobKey>,
}

impl SwitchedJobs {
    /// Whether no job is stopped or resumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.stop.is_empty() && self.resume.is_empty()
    }
}

/// A switch that was ordered ahead and has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchDone {
    /// The strobe whose slice began.
    pub strobe: Strobe,
    /// Time before the first job was stopped, by the node manager's clock.
    pub before: Instant,
    /// Time after the last job was resumed.
    pub after: Instant,
}

/// The switches that are due at the same moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DueSwitch {
    /// The strobe of the first partition whose slice begins.
    first: Strobe,
    /// The strobes of the other partitions.
    others: Vec<Strobe>,
    pub(crate) jobs: Arc<SwitchedJobs>,
}

impl DueSwitch {
    /// Takes all switches of a plan that are due `now`, in order of time. If a partition has
    /// several slices among them, only the last begins: nodes do not catch up. A single switch, by
    /// far the most common case, is returned as it is.
    pub(crate) fn take(plan: &mut VecDeque<SwitchAhead>, now: Instant) -> Option<DueSwitch> {
        let is_due = |switch: &SwitchAhead| switch.due <= now;
        if plan.front().is_some_and(is_due) && !plan.get(1).is_some_and(is_due) {
            let SwitchAhead { strobe, jobs, .. } = plan.pop_front()?;
            return Some(DueSwitch { first: strobe, others: Vec::new(), jobs });
        }
        DueSwitch::take_several(plan, now)
    }

    fn take_several(plan: &mut VecDeque<SwitchAhead>, now: Instant) -> Option<DueSwitch> {
        let count = plan.partition_point(|switch| switch.due <= now);
        let mut strobes: BTreeMap<PartitionId, Strobe> = BTreeMap::new();
        let mut stopped: BTreeMap<JobKey, bool> = BTreeMap::new();
        for SwitchAhead { strobe, jobs, .. } in plan.drain(..count) {
            strobes.insert(strobe.partition, strobe);
            stopped.extend(jobs.stop.iter().map(|job| (*job, true)));
            stopped.extend(jobs.resume.iter().map(|job| (*job, false)));
        }
        let jobs = |wanted: bool| {
            let chosen = stopped.iter().filter(move |(_, stopped)| **stopped == wanted);
            chosen.map(|(job, _)| *job).collect()
        };
        let jobs = Arc::new(SwitchedJobs { stop: jobs(true), resume: jobs(false) });
        let mut strobes = strobes.into_values();
        Some(DueSwitch { first: strobes.next()?, others: strobes.collect(), jobs })
    }

    /// The strobe of each partition whose slice begins.
    pub(crate) fn strobes(&self) -> impl Iterator<Item = &Strobe> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The switches done between these times.
    pub(crate) fn done(
        &self,
        (before, after): (Instant, Instant),
    ) -> impl Iterator<Item = SwitchDone> + '_ {
        self.strobes().map(move |strobe| SwitchDone { strobe: *strobe, before, after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_rm::{JobId, JobIncarnation, Row, StepRef};

    fn job(id: u64) -> JobKey {
        JobKey { step: StepRef::program(JobId(id)), incarnation: JobIncarnation(1) }
    }

    fn switch(partition: u16, number: u64, stop: &[u64], resume: &[u64]) -> SwitchAhead {
        let (row, partition) = (Row(0), PartitionId(partition));
        SwitchAhead {
            due: Instant::from_nanos(number * 10),
            strobe: Strobe { partition, row, number, issued_ns: 0 },
            jobs: Arc::new(SwitchedJobs {
                stop: stop.iter().map(|id| job(*id)).collect(),
                resume: resume.iter().map(|id| job(*id)).collect(),
            }),
        }
    }

    #[test]
    fn late_switches_become_one_to_the_last_slice_of_each_partition() {
        let mut plan: VecDeque<SwitchAhead> = VecDeque::from([
            switch(0, 1, &[1], &[2]),
            switch(1, 1, &[7], &[8]),
            switch(0, 2, &[2], &[3]),
            switch(0, 3, &[3], &[1]),
        ]);
        assert_eq!(DueSwitch::take(&mut plan, Instant::from_nanos(9)), None);
        let due = DueSwitch::take(&mut plan, Instant::from_nanos(29)).unwrap();
        let numbers: Vec<u64> = due.strobes().map(|strobe| strobe.number).collect();
        assert_eq!(numbers, [2, 1]);
        let all = |due: &DueSwitch| (due.jobs.stop.clone(), due.jobs.resume.clone());
        assert_eq!(all(&due), (vec![job(1), job(2), job(7)], vec![job(3), job(8)]));
        let due = DueSwitch::take(&mut plan, Instant::from_nanos(30)).unwrap();
        assert_eq!(all(&due), (vec![job(3)], vec![job(1)]));
        assert!(plan.is_empty());
    }
}
