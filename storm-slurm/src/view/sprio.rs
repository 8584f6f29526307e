//! `sprio`: the parts of the priorities of jobs that wait.

use super::field::both;
use super::{Field, Show};

/// Facts about the priority of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityFacts {
    /// Its number, as users write it.
    pub job: String,
    /// Its partition.
    pub partition: String,
    /// Its user.
    pub user: String,
    /// The sum.
    pub priority: u32,
    /// Summand for its age.
    pub age: u32,
    /// Summand for the fair share of its user.
    pub fair_share: u32,
    /// Summand for its size.
    pub size: u32,
    /// Summand for its partition.
    pub of_partition: u32,
    /// Summand for its quality of service.
    pub qos: u32,
    /// Subtrahend, from `--nice`.
    pub nice: i32,
}

/// The format without any option.
pub const DEFAULT_FORMAT: &str = "%.15i %9r %.10Y %.10S %.10A %.10F %.10J %.10P %.10Q";
/// The format of `--long`.
pub const LONG_FORMAT: &str =
    "%.15i %9r %.8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %.20T";

/// Every field. The letters of normalised parts are missing: the manager tells no weights.
pub const PRIORITY_FIELDS: &[Field<PriorityFacts>] = &[
    both('A', "age", "AGE", |one, _| one.age.to_string()),
    both('B', "assoc", "ASSOC", |_, _| "0".to_owned()),
    both('c', "cluster", "CLUSTER", cluster),
    both('F', "fairshare", "FAIRSHARE", |one, _| one.fair_share.to_string()),
    both('i', "jobid", "JOBID", |one, _| one.job.clone()),
    both('J', "jobsize", "JOBSIZE", |one, _| one.size.to_string()),
    both('N', "nice", "NICE", |one, _| one.nice.to_string()),
    both('P', "partitionprio", "PARTITION", |one, _| one.of_partition.to_string()),
    both('Q', "qos", "QOS", |one, _| one.qos.to_string()),
    both('r', "partition", "PARTITION", |one, _| one.partition.clone()),
    both('S', "site", "SITE", |_, _| "0".to_owned()),
    both('T', "tres", "TRES", |_, _| String::new()),
    both('u', "user", "USER", |one, _| one.user.clone()),
    both('y', "normpriority", "PRIORITY", |one, _| {
        format!("{:.14}", f64::from(one.priority) / f64::from(u32::MAX))
    }),
    both('Y', "priority", "PRIORITY", |one, _| one.priority.to_string()),
];

fn cluster(_: &PriorityFacts, show: &Show) -> String {
    show.cluster.clone()
}
