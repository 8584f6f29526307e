//! The classes of a job's ranks on a node, and its slots. Turns the totals of each process at the
//! edges of a slot into its behaviour in the slot. Pure: the caller passes the time.

use crate::classes::{ClassRules, Classifier, LibraryReport, SlotSeen};
use std::collections::BTreeMap;
use std::time::Duration;
use storm_rm::{ProcessClass, Rank, RankClass};

/// The totals of a process since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Processor time.
    pub(crate) cpu: Duration,
    /// The report of its library, if there is one, which includes the present wait.
    pub(crate) library: Option<LibraryReport>,
    /// Time for which it wanted a processor and had none.
    pub(crate) queued: Duration,
    /// Number of times that it slept.
    pub(crate) sleeps: u64,
}

impl Counters {
    /// The difference to earlier totals, over a time of this length.
    fn since(&self, before: &Counters, lasted: Duration) -> SlotSeen {
        let library = self.library.zip(before.library).map(|(now, then)| LibraryReport {
            operations: now.operations.saturating_sub(then.operations),
            waited: now.waited.saturating_sub(then.waited),
        });
        SlotSeen {
            lasted,
            cpu: self.cpu.saturating_sub(before.cpu),
            library,
            queued: self.queued.saturating_sub(before.queued),
            sleeps: self.sleeps.saturating_sub(before.sleeps),
        }
    }
}

/// The ranks of a job on a node. Times are by one clock, from any origin.
#[derive(Clone, Debug)]
pub(crate) struct JobClasses {
    rules: ClassRules,
    ranks: BTreeMap<Rank, Watched>,
    /// Beginning of its slot, or of the part of the slot since the ranks were last sampled.
    slot_began: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Watched {
    classifier: Classifier,
    /// Since when it has had its class.
    since: Duration,
    /// The totals at the beginning of its slot.
    before: Option<Counters>,
}

impl JobClasses {
    /// Ranks of which nothing is known yet.
    pub(crate) fn new(
        rules: ClassRules,
        ranks: impl Iterator<Item = Rank>,
        now: Duration,
    ) -> JobClasses {
        let watched = Watched { classifier: Classifier::default(), since: now, before: None };
        let ranks = ranks.map(|rank| (rank, watched.clone())).collect();
        JobClasses { rules, ranks, slot_began: None }
    }

    /// The job's slot begins, with these totals of its ranks.
    pub(crate) fn slot_begins(&mut self, now: Duration, counters: &BTreeMap<Rank, Counters>) {
        self.slot_began = Some(now);
        for (rank, watched) in &mut self.ranks {
            watched.before = counters.get(rank).copied();
        }
    }

    /// The job's slot, or a part of it, ends with these totals. Returns whether the class of any
    /// rank has changed, or is now known and not only assumed.
    pub(crate) fn slot_ends(&mut self, now: Duration, counters: &BTreeMap<Rank, Counters>) -> bool {
        let Some(began) = self.slot_began.take() else { return false };
        let lasted = now.saturating_sub(began);
        let mut changed = false;
        for (rank, watched) in &mut self.ranks {
            let before = watched.before.take();
            let Some((now_done, before)) = counters.get(rank).zip(before) else { continue };
            let seen = now_done.since(&before, lasted);
            let unknown = watched.classifier.figures().is_none();
            if watched.classifier.slot(&self.rules, &seen) {
                watched.since = now;
                changed = true;
            }
            changed |= unknown && watched.classifier.figures().is_some();
        }
        changed
    }

    /// An edge of the slot was missed, so the behaviour of the ranks in it cannot be judged.
    pub(crate) fn slot_lost(&mut self) {
        self.slot_began = None;
    }

    /// When the job's slot began.
    pub(crate) fn slot_began(&self) -> Option<Duration> {
        self.slot_began
    }

    /// The class of a rank; the class of an unknown process for a rank that is not here.
    pub(crate) fn class(&self, rank: Rank) -> ProcessClass {
        self.ranks.get(&rank).map(|watched| watched.classifier.class()).unwrap_or_default()
    }

    /// Whether all ranks need coscheduling.
    pub(crate) fn all_need(&self) -> bool {
        let mut classes = self.ranks.values().map(|watched| watched.classifier.class());
        classes.all(|class| class == ProcessClass::NeedsCoscheduling)
    }

    /// A rank has ended.
    pub(crate) fn ended(&mut self, rank: Rank) {
        self.ranks.remove(&rank);
    }

    /// The report for the Machine Manager.
    pub(crate) fn report(&self, now: Duration) -> Vec<RankClass> {
        let one = |(rank, watched): (&Rank, &Watched)| {
            let age = now.saturating_sub(watched.since).as_millis();
            RankClass {
                rank: *rank,
                class: watched.classifier.class(),
                for_ms: u32::try_from(age).unwrap_or(u32::MAX),
                figures: watched.classifier.figures(),
            }
        };
        self.ranks.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_judged_by_what_was_done_in_it() {
        let ms = Duration::from_millis;
        let mut job = JobClasses::new(ClassRules::default(), (0..2).map(Rank), ms(0));
        let mut done = Counters { library: Some(LibraryReport::default()), ..Counters::default() };
        let both = |one: Counters, other| BTreeMap::from([(Rank(0), one), (Rank(1), other)]);
        let idle = Counters { cpu: ms(1), ..done };
        for slot in 0..4 {
            let began = ms(100 * slot);
            job.slot_begins(began, &both(done, idle));
            assert!(job.all_need());
            // Five steps of 5 ms with as long a wait, in 50 ms; outside the slot it differs.
            done.cpu += ms(25);
            if let Some(said) = &mut done.library {
                said.operations += 5;
                said.waited += ms(25);
            }
            let changed = job.slot_ends(began + ms(50), &both(done, idle));
            assert_eq!(changed, slot == 3);
            if let Some(said) = &mut done.library {
                said.waited += ms(50);
            }
        }
        assert!(!job.all_need());
        assert_eq!(job.class(Rank(0)), ProcessClass::Frustrated);
        assert_eq!(job.class(Rank(1)), ProcessClass::DontCare, "it never communicated");
        let report = job.report(ms(400));
        let figures = report[0].figures.expect("its window is over");
        assert_eq!((report[0].for_ms, figures.operations, figures.wait_us), (50, 20, 5_000));
        assert!(!job.slot_ends(ms(500), &both(done, idle)), "it has not begun");
        job.ended(Rank(0));
        assert_eq!(job.report(ms(400)).len(), 1);
    }
}
