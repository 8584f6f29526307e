//! The operations of a node that fail or are late.

use crate::PrimitiveError;
use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::time::Duration;

/// The fault of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation is not issued, and its status is this error.
    Fail(PrimitiveError),
    /// The operation is not issued, and its status reports that some node of its set did not answer
    /// in time.
    TimeOut,
    /// The operation is issued after this time; the node's later operations wait behind it.
    Late(Duration),
}

/// The faults of one node's operations, numbered from 0 in the order of issue.
#[derive(Debug, Default)]
pub struct FaultPlan {
    script: BTreeMap<u64, Fault>,
    random: Option<RandomFaults>,
}

#[derive(Debug)]
struct RandomFaults {
    random: ChaCha12Rng,
    timeouts_per_mille: u32,
    longest_delay: Duration,
}

impl FaultPlan {
    /// No faults.
    pub fn new() -> FaultPlan {
        FaultPlan::default()
    }

    /// Adds `fault` at operation `number`. A fault added here has precedence over a random fault.
    #[must_use]
    pub fn at(mut self, number: u64, fault: Fault) -> FaultPlan {
        self.script.insert(number, fault);
        self
    }

    /// Also random faults: of a thousand operations `timeouts_per_mille` time
    /// out, and every other one is late by up to `longest_delay`.
    #[must_use]
    pub fn random(
        mut self,
        seed: u64,
        timeouts_per_mille: u32,
        longest_delay: Duration,
    ) -> FaultPlan {
        let random = ChaCha12Rng::seed_from_u64(seed);
        self.random = Some(RandomFaults { random, timeouts_per_mille, longest_delay });
        self
    }

    /// The fault of operation `number`. Call it once for each operation, in order.
    pub(super) fn next(&mut self, number: u64) -> Option<Fault> {
        // Drawn for every operation, so that a script does not shift the rest.
        let random = self.random.as_mut().map(RandomFaults::draw);
        self.script.remove(&number).or(random)
    }
}

impl RandomFaults {
    fn draw(&mut self) -> Fault {
        let longest_ns = u64::try_from(self.longest_delay.as_nanos()).unwrap_or(u64::MAX);
        let late = Duration::from_nanos(self.random.random_range(0..=longest_ns));
        match self.random.random_range(0..1000) < self.timeouts_per_mille {
            true => Fault::TimeOut,
            false => Fault::Late(late),
        }
    }
}
