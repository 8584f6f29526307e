//! The cost of time slices: the strobe, and the switch that follows.

use crate::{InputError, Limit, Profile};
use serde::Serialize;

/// A strobe on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Strobe {
    /// The time from the strobe's issue until the last node has it, in us.
    pub strobe_us: f64,
    /// The time between the first node and the last, in us.
    pub skew_us: f64,
    /// Stopping one job and resuming the next, in us.
    pub switch_us: f64,
}

/// The cost of a time slice of some length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QuantumCost {
    /// The time slice, in us.
    pub quantum_us: f64,
    /// The part of the time slice that jobs lose, in percent. A job that runs on all nodes together
    /// runs from the last node's switch until the next slice's first.
    pub cost_percent: f64,
    /// The largest part of the cost.
    pub limit: Limit,
}

impl Strobe {
    /// The time of a slice that the job does not get, in us.
    pub fn lost_us(&self) -> f64 {
        self.skew_us + self.switch_us
    }

    /// The larger part of [`Self::lost_us`].
    pub fn limit(&self) -> Limit {
        if self.skew_us > self.switch_us { Limit::Skew } else { Limit::Switch }
    }

    /// The cost of a time slice.
    ///
    /// # Errors
    /// The slice ends before the nodes have switched, or is too short for the Node Managers of this
    /// machine.
    pub(crate) fn cost_of(
        &self,
        profile: &Profile,
        quantum_us: f64,
    ) -> Result<QuantumCost, InputError> {
        let Strobe { strobe_us, switch_us, .. } = *self;
        if quantum_us < strobe_us + switch_us {
            return Err(InputError::QuantumUnderStrobe { quantum_us, strobe_us, switch_us });
        }
        match &profile.host.shortest_quantum_us {
            Some(shortest) if quantum_us < shortest.value => {
                let (shortest_us, known_from) = (shortest.value, shortest.source.clone());
                Err(InputError::QuantumUnderShortest { quantum_us, shortest_us, known_from })
            }
            Some(_) | None => {
                let cost_percent = self.lost_us() / quantum_us * 100.0;
                Ok(QuantumCost { quantum_us, cost_percent, limit: self.limit() })
            }
        }
    }
}
