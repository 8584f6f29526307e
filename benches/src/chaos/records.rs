//! The records of the ranks: when each process of a rank began, when it was at work, and when it
//! ended.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The program of all jobs, a script: each rank appends to a file of its own. Its arguments are the
/// directory, whether the job may run again, and for how many tenths of a second it works.
pub const SCRIPT: &str = r#"#!/bin/sh
record="$1/$STORM_JOB_ID.$STORM_RANK"
at() { read -r up _ </proc/uptime; echo "$1 $$ $up" >>"$record"; }
echo "kind $2 $STORM_SIZE" >>"$record"
at begin
left=$3
while [ "$left" -gt 0 ]; do
    sleep 0.1
    at work
    left=$((left - 1))
done
at end
"#;

/// One process of a rank; times are seconds since the host was started.
#[derive(Clone, Copy, Debug)]
struct Run {
    pid: u32,
    began: f64,
    last: f64,
    ended: bool,
}

/// The record of one job.
#[derive(Clone, Debug, Default)]
pub struct Job {
    may_repeat: bool,
    size: u32,
    ranks: BTreeMap<u32, Vec<Run>>,
}

/// All records, by number of job.
///
/// # Errors
/// A record cannot be read.
pub fn read(dir: &Path) -> Result<BTreeMap<u64, Job>> {
    let mut jobs: BTreeMap<u64, Job> = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let strange = || format!("{name} is no record");
        let (job, rank) = name.split_once('.').with_context(strange)?;
        let (job, rank) = (job.parse().with_context(strange)?, rank.parse().with_context(strange)?);
        let text = fs::read_to_string(&path)?;
        let entry = jobs.entry(job).or_default();
        for line in text.lines() {
            // A killed process may have written its last line only partly.
            let _ = note(entry, rank, line);
        }
    }
    Ok(jobs)
}

fn note(job: &mut Job, rank: u32, line: &str) -> Option<()> {
    let mut words = line.split(' ');
    let (what, first, second) = (words.next()?, words.next()?, words.next()?);
    if what == "kind" {
        (job.may_repeat, job.size) = (first == "requeue", second.parse().ok()?);
        return Some(());
    }
    let (pid, at) = (first.parse().ok()?, second.parse().ok()?);
    let runs = job.ranks.entry(rank).or_default();
    if what == "begin" {
        runs.push(Run { pid, began: at, last: at, ended: false });
    } else if let Some(run) = runs.iter_mut().rev().find(|run| run.pid == pid) {
        run.last = at;
        run.ended |= what == "end";
    }
    Some(())
}

impl Job {
    /// The promises that the job broke.
    pub fn violations(&self, id: u64) -> Vec<String> {
        let mut found = Vec::new();
        for (rank, runs) in &self.ranks {
            if runs.len() > 1 && !self.may_repeat {
                found.push(format!(
                    "job {id}: rank {rank} ran {} times, without --requeue",
                    runs.len()
                ));
            }
            for pair in runs.windows(2) {
                if pair[0].last > pair[1].began {
                    found.push(format!(
                        "job {id}: rank {rank} ran twice at a time: {} until {:.2}, {} from {:.2}",
                        pair[0].pid, pair[0].last, pair[1].pid, pair[1].began
                    ));
                }
            }
        }
        found
    }

    /// Whether each of its ranks has reached its end.
    pub fn has_ended(&self) -> bool {
        let ended = self.ranks.values().filter(|runs| runs.iter().any(|run| run.ended));
        self.size > 0 && ended.count() == self.size as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(lines: &[&str]) -> Job {
        let mut job = Job::default();
        for line in lines {
            note(&mut job, 0, line);
        }
        job
    }

    #[test]
    fn second_and_concurrent_runs_are_detected() {
        let twice = ["begin 7 1.00", "work 7 1.10", "begin 8 2.00", "end 8 2.50"];
        let once = job(&[&["kind once 1"], &twice[..]].concat());
        assert_eq!(once.violations(1).len(), 1, "it may not run again");
        let again = job(&[&["kind requeue 1"], &twice[..]].concat());
        assert!(again.violations(1).is_empty() && again.has_ended());
        let beside = job(&[&["kind requeue 1"], &twice[..], &["work 7 2.20"]].concat());
        assert_eq!(beside.violations(1).len(), 1, "the first still worked");
        let cut = job(&["kind once 2", "begin 7 1.00", "end 7 1.50", "wor"]);
        assert!(!cut.has_ended(), "one of two ranks");
    }
}
