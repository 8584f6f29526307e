//! The thread that checks, at the edges of slots, what ranks have done. The thread holds no lock
//! while it reads.

use super::{Edge, EdgeKind, Job, Shared, State, chores, now};
use crate::classes::LibraryReport;
use crate::job_classes::Counters;
use crate::{HostEvent, JobKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use storm_mpi::page::RankPage;
use storm_pl::boost::{Process, ProcessUsage};
use storm_pl::realtime;
use storm_rm::Rank;

/// A longer slot is checked in parts: nothing ends a slot while only one row has jobs.
const PART: Duration = Duration::from_millis(50);

/// The thread rests this many times as long as its last check took, since it runs before all
/// ordinary processes. With many ranks and short slots it skips some edges.
const REST: u32 = 9;

/// The number of rounds between two checks for sessions that ranks have started and that are not
/// behind others. A check takes as long as all the rest of a round.
const FAMILY_EVERY: u32 = 16;

/// The part of a job that is checked, and the edge for which the check is.
struct Look {
    job: JobKey,
    /// The number under which the job is watched now.
    number: u64,
    edge: Edge,
    page: Option<Arc<RankPage>>,
    first: Rank,
    ranks: BTreeMap<Rank, Arc<Process>>,
    /// Ranks whose sessions are checked.
    behind: BTreeSet<Rank>,
}

/// Watches until the end, as a real-time thread of this priority if one is given.
pub(super) fn watch(shared: &Shared, priority: Option<u8>) {
    if let Some(priority) = priority
        && let Err(error) = realtime::become_realtime(priority)
    {
        tracing::debug!(%error, "edges of slots are looked at when there is time");
    }
    while let Some(looks) = wait(shared) {
        let began = now();
        chores::put(shared);
        for look in looks {
            let counters = look.counters();
            let escaped = look.escaped();
            let mut state = shared.settled();
            let job = state.jobs.get_mut(&look.job).filter(|job| job.number == look.number);
            let Some(job) = job else { continue };
            if let Some(rank) = escaped {
                job.cannot_yield(rank, "it has started processes in sessions of their own");
                job.apply();
            }
            if job.edge.is_some() {
                // The next edge has passed: some counters may have been read after that edge.
                job.classes.slot_lost();
                continue;
            }
            if job.seen(look.edge, &counters) {
                job.apply();
                // If the queue is full, the next status reports the classes.
                let _ = shared.events.try_send(HostEvent::Classified { job: look.job });
            }
        }
        chores::tell(shared);
        shared.rest((now().saturating_sub(began)) * REST);
    }
}

/// Waits for an edge, for a chore, or until a part of a slot is over. Returns `None` at the end.
fn wait(shared: &Shared) -> Option<Vec<Look>> {
    let state = shared.lock();
    let nothing = |state: &mut State| {
        let no_edge = state.jobs.values().all(|job| job.edge.is_none());
        !state.over && (state.switching > 0 || (no_edge && !state.has_chores()))
    };
    let mut state = if state.jobs.is_empty() {
        let nobody = |state: &mut State| state.jobs.is_empty() && nothing(state);
        shared.changed.wait_while(state, nobody).unwrap_or_else(|error| error.into_inner())
    } else {
        let waited = shared.changed.wait_timeout_while(state, PART, nothing);
        waited.unwrap_or_else(|error| error.into_inner()).0
    };
    if state.over {
        return None;
    }
    let at = now();
    let looks = state.jobs.iter_mut().filter_map(|(key, job)| {
        let edge = job.edge.take().or_else(|| job.part_is_over(at))?;
        job.looks = job.looks.wrapping_add(1);
        let family = job.looks.is_multiple_of(FAMILY_EVERY);
        Some(Look {
            behind: if family { job.behind.clone() } else { BTreeSet::new() },
            job: *key,
            number: job.number,
            edge,
            page: job.page.clone(),
            first: job.first,
            ranks: job.ranks.clone(),
        })
    });
    Some(looks.collect())
}

impl Job {
    /// The edge at the end of a part of a long slot, if the part is over.
    fn part_is_over(&self, at: Duration) -> Option<Edge> {
        let began = self.classes.slot_began().filter(|_| self.in_slot)?;
        (at.saturating_sub(began) >= PART).then_some(Edge { at, kind: EdgeKind::Part })
    }

    /// Notes what the ranks had done at an edge. Returns whether the class of any rank has changed.
    fn seen(&mut self, edge: Edge, counters: &BTreeMap<Rank, Counters>) -> bool {
        let ends = matches!(edge.kind, EdgeKind::Ends | EdgeKind::Part);
        let changed = ends && self.classes.slot_ends(edge.at, counters);
        if matches!(edge.kind, EdgeKind::Begins | EdgeKind::Part) {
            self.classes.slot_begins(edge.at, counters);
        }
        changed
    }
}

impl Look {
    /// A rank behind others that has started processes which are not behind others.
    fn escaped(&self) -> Option<Rank> {
        let behind = self.ranks.iter().filter(|(rank, _)| self.behind.contains(rank));
        behind.into_iter().find(|(_, process)| process.has_sessions_below()).map(|(rank, _)| *rank)
    }

    /// The counters of the job's ranks up to the edge.
    fn counters(&self) -> BTreeMap<Rank, Counters> {
        // An unreadable page counts as an empty one.
        let said = self.page.as_ref().and_then(|page| page.read().ok()).unwrap_or_default();
        let one = |(rank, process): (&Rank, &Arc<Process>)| {
            let used = process.usage().ok()?;
            let place = rank.0.saturating_sub(self.first.0) as usize;
            let own = said.get(place).filter(|says| says.pid == process.pid().0 as u32);
            let library = own.map(|says| LibraryReport {
                operations: says.operations,
                waited: says.waited_until(self.edge.at),
            });
            let ProcessUsage { cpu, queued, sleeps } = used;
            Some((*rank, Counters { cpu, library, queued, sleeps }))
        };
        self.ranks.iter().filter_map(one).collect()
    }
}
