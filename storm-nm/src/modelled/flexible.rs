//! Flexible coscheduling on a modelled node: its slots, the behaviour of each process in them, and
//! the resulting permissions.

use super::process::Process;
use super::share::Turn;
use crate::classes::ClassRules;
use crate::job_classes::{Counters, JobClasses};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Instant, Runtime};
use storm_rm::{ProcessClass, Rank, RankClass, RowSet};

type Processes<R> = BTreeMap<Rank, Rc<Process<R>>>;

/// A job under flexible coscheduling.
#[derive(Debug)]
pub(super) struct Flexible {
    classes: JobClasses,
    /// Whether its row runs.
    in_slot: bool,
    /// Whether it is suspended, and runs in no slot at all.
    suspended: bool,
}

fn since_origin(now: Instant) -> Duration {
    now - Instant::ORIGIN
}

impl Flexible {
    pub(super) fn new(
        rules: ClassRules,
        ranks: impl Iterator<Item = Rank>,
        now: Instant,
    ) -> Flexible {
        let classes = JobClasses::new(rules, ranks, since_origin(now));
        Flexible { classes, in_slot: false, suspended: false }
    }

    /// Its slot begins or ends. Returns whether a class has changed.
    pub(super) fn switch<R: Runtime>(
        &mut self,
        in_slot: bool,
        now: Instant,
        processes: &Processes<R>,
    ) -> bool {
        if self.in_slot == in_slot {
            return false;
        }
        self.in_slot = in_slot;
        let counters = counters(processes, now);
        if in_slot {
            self.classes.slot_begins(since_origin(now), &counters);
            return false;
        }
        self.classes.slot_ends(since_origin(now), &counters)
    }

    /// Sets its rows.
    pub(super) fn set_rows(&mut self, rows: RowSet) {
        self.suspended = rows == RowSet::NONE;
    }

    /// Lets each process do what its class allows. Returns whether all of them are stopped.
    pub(super) fn apply<R: Runtime>(&self, processes: &Processes<R>) -> bool {
        let mut all_stopped = true;
        for (rank, process) in processes.iter().filter(|(_, process)| !process.ended.get()) {
            let turn = self.turn(*rank);
            all_stopped &= turn == Turn::Stopped;
            if let Some(share) = process.share() {
                share.set_turn(turn);
            }
        }
        all_stopped
    }

    fn turn(&self, rank: Rank) -> Turn {
        match (self.classes.class(rank), self.in_slot) {
            _ if self.suspended => Turn::Stopped,
            (ProcessClass::NeedsCoscheduling, true) => Turn::Alone,
            (ProcessClass::NeedsCoscheduling, false) => Turn::Stopped,
            (ProcessClass::Frustrated, true) => Turn::First,
            (ProcessClass::Frustrated, false) | (ProcessClass::DontCare, _) => Turn::Rest,
        }
    }

    /// Whether its row runs.
    pub(super) fn in_slot(&self) -> bool {
        self.in_slot
    }

    pub(super) fn report(&self, now: Instant) -> Vec<RankClass> {
        self.classes.report(since_origin(now))
    }
}

/// The totals of each process up to now.
fn counters<R: Runtime>(processes: &Processes<R>, now: Instant) -> BTreeMap<Rank, Counters> {
    let one = |(rank, process): (&Rank, &Rc<Process<R>>)| {
        let share = process.share().filter(|_| !process.ended.get())?;
        let library = process.communicates().then(|| share.library_report(now));
        Some((*rank, Counters { cpu: share.used(now), library, ..Counters::default() }))
    };
    processes.iter().filter_map(one).collect()
}
