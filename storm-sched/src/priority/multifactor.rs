//! The multifactor priority of Slurm: a weighted sum of factors between 0 and 1, less the user's
//! own deduction (A7 of the policy reference).

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Priority;

/// The default age at which a job's age factor reaches 1: 7 days, Slurm's `PriorityMaxAge`.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The weight of each factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Weights {
    /// The weight of the age factor.
    pub age: u32,
    /// The weight of the size factor.
    pub size: u32,
    /// Whether small jobs are preferred to large ones, and not the other way round.
    pub favour_small: bool,
    /// The weight of the fair-share factor.
    pub fair_share: u32,
    /// The weight of the quality of service.
    pub qos: u32,
    /// The weight of the partition.
    pub partition: u32,
    /// The age at which the age factor is 1, in seconds. Default [`DEFAULT_MAX_AGE`].
    pub max_age_s: NonZeroU32,
}

/// The facts about a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    /// How long the job has been able to start and has waited.
    pub waited: Duration,
    /// The processing elements that the job asks for.
    pub pes: u32,
    /// The PEs of the partition.
    pub partition_pes: NonZeroU32,
    /// The fair-share factor of the job's user ([`crate::priority::Account::fair_factors`]).
    pub fair_share: f64,
    /// The factor of the job's quality of service.
    pub qos: f64,
    /// The factor of the job's partition.
    pub partition: f64,
    /// The administrator's addition.
    pub site: i64,
    /// The deduction that the job's user asked for (`--nice`). Only administrators may give a
    /// negative value; the check is elsewhere.
    pub nice: i64,
}

impl Default for Weights {
    /// All weights are zero, as in Slurm: jobs are equal and are ordered by submission.
    fn default() -> Self {
        const WEEK_S: NonZeroU32 = NonZeroU32::new(DEFAULT_MAX_AGE.as_secs() as u32).unwrap();
        Self {
            age: 0,
            size: 0,
            favour_small: false,
            fair_share: 0,
            qos: 0,
            partition: 0,
            max_age_s: WEEK_S,
        }
    }
}

impl Weights {
    /// The priority of a job: `site + sum of weight * factor - nice`, a whole number from 0 to the
    /// largest. A factor outside 0 to 1 counts as the nearer of the two, and a factor that is not a
    /// number as 0.
    #[must_use]
    pub fn priority(&self, job: &Factors) -> Priority {
        let Contributions { age, size, fair_share, qos, partition } = self.contributions(job);
        let sum: i64 = [age, size, fair_share, qos, partition].map(i64::from).iter().sum();
        let priority = sum.saturating_add(job.site).saturating_sub(job.nice);
        Priority(u32::try_from(priority.max(0)).unwrap_or(u32::MAX))
    }

    /// The contribution of each factor to the priority of a job.
    #[must_use]
    pub fn contributions(&self, job: &Factors) -> Contributions {
        let age = job.waited.as_secs_f64() / f64::from(self.max_age_s.get());
        let share = f64::from(job.pes) / f64::from(job.partition_pes.get());
        let size = if self.favour_small { 1.0 - within_one(share) } else { share };
        // The product is at most the weight, so it fits the type.
        let weighted = |weight: u32, factor| (f64::from(weight) * within_one(factor)) as u32;
        Contributions {
            age: weighted(self.age, age),
            size: weighted(self.size, size),
            fair_share: weighted(self.fair_share, job.fair_share),
            qos: weighted(self.qos, job.qos),
            partition: weighted(self.partition, job.partition),
        }
    }
}

/// The contributions to a priority: each factor times its weight, as a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Contributions {
    /// The contribution of the age.
    pub age: u32,
    /// The contribution of the size.
    pub size: u32,
    /// The contribution of the fair share.
    pub fair_share: u32,
    /// The contribution of the quality of service.
    pub qos: u32,
    /// The contribution of the partition.
    pub partition: u32,
}

fn within_one(factor: f64) -> f64 {
    if factor.is_nan() { 0.0 } else { factor.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: Factors = Factors {
        waited: Duration::ZERO,
        pes: 16,
        partition_pes: NonZeroU32::new(64).unwrap(),
        fair_share: 0.5,
        qos: 0.0,
        partition: 0.0,
        site: 0,
        nice: 0,
    };

    fn weights() -> Weights {
        Weights { age: 1000, size: 400, fair_share: 2000, qos: 5000, ..Weights::default() }
    }

    #[test]
    fn the_priority_is_the_weighted_sum_of_the_factors() {
        assert_eq!(weights().priority(&JOB), Priority(100 + 1000));
        let day = Duration::from_secs(24 * 3600);
        let old = Factors { waited: day * 7 / 2, ..JOB };
        assert_eq!(weights().priority(&old), Priority(500 + 100 + 1000));
        let older = Factors { waited: day * 30, qos: 1.0, ..JOB };
        assert_eq!(weights().priority(&older), Priority(1000 + 100 + 1000 + 5000));
        let small_first = Weights { favour_small: true, ..weights() };
        assert_eq!(small_first.priority(&JOB), Priority(300 + 1000));
        assert_eq!(Weights::default().priority(&older), Priority(0));
        let express = Factors { partition: 0.5, ..JOB };
        let of_partition = Weights { partition: 300, ..weights() };
        assert_eq!(of_partition.priority(&express), Priority(100 + 1000 + 150));
        assert_eq!(of_partition.contributions(&express).partition, 150);
    }

    #[test]
    fn niceness_and_the_site_move_the_priority_within_its_bounds() {
        assert_eq!(weights().priority(&Factors { nice: 100, ..JOB }), Priority(1000));
        assert_eq!(weights().priority(&Factors { nice: 2000, ..JOB }), Priority(0));
        assert_eq!(weights().priority(&Factors { site: 7, nice: -3, ..JOB }), Priority(1110));
        assert_eq!(weights().priority(&Factors { site: i64::MAX, ..JOB }), Priority(u32::MAX));
        assert_eq!(weights().priority(&Factors { nice: i64::MAX, ..JOB }), Priority(0));
        let odd = Factors { fair_share: f64::NAN, qos: 7.0, ..JOB };
        assert_eq!(weights().priority(&odd), Priority(100 + 5000));
    }
}
