//! Conservative backfilling (Feitelson and Weil, IPPS 1998; A2b of the policy reference). Every
//! waiting job has a reservation: the earliest hole in which it fits for its whole estimate. A job
//! may pass others if there is a hole for it.
//!
//! When a job ends before its estimate, the rest of its time becomes free. Then the waiting jobs
//! are moved to earlier holes, one after the other in queue order ("compression"). Other changes of
//! the machine or the queue may move a reservation later: changes of nodes or priorities, or a job
//! that outlives its estimate. After such a change, all reservations are made again, in queue
//! order.
//!
//! Priorities are obeyed (`docs/decisions/0134`). If a job is submitted ahead of others, all
//! reservations are made again. While the queue is not in the order of submission, they are also
//! made again when PEs become free. Compression alone would let a less urgent job keep its hole.
//!
//! If a job asks for more than a number of PEs, counting can prove only that it fits an idle
//! machine. Such a job is promised an instant in which nothing else runs, by the estimates. It
//! starts earlier as soon as there is room on real PEs and no promise is broken.
//!
//! Reserved nodes take their PEs out of the profile. The count does not tell which PEs a job will
//! get. So while nodes are reserved, every decision makes all promises again, and a promised time
//! can turn out to be too early (`docs/decisions/0050`).
//!
//! A submission or an end costs a walk over the reservations. The cost is linear in the queue,
//! unlike under the other policies.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::availability::{Availability, Hole};
use crate::job_map::JobMap;
use crate::space::{Candidate, Discipline, News, Order, Passing, Space, SpaceSharing, Verdict};
use crate::{InvariantViolation, JobId, Machine, Policy, PolicyParams, SchedTime};

/// The name in the registry.
pub const NAME: &str = "conservative";

/// Conservative backfilling.
pub type Conservative = SpaceSharing<Reservations>;

/// For how long a job that cannot be counted is promised all PEs: the shortest possible time.
const INSTANT: Duration = Duration::from_nanos(1);

/// A promise to a waiting job.
#[derive(Debug, Clone, Copy)]
struct Booking {
    start: SchedTime,
    end: SchedTime,
    hole: Hole,
    /// The number of the promise. Promises for the same instant are kept in the order in which they
    /// were made.
    number: u64,
}

/// The part of the profile that a started job holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    end: SchedTime,
    pes: u32,
}

/// The discipline in which every waiting job has a reservation.
#[derive(Debug, Clone)]
pub struct Reservations {
    profile: Availability,
    /// The bookings by job. The map is looked up and never walked, so its order does not matter.
    booked: JobMap<Booking>,
    upcoming: BTreeMap<(SchedTime, u64), JobId>,
    held: JobMap<Held>,
    booked_ever: u64,
    /// Whether the last compression moved nothing and nothing was given back since.
    compressed: bool,
    /// The profile does not match the ledger, and must be rebuilt.
    stale: bool,
}

impl Conservative {
    /// The policy on an idle machine.
    #[must_use]
    pub fn new(machine: Machine, params: &PolicyParams) -> Self {
        Self::under(Reservations::default(), machine, params)
    }

    /// For the registry.
    #[must_use]
    pub fn boxed(machine: Machine, params: &PolicyParams) -> Box<dyn Policy> {
        Box::new(Self::new(machine, params))
    }
}

impl Default for Reservations {
    fn default() -> Self {
        Self {
            profile: Availability::new(SchedTime::ZERO, 0),
            booked: JobMap::default(),
            upcoming: BTreeMap::new(),
            held: JobMap::default(),
            booked_ever: 0,
            compressed: false,
            // The first event brings the machine.
            stale: true,
        }
    }
}

