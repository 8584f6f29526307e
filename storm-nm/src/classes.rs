//! The class that flexible coscheduling gives a process, by its behaviour in slots of its own
//! (Frachtenberg, Feitelson, Petrini, Fernandez, IPDPS 2003 and IEEE TPDS 16(11), 2005; A5 of the
//! policy reference). Pure: the same in a live node manager and in a simulated node manager
//! ([decision 0103](../../docs/decisions/0103-classes-of-flexible-coscheduling.md)).
//!
//! A process begins in the class that needs coscheduling, and is classified once per window of
//! slots. The waits of a process mean something only while its peers run too, so waits count only
//! in the process's own slots. For a process that shares its slots (DC) they do not count at all.
//! Therefore all processes are classified anew now and then.

pub use crate::class_rules::{ClassRuleError, ClassRules};

use std::time::Duration;
use storm_rm::{ProcessClass, ProcessFigures, Witness};

/// The behaviour of a process in a slot of its own, or in a part of the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotSeen {
    /// Length of the slot.
    pub lasted: Duration,
    /// Processor time that it used.
    pub cpu: Duration,
    /// The report of its library, if there is one.
    pub library: Option<LibraryReport>,
    /// Time for which it wanted a processor and had none.
    pub queued: Duration,
    /// Number of times that it slept.
    pub sleeps: u64,
}

/// The report of a process's message-passing library on a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LibraryReport {
    /// Number of communications in which it could have waited.
    pub operations: u64,
    /// Time that it waited in them.
    pub waited: Duration,
}

/// The class of a process, with the data to determine it.
#[derive(Clone, Debug, Default)]
pub struct Classifier {
    class: ProcessClass,
    window: Window,
    /// Number of slots since the last reset.
    slots: u32,
    figures: Option<ProcessFigures>,
    /// Computing time between two communications when it got its class.
    compute_then: Duration,
}

/// The slots since the last classification.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    slots: u32,
    lasted: Duration,
    cpu: Duration,
    queued: Duration,
    waited: Duration,
    operations: u64,
    sleeps: u64,
    /// Whether its library reported on all of them.
    told: bool,
}

impl Window {
    fn add(&mut self, seen: &SlotSeen) {
        self.told = seen.library.is_some() && (self.told || self.slots == 0);
        self.slots = self.slots.saturating_add(1);
        self.lasted = self.lasted.saturating_add(seen.lasted);
        // A report may be wrong: no time in a slot is longer than the slot.
        self.cpu = self.cpu.saturating_add(seen.cpu.min(seen.lasted));
        self.queued = self.queued.saturating_add(seen.queued.min(seen.lasted));
        self.sleeps = self.sleeps.saturating_add(seen.sleeps);
        let said = seen.library.unwrap_or_default();
        self.operations = self.operations.saturating_add(said.operations);
        self.waited = self.waited.saturating_add(said.waited.min(seen.lasted));
    }

    fn is_over(&self, rules: &ClassRules) -> bool {
        self.slots >= rules.window_slots && self.lasted >= rules.window_min
    }

    fn figures(&self) -> WindowFigures {
        // A process that waits for a processor does not sleep.
        let awake = self.cpu.saturating_add(self.queued).min(self.lasted);
        let (operations, computed, waited) = if self.told {
            // A process that polls while it waits uses its processor without computing.
            let computed = self.cpu.min(self.lasted.saturating_sub(self.waited));
            (self.operations, computed, self.waited)
        } else {
            (self.sleeps, self.cpu, self.lasted.saturating_sub(awake))
        };
        let each = |time: Duration| mean(time, operations);
        let percent = |time: Duration| {
            let percent = time.as_nanos() * 100 / self.lasted.as_nanos().max(1);
            u8::try_from(percent).unwrap_or(100)
        };
        WindowFigures {
            witness: if self.told { Witness::Library } else { Witness::System },
            operations,
            compute: each(computed),
            wait: if operations == 0 { Duration::ZERO } else { each(waited) },
            cpu_percent: percent(self.cpu),
            awake_percent: percent(awake),
        }
    }
}

