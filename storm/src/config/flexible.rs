//! The thresholds of flexible coscheduling as written; `storm_nm` knows their ranges.

use super::written_time::WrittenTime;
use serde::Deserialize;
use storm_nm::classes::ClassRules;

/// Thresholds by which `fcs` judges processes; each has a default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FlexibleConfig {
    window_slots: Option<u32>,
    window_min: Option<WrittenTime>,
    coarse_min: Option<WrittenTime>,
    coarse_part: Option<u32>,
    answer: Option<WrittenTime>,
    wait_percent: Option<u32>,
    shift: Option<u32>,
    reset_slots: Option<u32>,
    busy_percent: Option<u32>,
}

impl FlexibleConfig {
    /// The rules, unchecked.
    pub(crate) fn rules(&self) -> ClassRules {
        let known = ClassRules::default();
        let time = |written: Option<WrittenTime>, known| written.map_or(known, |time| time.0);
        ClassRules {
            window_slots: self.window_slots.unwrap_or(known.window_slots),
            window_min: time(self.window_min, known.window_min),
            coarse_min: time(self.coarse_min, known.coarse_min),
            coarse_part: self.coarse_part.unwrap_or(known.coarse_part),
            answer: time(self.answer, known.answer),
            wait_percent: self.wait_percent.unwrap_or(known.wait_percent),
            shift: self.shift.unwrap_or(known.shift),
            reset_slots: self.reset_slots.unwrap_or(known.reset_slots),
            busy_percent: self.busy_percent.unwrap_or(known.busy_percent),
        }
    }
}