impl Discipline for Reservations {
    fn name(&self) -> &'static str {
        NAME
    }

    fn passing(&self) -> Passing {
        Passing::Harmless
    }

    fn decide(&mut self, space: &mut Space, news: &[News]) {
        let remakes = |news: &News| match news {
            News::Restored
            | News::Reordered
            | News::MachineChanged
            | News::ReservationsChanged
            | News::Late => true,
            News::Submitted(_) | News::Finished { .. } | News::Withdrawn(_) => false,
        };
        self.stale |= space.has_reservations() || news.iter().any(remakes);
        self.profile.advance(space.now());
        if overtaken(space, news) {
            // A promise for this instant may now belong to a more urgent job.
            self.stale = true;
        } else {
            self.start_those_whose_time_has_come(space);
        }
        for news in news {
            if self.stale {
                break;
            }
            match *news {
                News::Submitted(job) => self.submitted(space, job),
                News::Finished { job } => self.finished(space, job),
                News::Withdrawn(job) => self.withdrawn(space, job),
                News::Restored
                | News::Reordered
                | News::MachineChanged
                | News::ReservationsChanged
                | News::Late => {}
            }
        }
        if self.stale {
            self.rebuild(space);
        }
    }

    /// Starts jobs in queue order without passing, because promises consider the nodes of the whole
    /// machine.
    fn decide_apart(&mut self, space: &mut Space, _news: &[News]) {
        self.stale = true;
        space.offer(Order::Queue, |job| if job.fits() { Verdict::Start } else { Verdict::Stop });
    }

    fn start_of(&self, space: &Space, job: JobId) -> Option<SchedTime> {
        let start = self.booked.get(&job).map(|booking| booking.start)?;
        // A promise for the present instant that cannot be kept is replaced.
        (!space.has_reservations() || start > space.now()).then_some(start)
    }

    fn starts(&self, space: &Space) -> Vec<(JobId, SchedTime)> {
        let start = |job| Some((job, self.start_of(space, job)?));
        space.queue().iter().filter_map(|request| start(request.id)).collect()
    }

    fn check(&self, _space: &Space) -> Result<(), InvariantViolation> {
        self.profile.check()
    }
}

impl Reservations {
    fn start_those_whose_time_has_come(&mut self, space: &mut Space) {
        let now = space.now();
        while let Some((&(start, number), &job)) = self.upcoming.first_key_value() {
            if start > now {
                break;
            }
            self.upcoming.remove(&(start, number));
            let Some(Booking { end, hole, .. }) = self.booked.remove(&job) else { continue };
            let in_time = space.start(job) && start == now;
            self.held.insert(job, Held { end, pes: hole.pes });
            // Later promises may not hold: a job has outlived its estimate, this job starts and
            // ends later than promised, or it holds PEs that counting did not cover.
            self.stale |= !in_time || hole.first_pes != hole.pes;
        }
    }

    fn submitted(&mut self, space: &mut Space, job: JobId) {
        if self.booked.contains_key(&job) {
            // Other news of the same instant has booked it.
            return;
        }
        let Some(candidate) = space.candidate(job) else { return };
        if self.book(&candidate) == Verdict::Start {
            space.start(job);
        }
    }

    fn finished(&mut self, space: &mut Space, job: JobId) {
        let now = space.now();
        if let Some(Held { end, pes }) = self.held.remove(&job)
            && end > now
        {
            self.profile.give(now, end, pes);
            self.given_back(space);
        }
        self.compress(space);
    }

    fn withdrawn(&mut self, space: &mut Space, job: JobId) {
        let now = space.now();
        if let Some(booking) = self.booked.get(&job).copied() {
            self.unbook(job, booking);
        } else if let Some(Held { end, pes }) = self.held.remove(&job) {
            // The job was due.
            self.profile.give(now, end, pes);
        }
        self.given_back(space);
        self.compress(space);
    }

    fn given_back(&mut self, space: &Space) {
        self.compressed = false;
        self.stale |= !space.queue().is_by_submission();
    }

    /// Moves each waiting job to its earliest hole, in queue order.
    fn compress(&mut self, space: &mut Space) {
        if self.stale || std::mem::replace(&mut self.compressed, true) {
            return;
        }
        space.offer(Order::Queue, |job| self.move_earlier(job));
    }

    fn move_earlier(&mut self, job: &Candidate<'_>) -> Verdict {
        let Some(booking) = self.booked.get(&job.job()).copied() else {
            return self.book(job);
        };
        let Hole { first_pes, pes, length } = booking.hole;
        let may_start = !job.is_plain() && job.fits();
        if first_pes == pes && !may_start {
            let Some(start) = self.profile.earlier(booking.start, pes, length) else {
                return Verdict::Wait;
            };
            self.compressed = false;
            self.unbook(job.job(), booking);
            return self.book_at(job, start, booking.hole);
        }
        self.unbook(job.job(), booking);
        let verdict = self.book(job);
        let after = self.booked.get(&job.job());
        self.compressed &= after.is_some_and(|after| after.start == booking.start);
        verdict
    }

    /// Promises a job its earliest hole, or lets it hold its PEs if the hole begins now.
    fn book(&mut self, job: &Candidate<'_>) -> Verdict {
        self.book_from(job, &mut |profile, hole| profile.earliest(hole))
    }

    fn book_from(
        &mut self,
        job: &Candidate<'_>,
        earliest: &mut dyn FnMut(&Availability, Hole) -> Option<SchedTime>,
    ) -> Verdict {
        if !job.is_placeable() {
            return Verdict::Wait;
        }
        let hole = hole(job);
        if !job.is_plain() && job.fits() {
            let pes = job.pes_now();
            let narrow = Hole { first_pes: pes, pes, ..hole };
            if self.profile.has_now(narrow) {
                return self.hold(job, narrow);
            }
        }
        match earliest(&self.profile, hole) {
            Some(start) => self.book_at(job, start, hole),
            None => Verdict::Wait,
        }
    }