/// The figures of a window.
#[derive(Clone, Copy, Debug)]
struct WindowFigures {
    witness: Witness,
    operations: u64,
    compute: Duration,
    wait: Duration,
    cpu_percent: u8,
    awake_percent: u8,
}

impl WindowFigures {
    fn for_people(&self) -> ProcessFigures {
        let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        ProcessFigures {
            witness: self.witness,
            operations: u32::try_from(self.operations).unwrap_or(u32::MAX),
            compute_us: us(self.compute),
            wait_us: us(self.wait),
            cpu_percent: self.cpu_percent,
        }
    }

    /// The class of a process with these figures, taken while its peers ran.
    fn class(&self, rules: &ClassRules, slot: Duration) -> ProcessClass {
        let by_system = self.witness == Witness::System;
        let busy = u32::from(self.awake_percent) >= rules.busy_percent;
        if by_system && (busy || self.operations == 0) {
            // The process may be polling for messages, which the system cannot distinguish from
            // computing.
            ProcessClass::NeedsCoscheduling
        } else if self.operations == 0 || self.compute > rules.coarse(slot) {
            ProcessClass::DontCare
        } else if self.wait > rules.short(self.compute) {
            ProcessClass::Frustrated
        } else {
            ProcessClass::NeedsCoscheduling
        }
    }
}

impl Classifier {
    /// Its class.
    pub fn class(&self) -> ProcessClass {
        self.class
    }

    /// The figures of the last classification; `None` before its first window is over.
    pub fn figures(&self) -> Option<ProcessFigures> {
        self.figures
    }

    /// Takes the behaviour in a slot. Returns whether the class has changed, which happens at most
    /// once in a window.
    pub fn slot(&mut self, rules: &ClassRules, seen: &SlotSeen) -> bool {
        if seen.lasted.is_zero() {
            return false;
        }
        self.slots = self.slots.saturating_add(1);
        self.window.add(seen);
        if !self.window.is_over(rules) {
            return false;
        }
        let window = std::mem::take(&mut self.window);
        let told = window.figures();
        self.figures = Some(told.for_people());
        let before = self.class;
        self.class = self.judge(rules, &told, window.lasted / window.slots.max(1));
        if self.class != before {
            self.compute_then = told.compute;
            if self.class == ProcessClass::NeedsCoscheduling && self.slots > 0 {
                // The figures are not the reason, since the process is only to be classified anew.
                self.figures = None;
            }
        }
        self.class != before
    }

    fn judge(&mut self, rules: &ClassRules, told: &WindowFigures, slot: Duration) -> ProcessClass {
        use ProcessClass::{DontCare, Frustrated, NeedsCoscheduling};
        let now = told.class(rules, slot);
        let anew = self.slots >= rules.reset_slots || self.has_shifted(rules, told);
        match self.class {
            NeedsCoscheduling => {
                self.slots = 0;
                now
            }
            Frustrated | DontCare if anew => NeedsCoscheduling,
            Frustrated if now == NeedsCoscheduling => {
                self.slots = 0;
                now
            }
            Frustrated => now,
            // The process shared its slots, so its waits mean nothing.
            DontCare if now == DontCare => DontCare,
            DontCare => NeedsCoscheduling,
        }
    }

    /// Whether its computing time between communications has changed by the factor `shift` since it
    /// got its class. Waits are no criterion, as they depend on the other processes.
    fn has_shifted(&self, rules: &ClassRules, told: &WindowFigures) -> bool {
        let (then, now) = (self.compute_then, told.compute);
        self.class == ProcessClass::Frustrated
            && (now > then.saturating_mul(rules.shift) || now < then / rules.shift.max(1))
    }
}

