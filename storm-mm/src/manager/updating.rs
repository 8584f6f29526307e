//! Changes of jobs that were submitted (Slurm `scontrol update JobId=`).
//!
//! The owner of a job may shorten its time limit and lower its priority. Only an administrator may
//! do the contrary, as in Slurm. A partition and a dependency change while the job waits. The
//! policy receives a changed request; it is not told of a running job's new limit, which only
//! decides when the manager ends the job.

use super::Core;
use super::admission::request_of;
use super::jobs::no_such_job;
use crate::api::{ApiError, ErrorCode, JobChange, Peer};
use crate::job::{JobEventKind, JobRecord, Phase, Terms};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;
use storm_primitives::Instant;
use storm_rm::{Condition, Dependency, JobId, JobSpec};

/// The most jobs and conditions that a request looks at for a circle of jobs that wait for each
/// other.
const MOST_CONDITIONS: usize = 10_000;

/// The jobs and arrays for which other jobs wait, each with a job that waits for it. A request
/// looks for them once, whatever the number of jobs that it changes: all get the same dependency,
/// and the jobs that already have got it stand behind the ones that are looked at.
#[derive(Default)]
struct Ahead(Option<HashMap<JobId, JobId>>);

impl Core {
    /// Changes jobs, or the jobs of arrays. Returns the outcomes in the order of the jobs.
    pub fn update_all(
        &mut self,
        now: Instant,
        peer: Peer,
        jobs: &[JobId],
        change: &JobChange,
    ) -> Vec<Result<(), ApiError>> {
        let mut ahead = Ahead::default();
        self.together(now, |core| {
            let each = |job: &JobId| {
                let of = core.jobs.of(*job);
                core.each_of(now, peer, *job, of, |core, job| {
                    core.update(now, peer, job, (change, &mut ahead))
                })
            };
            jobs.iter().map(each).collect()
        })
    }

    fn update(
        &mut self,
        now: Instant,
        peer: Peer,
        job: JobId,
        (change, ahead): (&JobChange, &mut Ahead),
    ) -> Result<(), ApiError> {
        let record = self.jobs.get(&job).ok_or_else(|| no_such_job(job))?;
        if let Phase::Ended(outcome) = &record.phase {
            let message = format!("job {} has ended: {}", record.name(), outcome.state);
            return Err(ApiError::new(ErrorCode::JobEnded, message));
        }
        let before = Terms::of(record);
        let terms = changed(&before, change);
        self.check_rights(peer, record, &before, &terms)?;
        let terms = self.checked(record, (&before, terms), ahead)?;
        let what = told(&before, &terms);
        if what.is_empty() {
            return Ok(());
        }
        let (uid, waits) = (peer.uid, record.phase == Phase::Pending);
        let waits_anew = before.dependency != terms.dependency;
        let is_renamed = before.name != terms.name;
        if waits && concerns_policy(&before, &terms) {
            self.leave(now, job);
        }
        let terms = Box::new(terms);
        self.append(now, job, JobEventKind::Changed { uid, terms, what, waits_anew });
        match waits {
            true => {
                self.watch_dependencies(now, job);
                self.look_again_with_new_terms(job);
                self.reconsider(now, job);
            }
            false => self.arm_time_limit(now, job),
        }
        if is_renamed {
            self.recall_later_of_name(now, job);
        }
        self.settle(now);
        Ok(())
    }

    /// A job has taken a name: later ones that are to be the first of that name, and that wait for
    /// elements already, wait for it.
    fn recall_later_of_name(&mut self, now: Instant, job: JobId) {
        let Some(record) = self.jobs.get(&job) else { return };
        let later = self.jobs.needs().later_of_name(record);
        let tasks = later.iter().flat_map(|unit| self.jobs.needs().tasks_of(*unit));
        let singletons = later.iter().copied().chain(tasks).filter(|other| {
            let known = self.jobs.get(other).filter(|known| known.phase == Phase::Pending);
            known.is_some_and(|known| is_singleton(known.spec.needs.dependency.as_ref()))
        });
        for other in singletons.collect::<Vec<JobId>>() {
            self.leave(now, other);
            self.reconsider(now, other);
        }
    }

