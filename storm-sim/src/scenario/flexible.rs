//! The thresholds of flexible coscheduling in a scenario. `storm_nm` defines their ranges.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use storm_nm::classes::ClassRules;

/// Thresholds by which `fcs` judges processes; a key that is left out has its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FlexibleEntry {
    /// [`ClassRules::window_slots`].
    pub window_slots: Option<u32>,
    /// [`ClassRules::window_min`].
    #[serde(with = "super::written_time::optional")]
    pub window_min: Option<Duration>,
    /// [`ClassRules::coarse_min`].
    #[serde(with = "super::written_time::optional")]
    pub coarse_min: Option<Duration>,
    /// [`ClassRules::coarse_part`].
    pub coarse_part: Option<u32>,
    /// [`ClassRules::answer`].
    #[serde(with = "super::written_time::optional")]
    pub answer: Option<Duration>,
    /// [`ClassRules::wait_percent`].
    pub wait_percent: Option<u32>,
    /// [`ClassRules::shift`].
    pub shift: Option<u32>,
    /// [`ClassRules::reset_slots`].
    pub reset_slots: Option<u32>,
    /// [`ClassRules::busy_percent`].
    pub busy_percent: Option<u32>,
}

impl FlexibleEntry {
    /// The rules, right or not.
    pub(super) fn rules(&self) -> ClassRules {
        let known = ClassRules::default();
        ClassRules {
            window_slots: self.window_slots.unwrap_or(known.window_slots),
            window_min: self.window_min.unwrap_or(known.window_min),
            coarse_min: self.coarse_min.unwrap_or(known.coarse_min),
            coarse_part: self.coarse_part.unwrap_or(known.coarse_part),
            answer: self.answer.unwrap_or(known.answer),
            wait_percent: self.wait_percent.unwrap_or(known.wait_percent),
            shift: self.shift.unwrap_or(known.shift),
            reset_slots: self.reset_slots.unwrap_or(known.reset_slots),
            busy_percent: self.busy_percent.unwrap_or(known.busy_percent),
        }
    }
}
