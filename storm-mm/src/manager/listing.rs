//! Listings of jobs, whole or a part at a time.
//!
//! No copy of a listing is kept between its parts. A job is listed once, in its state when its part
//! is requested.

use super::Core;
use super::partitions::Waiting;
use crate::api::{HistoryQuery, JobFilter, JobView, Part};
use crate::job::{JobRecord, Phase};
use std::collections::HashSet;
use std::iter::Peekable;
use std::sync::Arc;
use storm_primitives::Instant;
use storm_rm::JobId;

/// The size, roughly, from which a part of a listing is long enough: a client that does not read
/// costs the manager a part.
const PART_BYTES: usize = 64 << 10;

impl Core {
    /// The jobs that pass `filter`, in order of their number; its `part` is ignored.
    pub fn list_jobs(&self, now: Instant, filter: &JobFilter) -> Vec<JobView> {
        // One walk of the queues serves all jobs; a few named jobs are queried one by one.
        let waiting =
            if filter.jobs.is_empty() { self.partitions.walk(now) } else { Waiting::default() };
        let more = More { attributes: filter.attributes, steps: filter.steps };
        let view = |record| self.listed(now, record, &waiting, more);
        self.passing(filter, None).map(view).collect()
    }

    /// A part of the result of [`list_jobs`](Self::list_jobs), and whether another part follows.
    pub fn list_part(
        &mut self,
        now: Instant,
        filter: &JobFilter,
        part: Part,
    ) -> (Vec<JobView>, bool) {
        let waiting = match filter.jobs.is_empty() {
            true => self.partitions.last_walk(now, part.after.is_none()),
            false => Arc::default(),
        };
        let mut passing = self.passing(filter, part.after).peekable();
        let more = More { attributes: filter.attributes, steps: filter.steps };
        let view = |record| self.listed(now, record, &waiting, more);
        let views = first_of(&mut passing, part.most, view);
        (views, passing.peek().is_some())
    }

    /// Ended jobs, the latest first; the query's `part` is ignored.
    pub fn history(&self, now: Instant, query: &HistoryQuery) -> Vec<JobView> {
        let ended = self.ended(query, None).take(query.limit as usize);
        let waiting = Waiting::default();
        let more = More { attributes: query.attributes, steps: query.steps };
        let view = |record| self.listed(now, record, &waiting, more);
        ended.map(|(_, record)| view(record)).collect()
    }

    /// A part of the result of [`history`](Self::history), within the query's limit, and whether
    /// there are more jobs. Jobs that are forgotten between parts are left out.
    pub fn history_part(
        &self,
        now: Instant,
        query: &HistoryQuery,
        part: Part<u64>,
    ) -> (Vec<JobView>, bool) {
        let mut ended = self.ended(query, part.after).take(query.limit as usize).peekable();
        let waiting = Waiting::default();
        let more = More { attributes: query.attributes, steps: query.steps };
        let placed = |(place, record): (u64, &JobRecord)| JobView {
            place: Some(place),
            ..self.listed(now, record, &waiting, more)
        };
        let views = first_of(&mut ended, part.most, placed);
        (views, ended.peek().is_some())
    }

    /// A job in a listing, with the further facts that are asked for.
    fn listed(&self, now: Instant, record: &JobRecord, waiting: &Waiting, more: More) -> JobView {
        let attributes = more.attributes.then(|| Box::new(self.attributes(now, record)));
        let steps = if more.steps { self.step_views(now, record) } else { Vec::new() };
        JobView { attributes, steps, ..self.view_with(now, record, waiting) }
    }

    /// The jobs after `after` that pass the filter.
    fn passing<'a>(
        &'a self,
        filter: &'a JobFilter,
        after: Option<JobId>,
    ) -> impl Iterator<Item = &'a JobRecord> {
        let is_meant = self.config.is_meant(&filter.uids, &filter.users);
        let jobs: HashSet<JobId> = filter.jobs.iter().copied().collect();
        let wanted = move |record: &&JobRecord| {
            let ended = matches!(record.phase, Phase::Ended(_));
            (filter.history || !ended || !filter.jobs.is_empty() || !filter.states.is_empty())
                && (filter.states.is_empty() || filter.states.contains(&record.state()))
                && is_meant(record.spec.owner.uid)
                && is_named(&jobs, record)
        };
        self.jobs.after(after).filter(wanted)
    }

    /// Jobs that ended before that of place `before`, and their places, the latest first.
    fn ended<'a>(
        &'a self,
        query: &'a HistoryQuery,
        before: Option<u64>,
    ) -> impl Iterator<Item = (u64, &'a JobRecord)> {
        let is_meant = self.config.is_meant(&query.uids, &query.users);
        let jobs: HashSet<JobId> = query.jobs.iter().copied().collect();
        self.jobs.ended(before).filter(move |(_, record)| {
            (query.states.is_empty() || query.states.contains(&record.state()))
                && is_meant(record.spec.owner.uid)
                && is_named(&jobs, record)
        })
    }
}

/// The further facts of jobs that a listing has.
#[derive(Clone, Copy)]
struct More {
    attributes: bool,
    steps: bool,
}

/// Views of the first of some jobs: at most `most`, and none once they are long enough together.
fn first_of<T>(
    jobs: &mut Peekable<impl Iterator<Item = T>>,
    most: usize,
    view: impl Fn(T) -> JobView,
) -> Vec<JobView> {
    let (mut views, mut bytes) = (Vec::new(), 0);
    while views.len() < most
        && bytes < PART_BYTES
        && let Some(job) = jobs.next()
    {
        let view = view(job);
        bytes += view.weight_bytes();
        views.push(view);
    }
    views
}

/// Whether a job is among these, by its own number or its array's. If `jobs` is empty, every job
/// is.
fn is_named(jobs: &HashSet<JobId>, record: &JobRecord) -> bool {
    jobs.is_empty() || jobs.contains(&record.id) || jobs.contains(&record.unit())
}