    /// Fails if the user may not change the terms so.
    fn check_rights(
        &self,
        peer: Peer,
        record: &JobRecord,
        before: &Terms,
        after: &Terms,
    ) -> Result<(), ApiError> {
        let refused = |message: &str| Err(ApiError::new(ErrorCode::NotPermitted, message));
        let admin = self.is_admin(peer);
        let longest = |limit: Option<Duration>| limit.unwrap_or(Duration::MAX);
        if longest(after.time_limit) > longest(before.time_limit) && !admin {
            return refused("only an administrator may lengthen a time limit");
        }
        if after.nice < before.nice && !admin {
            return refused("only an administrator may raise a priority again");
        }
        let waiting = [
            ("partition", before.partition != after.partition),
            ("dependency", before.dependency != after.dependency),
        ];
        let late = waiting.iter().find(|(_, changes)| *changes && record.phase != Phase::Pending);
        if let Some((what, _)) = late {
            let message = format!("job {} has started: its {what} is past", record.name());
            return Err(ApiError::new(ErrorCode::BadRequest, message));
        }
        Ok(())
    }

    /// The terms if a job can have them: its partition can run it, and the jobs that it depends on
    /// exist.
    fn checked(
        &self,
        record: &JobRecord,
        (before, mut terms): (&Terms, Terms),
        ahead: &mut Ahead,
    ) -> Result<Terms, ApiError> {
        let bad = |message: String| ApiError::new(ErrorCode::BadRequest, message);
        let mut spec = JobSpec::clone(&record.spec);
        spec.name.clone_from(&terms.name);
        spec.remarks.comment.clone_from(&terms.comment);
        (spec.time_limit, spec.partition) = (terms.time_limit, Some(terms.partition.clone()));
        super::admission::check_texts(&spec)?;
        super::admission::check_amounts(&spec)?;
        if terms.name != before.name && record.task.is_some() {
            let message = format!("job {} belongs to an array, which has one name", record.name());
            return Err(bad(message));
        }
        if terms.partition != before.partition {
            if let Some((_, name)) = &record.reservation {
                return Err(bad(format!(
                    "job {} waits for reservation {name}, which has its partition",
                    record.name()
                )));
            }
            let id = self.partitions.id_of(&terms.partition);
            let id = id.ok_or_else(|| self.partitions.none_named(&terms.partition))?;
            let request = request_of(record.id, &spec);
            let machine = self.partitions[id].policy().machine();
            storm_sched::feasible(machine, &request).map_err(|why| {
                let message = format!("partition {:?} can never run this job", terms.partition);
                ApiError::new(ErrorCode::Infeasible, message).why(why.to_string())
            })?;
        }
        if terms.dependency != before.dependency {
            let of_itself = |needed: &Dependency| {
                needed.conditions.iter().any(|one| {
                    one.job().is_some_and(|job| job == record.id || job == record.unit())
                })
            };
            if terms.dependency.as_ref().is_some_and(of_itself) {
                return Err(bad(format!("job {} would wait for itself", record.name())));
            }
            spec.needs.dependency = terms.dependency.take();
            self.check_dependency(&mut spec.needs)?;
            terms.dependency.clone_from(&spec.needs.dependency);
            let circle = terms.dependency.as_ref().and_then(|on| {
                let ahead = ahead.0.get_or_insert_with(|| self.ahead_of(on));
                ahead.get(&record.id).or_else(|| ahead.get(&record.unit())).copied()
            });
            if let Some(other) = circle {
                let message = format!(
                    "job {} would wait for job {}, which waits for it",
                    record.name(),
                    self.jobs.name(other)
                );
                return Err(bad(message));
            }
        }
        self.jobs.check_changed_bytes(&record.spec, &spec)?;
        Ok(terms)
    }

