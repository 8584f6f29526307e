//! Switches of times to come: what a node manager orders of its host for the slices that it begins
//! by its own clock ([decision 0091](../../docs/decisions/0091-slices-by-the-nodes-clocks.md)).

use crate::JobKey;
use std::collections::{BTreeMap, VecDeque};
use storm_primitives::Instant;
use storm_rm::PartitionId;
use storm_rm::message::Strobe;

/// A switch of a time to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchAhead {
    /// When it is to be done, by the clock of the node manager.
    pub due: Instant,
    /// The strobe whose slice begins then.
    pub strobe: Strobe,
    /// Jobs to stop.
    pub stop: Vec<JobKey>,
    /// Jobs to resume, afterwards.
    pub resume: Vec<JobKey>,
}

/// A switch that was ordered ahead and has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchDone {
    /// The strobe whose slice began.
    pub strobe: Strobe,
    /// Before the first job was stopped, by the clock of the node manager.
    pub before: Instant,
    /// After the last one was resumed.
    pub after: Instant,
}

/// What is to be switched at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DueSwitch {
    /// The strobe of each partition whose slice begins.
    pub(crate) strobes: Vec<Strobe>,
    pub(crate) stop: Vec<JobKey>,
    pub(crate) resume: Vec<JobKey>,
}

impl DueSwitch {
    /// Takes everything from a plan, in the order of time, that is due `now`. Of several slices of a
    /// partition only the last still begins: nodes do not catch up.
    pub(crate) fn take(plan: &mut VecDeque<SwitchAhead>, now: Instant) -> Option<DueSwitch> {
        let count = plan.partition_point(|switch| switch.due <= now);
        let mut strobes: BTreeMap<PartitionId, Strobe> = BTreeMap::new();
        let mut stopped: BTreeMap<JobKey, bool> = BTreeMap::new();
        for SwitchAhead { strobe, stop, resume, .. } in plan.drain(..count) {
            strobes.insert(strobe.partition, strobe);
            stopped.extend(stop.into_iter().map(|job| (job, true)));
            stopped.extend(resume.into_iter().map(|job| (job, false)));
        }
        let jobs = |wanted: bool| {
            let chosen = stopped.iter().filter(move |(_, stopped)| **stopped == wanted);
            chosen.map(|(job, _)| *job).collect()
        };
        let (stop, resume) = (jobs(true), jobs(false));
        (count > 0).then(|| DueSwitch { strobes: strobes.into_values().collect(), stop, resume })
    }

    /// What has been done, between these times.
    pub(crate) fn done(
        &self,
        (before, after): (Instant, Instant),
    ) -> impl Iterator<Item = SwitchDone> + '_ {
        self.strobes.iter().map(move |strobe| SwitchDone { strobe: *strobe, before, after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_rm::{JobId, JobIncarnation, Row};

    fn job(id: u64) -> JobKey {
        JobKey { job: JobId(id), incarnation: JobIncarnation(1) }
    }

    fn switch(partition: u16, number: u64, stop: &[u64], resume: &[u64]) -> SwitchAhead {
        let (row, partition) = (Row(0), PartitionId(partition));
        SwitchAhead {
            due: Instant::from_nanos(number * 10),
            strobe: Strobe { partition, row, number, issued_ns: 0 },
            stop: stop.iter().map(|id| job(*id)).collect(),
            resume: resume.iter().map(|id| job(*id)).collect(),
        }
    }

    #[test]
    fn what_is_late_is_one_switch_to_the_last_slice_of_each_partition() {
        let mut plan: VecDeque<SwitchAhead> = VecDeque::from([
            switch(0, 1, &[1], &[2]),
            switch(1, 1, &[7], &[8]),
            switch(0, 2, &[2], &[3]),
            switch(0, 3, &[3], &[1]),
        ]);
        assert_eq!(DueSwitch::take(&mut plan, Instant::from_nanos(9)), None);
        let due = DueSwitch::take(&mut plan, Instant::from_nanos(29)).unwrap();
        let numbers: Vec<u64> = due.strobes.iter().map(|strobe| strobe.number).collect();
        assert_eq!(numbers, [2, 1]);
        assert_eq!((due.stop, due.resume), (vec![job(1), job(2), job(7)], vec![job(3), job(8)]));
        let due = DueSwitch::take(&mut plan, Instant::from_nanos(30)).unwrap();
        assert_eq!((due.stop, due.resume), (vec![job(3)], vec![job(1)]));
        assert!(plan.is_empty());
    }
}
