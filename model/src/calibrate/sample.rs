//! The measurements.

use crate::input_error::{not_negative, positive};
use crate::{InputError, Mib};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A measured launch, with the parts that the Machine Manager reports.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchSample {
    /// Nodes of the job.
    pub nodes: u32,
    /// All of its processes.
    pub processes: u32,
    /// The data sent; zero if every node already had the program.
    #[serde(rename = "sent_mib")]
    pub sent: Mib,
    /// Reading, in ms, including the wait for free slots.
    pub read_ms: f64,
    /// The time from the last chunk until every node had written, in ms.
    pub write_ms: f64,
    /// The time from LAUNCH-JOB until all processes executed, in ms.
    pub exec_ms: f64,
    /// Waiting for a slice edge, in ms.
    pub slice_ms: f64,
    /// The whole launch, in ms.
    pub total_ms: f64,
}

/// A measured strobe, the median of many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StrobeSample {
    /// Nodes of the cluster.
    pub nodes: u32,
    /// The time from the strobe's issue until the first node had it, in us.
    pub first_us: f64,
    /// The time from the strobe's issue until the last node had it, in us.
    pub last_us: f64,
    /// The time in which a node stops one job and resumes the next, in us.
    pub switch_us: f64,
}

impl LaunchSample {
    /// The launch without execution and waiting: the transfer, or the check whether it is needed.
    pub(super) fn transfer_ms(&self) -> f64 {
        (self.total_ms - self.exec_ms - self.slice_ms).max(0.0)
    }

    pub(super) fn check(&self) -> Result<(), InputError> {
        positive("the nodes of a sample", "nodes", self.nodes.into())?;
        positive("the processes of a sample", "processes", self.processes.into())?;
        not_negative("the bytes of a sample", "MiB", self.sent.get())?;
        positive("the launch of a sample", "ms", self.total_ms)?;
        for part_ms in [self.read_ms, self.write_ms, self.exec_ms, self.slice_ms] {
            not_negative("a part of a sample's launch", "ms", part_ms)?;
        }
        Ok(())
    }

    /// Samples with the same shape measure the same launch.
    fn shape(&self) -> (u32, u32, u64) {
        (self.nodes, self.processes, self.sent.bytes() as u64)
    }
}

impl StrobeSample {
    pub(super) fn check(&self) -> Result<(), InputError> {
        positive("the nodes of a sample", "nodes", self.nodes.into())?;
        for time_us in [self.first_us, self.last_us] {
            positive("the strobe of a sample", "us", time_us)?;
        }
        not_negative("the switch of a sample", "us", self.switch_us).map(drop)
    }
}

/// One sample per shape, from the medians of each part. Other users of a machine disturb single
/// launches, but hardly the median.
pub(super) fn medians_by_shape(samples: &[LaunchSample]) -> Vec<LaunchSample> {
    let mut shapes: BTreeMap<(u32, u32, u64), Vec<&LaunchSample>> = BTreeMap::new();
    for sample in samples {
        shapes.entry(sample.shape()).or_default().push(sample);
    }
    let middle = |same: &[&LaunchSample], part: fn(&LaunchSample) -> f64| {
        median(same.iter().map(|sample| part(sample)))
    };
    shapes
        .into_values()
        .filter_map(|same| {
            let first = **same.first()?;
            Some(LaunchSample {
                read_ms: middle(&same, |sample| sample.read_ms),
                write_ms: middle(&same, |sample| sample.write_ms),
                exec_ms: middle(&same, |sample| sample.exec_ms),
                slice_ms: middle(&same, |sample| sample.slice_ms),
                total_ms: middle(&same, |sample| sample.total_ms),
                ..first
            })
        })
        .collect()
}

/// The middle value, or the mean of the middle two; 0 for no values.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count => f64::midpoint(values[(count - 1) / 2], values[count / 2]),
    }
}