    /// The jobs and arrays for which the jobs of this dependency wait, and those for which these
    /// wait, and on: each with a job that waits for it. If the dependencies are too many to look
    /// at, those that are nearest.
    fn ahead_of(&self, dependency: &Dependency) -> HashMap<JobId, JobId> {
        let mut left = MOST_CONDITIONS;
        let jobs = |conditions: &[Condition]| {
            conditions.iter().filter_map(|one| one.job()).collect::<Vec<_>>()
        };
        let mut waited_for = HashMap::new();
        let (mut units, mut seen) = (VecDeque::from(jobs(&dependency.conditions)), HashSet::new());
        while let Some(unit) = units.pop_front() {
            if !seen.insert(unit) {
                continue;
            }
            for other in self.jobs.of(unit) {
                let waits = |record: &&JobRecord| record.phase == Phase::Pending;
                let needed = self.jobs.get(&other).filter(waits);
                let needed = needed.and_then(|record| record.spec.needs.dependency.as_ref());
                let needed = needed.map_or(&[][..], |needed| &needed.conditions);
                let Some(fewer) = left.checked_sub(1 + needed.len()) else { return waited_for };
                left = fewer;
                for next in jobs(needed) {
                    waited_for.entry(next).or_insert(other);
                    units.push_back(next);
                }
            }
        }
        waited_for
    }
}

fn is_singleton(needed: Option<&Dependency>) -> bool {
    needed.is_some_and(|needed| needed.conditions.contains(&Condition::Singleton))
}

/// Whether the policy of a waiting job must have it anew. A job keeps its place in the queue when
/// other terms change.
fn concerns_policy(before: &Terms, after: &Terms) -> bool {
    before.partition != after.partition
        || before.time_limit != after.time_limit
        || before.nice != after.nice
        || before.dependency != after.dependency
        || (before.name != after.name && is_singleton(after.dependency.as_ref()))
}

/// The terms after a change.
fn changed(before: &Terms, change: &JobChange) -> Terms {
    let JobChange { time_limit, partition, nice, name, comment, dependency, .. } = change.clone();
    let comment = match comment {
        Some(comment) => Some(comment).filter(|comment| !comment.is_empty()),
        None => before.comment.clone(),
    };
    Terms {
        name: name.unwrap_or_else(|| before.name.clone()),
        partition: partition.unwrap_or_else(|| before.partition.clone()),
        time_limit: time_limit.or(before.time_limit).filter(|_| !change.no_time_limit),
        nice: nice.unwrap_or(before.nice),
        comment,
        dependency: dependency
            .or_else(|| before.dependency.clone())
            .filter(|_| !change.no_dependency),
    }
}

/// The changes in words; empty if nothing changes.
fn told(before: &Terms, after: &Terms) -> String {
    let seconds = |limit: Option<Duration>| match limit {
        Some(limit) => format!("{} s", limit.as_secs_f64()),
        None => "none".to_owned(),
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let needed = |needed: &Option<Dependency>| {
        needed.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
    };
    let items = [
        ("name", before.name.clone(), after.name.clone()),
        ("partition", before.partition.clone(), after.partition.clone()),
        ("time limit", seconds(before.time_limit), seconds(after.time_limit)),
        ("nice", before.nice.to_string(), after.nice.to_string()),
        ("comment", text(&before.comment), text(&after.comment)),
        ("dependency", needed(&before.dependency), needed(&after.dependency)),
    ];
    let differ = items.iter().filter(|(_, before, after)| before != after);
    let told = differ.map(|(what, before, after)| format!("{what} {before} -> {after}"));
    bounded(told.collect::<Vec<_>>().join(", "))
}

/// Entries of a log are short: a dependency may have thousands of jobs.
fn bounded(text: String) -> String {
    const MOST: usize = 400;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}
