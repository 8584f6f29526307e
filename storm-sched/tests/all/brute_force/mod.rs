//! Brute force: the policies of A2 as they are defined, second by second.
//!
//! Only the start of each job, or its promised start, is kept from one decision to the next. For
//! each decision, the free processors of every second are counted from scratch.

use crate::virtual_time::{Log, LogJob};

/// The rule by which jobs start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Easy { shortest_first: bool },
    Conservative,
    ShortestFirst,
}

/// A job of the log during the run.
#[derive(Debug, Clone, Copy)]
struct Job {
    log: LogJob,
    submitted: bool,
    ended: bool,
    /// When the job starts, if that is known, and the number of starts decided before.
    start: Option<(u64, usize)>,
}

struct BruteForce<'a> {
    log: &'a Log,
    rule: Rule,
    jobs: Vec<Job>,
    decisions: usize,
    horizon_s: u64,
}

/// When each job starts, in seconds.
pub(crate) fn starts(log: &Log, rule: Rule) -> Vec<u64> {
    let last = log.jobs.iter().map(|job| job.submit_s).max().unwrap_or(0);
    let horizon_s = last + 2 * log.jobs.iter().map(|job| job.estimate_s).sum::<u64>() + 2;
    let job = |log: &LogJob| Job { log: *log, submitted: false, ended: false, start: None };
    let jobs = log.jobs.iter().map(job).collect();
    let mut world = BruteForce { log, rule, jobs, decisions: 0, horizon_s };
    for now in 0..horizon_s {
        world.second(now);
    }
    world.jobs.iter().map(|job| job.start.expect("all jobs start within the horizon").0).collect()
}

impl BruteForce<'_> {
    fn second(&mut self, now: u64) {
        for job in 0..self.jobs.len() {
            if self.jobs[job].log.submit_s == now {
                self.jobs[job].submitted = true;
                self.submitted(now, job);
            }
        }
        let ends = |job: &Job| job.start.is_some_and(|(start, _)| start + job.log.run_s == now);
        let mut ending: Vec<usize> =
            (0..self.jobs.len()).filter(|j| ends(&self.jobs[*j])).collect();
        ending.sort_by_key(|job| self.jobs[*job].start);
        for job in ending {
            self.jobs[job].ended = true;
            self.pass(now);
        }
    }

    fn submitted(&mut self, now: u64, job: usize) {
        if self.rule == Rule::Conservative {
            let start = self.earliest(now, job);
            self.decide(job, start);
        } else if self.free(now, &[])[now as usize] >= self.procs(job) {
            self.pass(now);
        }
    }

    fn pass(&mut self, now: u64) {
        match self.rule {
            Rule::Easy { shortest_first } => self.backfill(now, shortest_first),
            Rule::Conservative => self.compress(now),
            Rule::ShortestFirst => {
                let mut waiting = self.waiting();
                waiting.sort_by_key(|job| self.jobs[*job].log.estimate_s);
                self.start_prefix(now, &waiting);
            }
        }
    }

    fn backfill(&mut self, now: u64, shortest_first: bool) {
        let waiting = self.waiting();
        let blocked = self.start_prefix(now, &waiting);
        let Some((head, rest)) = blocked.split_first() else { return };
        let mut rest = rest.to_vec();
        if shortest_first {
            rest.sort_by_key(|job| self.jobs[*job].log.estimate_s);
        }
        for job in rest {
            let reserved = (*head, self.earliest(now, *head));
            let free = self.free(now, &[reserved]);
            if self.fits(&free, now, job) {
                self.decide(job, now);
            }
        }
    }

    /// Starts jobs in this order as long as they fit. Returns the remaining jobs.
    fn start_prefix<'o>(&mut self, now: u64, order: &'o [usize]) -> &'o [usize] {
        for (place, &job) in order.iter().enumerate() {
            if self.free(now, &[])[now as usize] < self.procs(job) {
                return &order[place..];
            }
            self.decide(job, now);
        }
        &[]
    }

    fn compress(&mut self, now: u64) {
        for job in 0..self.jobs.len() {
            let Some((before, number)) = self.jobs[job].start else { continue };
            if before <= now {
                continue;
            }
            self.jobs[job].start = None;
            let start = self.earliest(now, job);
            assert!(start <= before, "a reservation moved later");
            self.jobs[job].start = Some((before, number));
            if start < before {
                self.decide(job, start);
            }
        }
    }

    fn decide(&mut self, job: usize, start: u64) {
        self.jobs[job].start = Some((start, self.decisions));
        self.decisions += 1;
    }

    fn waiting(&self) -> Vec<usize> {
        let waits = |job: &usize| self.jobs[*job].submitted && self.jobs[*job].start.is_none();
        (0..self.jobs.len()).filter(waits).collect()
    }

    fn procs(&self, job: usize) -> i64 {
        i64::from(self.jobs[job].log.procs)
    }

    /// The free processors of each second from now on, by the estimates.
    fn free(&self, now: u64, reserved: &[(usize, u64)]) -> Vec<i64> {
        let mut free = vec![i64::from(self.log.pes); 2 * self.horizon_s as usize];
        let started = (0..self.jobs.len()).filter(|job| !self.jobs[*job].ended);
        let started = started.filter_map(|job| Some((job, self.jobs[job].start?.0)));
        for (job, start) in started.chain(reserved.iter().copied()) {
            let end = start + self.jobs[job].log.estimate_s;
            for second in start.max(now)..end.max(now) {
                free[second as usize] -= self.procs(job);
            }
        }
        assert!(free.iter().all(|free| *free >= 0), "more was promised than there is");
        free
    }

    fn fits(&self, free: &[i64], start: u64, job: usize) -> bool {
        let mut run = start..start + self.jobs[job].log.estimate_s;
        run.all(|second| free[second as usize] >= self.procs(job))
    }

    fn earliest(&self, now: u64, job: usize) -> u64 {
        let free = self.free(now, &[]);
        let mut times = now..self.horizon_s;
        times.find(|start| self.fits(&free, *start, job)).expect("the machine is empty in the end")
    }
}