    fn book_at(&mut self, job: &Candidate<'_>, start: SchedTime, hole: Hole) -> Verdict {
        // If a job outlives its estimate, the promises may show room that does not exist. The
        // promise then stands until that job has ended.
        if start == job.now() && job.fits() {
            return self.hold(job, hole);
        }
        let end = start + hole.length;
        let number = self.booked_ever;
        self.booked_ever += 1;
        self.profile.take(start, end, hole.pes);
        self.profile.take(start, start + INSTANT, hole.first_pes - hole.pes);
        self.upcoming.insert((start, number), job.job());
        self.booked.insert(job.job(), Booking { start, end, hole, number });
        Verdict::Wait
    }

    /// Starts a job whose hole begins now.
    fn hold(&mut self, job: &Candidate<'_>, hole: Hole) -> Verdict {
        let (end, pes) = (job.end(), hole.pes);
        self.profile.take(job.now(), end, pes);
        // The PEs that it will hold are known only after its placement.
        self.stale |= !job.is_plain();
        self.held.insert(job.job(), Held { end, pes });
        Verdict::Start
    }

    fn unbook(&mut self, job: JobId, booking: Booking) {
        let Booking { start, end, hole, number } = booking;
        self.profile.give(start, end, hole.pes);
        self.profile.give(start, start + INSTANT, hole.first_pes - hole.pes);
        self.upcoming.remove(&(start, number));
        self.booked.remove(&job);
    }

    /// Rebuilds the profile and all promises, in queue order.
    fn rebuild(&mut self, space: &mut Space) {
        let now = space.now();
        self.profile = Availability::new(now, space.machine().expected_pes());
        self.booked.clear();
        self.upcoming.clear();
        self.held.clear();
        for (job, end, pes) in space.holdings() {
            self.profile.take(now, end, pes);
            self.held.insert(job, Held { end, pes });
        }
        for (from, to, pes) in space.reserved_pes() {
            self.profile.take(from, to, pes);
        }
        (self.stale, self.compressed) = (false, false);
        // The loop only takes PEs, so a hole cannot begin earlier than one found before for an
        // equal or smaller job. A queue of equal jobs thus costs one walk over the profile. Other
        // jobs begin their search at the start found for a job of about their shape.
        let mut found: HashMap<Hole, SchedTime> = HashMap::new();
        let mut search = |profile: &Availability, from: SchedTime, hole: Hole| {
            let from = found.get(&hole).map_or(from, |found| from.max(*found));
            let start = profile.earliest_from(from, hole)?;
            found.insert(hole, start);
            Some(start)
        };
        let mut earliest = |profile: &Availability, hole: Hole| {
            let from = search(profile, SchedTime::ZERO, rounded_down(hole))?;
            search(profile, from, hole)
        };
        space.offer(Order::Queue, |job| self.book_from(job, &mut earliest));
    }
}

/// A hole that fits wherever `hole` fits, rounded down to powers of two, so that there are few
/// shapes.
fn rounded_down(hole: Hole) -> Hole {
    let Hole { first_pes, pes, length } = hole;
    let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let floor = |number: u64| number.checked_ilog2().map_or(0, |log| 1 << log);
    let pes_floor = |pes: u32| u32::try_from(floor(u64::from(pes))).unwrap_or(0);
    Hole {
        first_pes: pes_floor(first_pes),
        pes: pes_floor(pes),
        length: Duration::from_nanos(floor(nanos)),
    }
}

/// Whether a waiting job came to be ahead of jobs that already had promises.
fn overtaken(space: &Space, news: &[News]) -> bool {
    let queue = space.queue();
    let is_ahead = |news: &News| match *news {
        News::Submitted(job) => queue.contains(job) && !queue.is_last(job),
        _ => false,
    };
    // Jobs that are submitted together are ahead of each other, but of no other job.
    news.contains(&News::Reordered) || (news.iter().any(is_ahead) && !queue.is_by_submission())
}

/// The hole that a job needs. Demands other than a number of PEs are certain to be met only on an
/// idle machine.
fn hole(job: &Candidate<'_>) -> Hole {
    let asked = job.request();
    let all = job.expected_pes().max(asked.pes());
    // The PEs of an exclusive job's nodes are known only when the nodes are chosen.
    let pes = if asked.exclusive { all } else { asked.pes() };
    // With reservations, counting is not certain either. But a job that waits for all PEs would
    // then wait for ever, and promises are made again at every event anyway.
    let first_pes = if asked.is_plain() { pes } else { all };
    Hole { first_pes, pes, length: job.estimate() }
}
