//! Listings in parts are those that come whole.

use super::world::{World, spec};
use crate::api::{HistoryQuery, JobFilter, JobState, JobView, Part};
use storm_rm::JobId;

const MOST: usize = 3;

/// All parts of a listing.
fn in_parts(mut part_of: impl FnMut(Part) -> (Vec<JobView>, bool)) -> Vec<JobView> {
    let mut listed: Vec<JobView> = Vec::new();
    loop {
        let after = listed.last().map(|view| view.id);
        let (views, more) = part_of(Part { after, most: MOST });
        assert!(views.len() == MOST || !more);
        listed.extend(views);
        if !more {
            return listed;
        }
    }
}

/// A node of which one job has all, and others wait.
fn crowded() -> (World, Vec<JobId>) {
    let mut world = World::joined("backfill", 4);
    let jobs = (0..20).map(|_| world.submit(spec(8, false, false))).collect();
    (world, jobs)
}

#[test]
fn all_parts_together_are_the_listing() {
    let (mut world, jobs) = crowded();
    for job in jobs.iter().skip(1).step_by(3) {
        assert!(world.cancel(*job));
    }
    let (now, all) = (world.now, JobFilter { history: true, ..JobFilter::default() });
    let pending = JobFilter { states: vec![JobState::Pending], ..JobFilter::default() };
    let named = JobFilter { jobs: jobs[5..12].to_vec(), ..JobFilter::default() };
    for filter in [JobFilter::default(), all, pending, named] {
        let whole = world.core.list_jobs(now, &filter);
        assert!(whole.len() > MOST);
        assert_eq!(in_parts(|part| world.core.list_part(now, &filter, part)), whole);
    }
}

#[test]
fn a_listing_that_begins_knows_what_has_just_changed() {
    let (mut world, jobs) = crowded();
    let filter = JobFilter::default();
    for job in jobs {
        let now = world.now;
        let whole = world.core.list_jobs(now, &filter);
        assert_eq!(in_parts(|part| world.core.list_part(now, &filter, part)), whole);
        assert!(world.cancel(job));
    }
}

#[test]
fn history_in_parts_goes_on_where_it_was_whatever_ends_and_is_forgotten_meanwhile() {
    let (mut world, jobs) = crowded();
    let (late, early) = jobs[1..].split_at(4);
    for job in early {
        assert!(world.cancel(*job));
    }
    let query = HistoryQuery { limit: 10, ..HistoryQuery::default() };
    let now = world.now;
    let whole = world.core.history(now, &query);
    assert_eq!(whole.len(), 10);
    let (first, more) = world.core.history_part(now, &query, Part { after: None, most: 10 });
    assert_eq!((first, more), (whole.clone(), false), "the limit is for all parts");
    let (first, _) = world.core.history_part(now, &query, Part { after: None, most: MOST });
    assert_eq!(first, whole[..MOST]);
    late.iter().for_each(|job| assert!(world.cancel(*job)));
    let part = Part { after: first.last().map(|view| view.id), most: MOST };
    assert_eq!(world.core.history_part(now, &query, part).0, whole[MOST..2 * MOST]);
    let forgotten = Part { after: Some(JobId(u64::MAX)), most: MOST };
    assert_eq!(world.core.history_part(now, &query, forgotten), (Vec::new(), false));
}