fn mean(time: Duration, count: u64) -> Duration {
    let ns = time.as_nanos() / u128::from(count.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProcessClass::{DontCare, Frustrated, NeedsCoscheduling};
    use proptest::prelude::*;

    const QUANTUM: Duration = Duration::from_millis(50);

    fn ms(ms: f64) -> Duration {
        Duration::from_secs_f64(ms / 1e3)
    }

    /// A slot of supersteps with these times to compute and to wait, polling or asleep.
    fn slot(compute: f64, wait: f64, looks: bool) -> SlotSeen {
        let step = ms(compute) + ms(wait);
        let operations = (QUANTUM.as_nanos() / step.as_nanos().max(1)) as u64;
        let waited = ms(wait) * operations as u32;
        let cpu = if looks { QUANTUM } else { QUANTUM - waited };
        let library = Some(LibraryReport { operations, waited });
        SlotSeen { lasted: QUANTUM, cpu, library, queued: Duration::ZERO, sleeps: operations }
    }

    fn unseen(slot: SlotSeen) -> SlotSeen {
        SlotSeen { library: None, ..slot }
    }

    fn class_after(seen: SlotSeen, slots: u32) -> ProcessClass {
        let mut process = Classifier::default();
        for _ in 0..slots {
            process.slot(&ClassRules::default(), &seen);
        }
        process.class()
    }

    #[test]
    fn the_synthetic_applications_have_the_classes_of_the_reference() {
        for looks in [true, false] {
            // Balanced, with steps of 5 ms; and of 0.1 ms, where the network is a part of each
            // step.
            assert_eq!(class_after(slot(5.0, 0.05, looks), 4), NeedsCoscheduling);
            assert_eq!(class_after(slot(0.1, 0.04, looks), 4), NeedsCoscheduling);
            // The others compute twice as long.
            assert_eq!(class_after(slot(5.0, 5.0, looks), 4), Frustrated);
            assert_eq!(class_after(slot(0.3, 0.3, looks), 4), Frustrated);
            assert_eq!(class_after(slot(5.0, 5.0, looks), 3), NeedsCoscheduling, "not yet judged");
        }
        let computes = LibraryReport { operations: 0, waited: Duration::ZERO };
        let coarse = SlotSeen { cpu: QUANTUM, library: Some(computes), ..slot(500.0, 0.0, true) };
        assert_eq!(class_after(coarse, 4), DontCare);
        assert_eq!(class_after(slot(20.0, 5.0, true), 4), DontCare);
    }

    #[test]
    fn a_silent_process_is_judged_by_its_use_of_the_processor() {
        assert_eq!(class_after(unseen(slot(5.0, 5.0, true)), 8), NeedsCoscheduling, "it may look");
        assert_eq!(class_after(unseen(slot(5.0, 5.0, false)), 8), Frustrated);
        assert_eq!(class_after(unseen(slot(16.0, 8.0, false)), 8), DontCare);
        let starved =
            SlotSeen { cpu: ms(10.0), queued: ms(39.0), ..unseen(slot(20.0, 1.0, false)) };
        assert_eq!(class_after(starved, 8), NeedsCoscheduling, "it does not sleep");
        let still = SlotSeen { lasted: QUANTUM, ..SlotSeen::default() };
        assert_eq!(class_after(still, 8), NeedsCoscheduling);
    }

    #[test]
    fn all_is_forgotten_now_and_then_and_learned_again() {
        let rules = ClassRules::default();
        let mut process = Classifier::default();
        let classes: Vec<ProcessClass> = (0..200)
            .map(|_| {
                process.slot(&rules, &slot(5.0, 5.0, false));
                process.class()
            })
            .collect();
        let learning = classes.iter().filter(|class| **class == NeedsCoscheduling).count();
        // Three slots at first, then four of each 68.
        assert_eq!(learning, 3 + 2 * 4, "{classes:?}");
        assert!(classes.iter().all(|class| *class != DontCare));
    }

    #[test]
    fn new_behaviour_is_noticed_before_the_reset() {
        let rules = ClassRules::default();
        let mut process = Classifier::default();
        let mut after = |seen: SlotSeen, slots: u32| {
            for _ in 0..slots {
                process.slot(&rules, &seen);
            }
            process.class()
        };
        assert_eq!(after(slot(2.0, 4.0, false), 4), Frustrated);
        assert_eq!(after(slot(0.2, 0.4, false), 4), NeedsCoscheduling, "to be learned again");
        assert_eq!(after(slot(0.2, 0.4, false), 4), Frustrated);
        assert_eq!(after(slot(20.0, 1.0, false), 8), DontCare);
        // In shared slots its waits are long.
        assert_eq!(after(slot(1.0, 9.0, false), 4), NeedsCoscheduling);
        assert_eq!(after(slot(1.0, 0.0, false), 4), NeedsCoscheduling);
    }

    #[test]
    fn short_slots_are_watched_in_larger_numbers() {
        let mut process = Classifier::default();
        let lasted = Duration::from_millis(2);
        let said = LibraryReport { operations: 2, waited: Duration::from_millis(1) };
        let cpu = Duration::from_millis(1);
        let seen = SlotSeen { lasted, cpu, library: Some(said), sleeps: 2, ..SlotSeen::default() };
        let changed = (1..=10).filter(|_| process.slot(&ClassRules::default(), &seen)).count();
        assert_eq!((changed, process.class()), (1, Frustrated));
        assert_eq!(process.figures().unwrap().operations, 20);
    }

    #[test]
    fn other_thresholds_give_other_classes() {
        let after = |rules: ClassRules, seen: SlotSeen, slots: u32| {
            let mut process = Classifier::default();
            for _ in 0..slots {
                process.slot(&rules, &seen);
            }
            process.class()
        };
        let rules = ClassRules::default();
        let (uneven, coarse) = (slot(5.0, 5.0, false), slot(20.0, 5.0, false));
        assert_eq!(after(ClassRules { window_slots: 2, ..rules }, uneven, 2), Frustrated);
        assert_eq!(after(ClassRules { wait_percent: 200, ..rules }, uneven, 8), NeedsCoscheduling);
        let patient = ClassRules { coarse_min: ms(30.0), wait_percent: 10, ..rules };
        assert_eq!((after(rules, coarse, 8), after(patient, coarse, 8)), (DontCare, Frustrated));
        let answer = ClassRules { answer: ms(6.0), ..rules };
        assert_eq!(after(answer, uneven, 8), NeedsCoscheduling);
    }

    fn any_slot() -> impl Strategy<Value = SlotSeen> {
        let time = || prop_oneof![0..200_000_000_u64, any::<u64>()].prop_map(Duration::from_nanos);
        let library = prop::option::of((prop_oneof![0..500_u64, any::<u64>()], time()));
        let times = (time(), time(), time());
        (times, library, any::<u64>()).prop_map(|((lasted, cpu, queued), library, sleeps)| {
            let said = |(operations, waited)| LibraryReport { operations, waited };
            SlotSeen { lasted, cpu, library: library.map(said), queued, sleeps }
        })
    }

    proptest! {
        #[test]
        fn whatever_is_said_a_class_changes_once_in_a_window_at_most(
            slots in prop::collection::vec(any_slot(), 0..300)
        ) {
            let rules = ClassRules::default();
            let mut process = Classifier::default();
            let (mut since, mut others) = (rules.window_slots, 0);
            for seen in slots {
                let before = process.class();
                let changed = process.slot(&rules, &seen);
                prop_assert_eq!(changed, process.class() != before);
                prop_assert!(!changed || since + 1 >= rules.window_slots);
                since = if changed { 0 } else { since + 1 };
                // No process keeps another class for ever.
                let long = seen.lasted >= rules.window_min;
                let cs = process.class() == NeedsCoscheduling;
                others = if cs { 0 } else { others + u32::from(long) };
                prop_assert!(others <= 2 * (rules.reset_slots + rules.window_slots));
            }
        }

        #[test]
        fn a_process_that_hardly_waits_and_often_communicates_keeps_its_slot(
            compute in 0.01..5.0_f64, part in 0.0..0.45_f64, looks in any::<bool>(), slots in 0..100_u32
        ) {
            let seen = slot(compute, compute * part, looks);
            prop_assert_eq!(class_after(seen, slots), NeedsCoscheduling);
        }
    }
}
