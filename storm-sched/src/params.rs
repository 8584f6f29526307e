//! The settings of the policies, with their types, their defaults and the reason for each. The
//! settings are read from TOML (kebab-case). Unknown names are refused.
//!
//! One set of settings serves all policies, and each policy uses those that concern it. A
//! configuration therefore stays valid if only the name of the policy changes.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The default quantum in microseconds: 50 ms, the paper's choice for
/// figures 4 and 5.
pub const DEFAULT_QUANTUM_US: u64 = 50_000;
/// [`DEFAULT_QUANTUM_US`] as a time.
pub const DEFAULT_QUANTUM: Duration = Duration::from_micros(DEFAULT_QUANTUM_US);
/// The shortest accepted quantum in microseconds: a third of the 300 us at which the paper's figure
/// 3 ends. The limit is low so that experiments can find the lowest usable quantum.
pub const MIN_QUANTUM_US: u64 = 100;
/// The longest accepted quantum in microseconds: one hour, more than any Slurm site uses. A longer
/// quantum is a mistake in the unit.
pub const MAX_QUANTUM_US: u64 = 3_600_000_000;
/// The default length of a slice of communication in microseconds: "a few hundreds" (SC'03).
pub const DEFAULT_SLICE_US: u64 = 500;
/// The longest accepted slice of communication in microseconds: one second, with which a ping-pong
/// takes two seconds. A longer slice is a mistake in the unit.
pub const MAX_SLICE_US: u64 = 1_000_000;
/// The default multiprogramming limit: 8, the highest level that the paper measured (figure 5). The
/// paper found the run time flat up to there.
pub const DEFAULT_MPL_LIMIT: u32 = 8;
/// The highest accepted multiprogramming limit. Every resident job needs its memory, and with 1,024
/// rows a row would run for a thousandth of the time.
pub const MAX_MPL_LIMIT: u32 = 1_024;

/// The length of a time slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Quantum {
    micros: u64,
}

/// The length of a slice of communication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct SliceLength {
    micros: u64,
}

/// The most rows that a matrix may have (the multiprogramming limit).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct MplLimit(NonZeroU32);

/// The order in which jobs leave the queue of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MatrixQueue {
    /// First come, first served: no job passes another.
    #[default]
    Fcfs,
    /// Backfilling gang scheduling: a job may pass the first job if the latest start of the first
    /// job does not move.
    Easy,
}

/// Microseconds, shown in the largest unit that needs no fraction.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units =
            [(3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1000, "ms"), (1, "us")];
        let fits = units.iter().find(|(unit, _)| self.0 != 0 && self.0.is_multiple_of(*unit));
        let (unit, name) = fits.unwrap_or(&(1, "us"));
        write!(f, "{} {name}", self.0 / unit)
    }
}

/// A setting is outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// The quantum.
    #[error(
        "a quantum of {} is out of range: use {} to {} (default {})",
        Micros(*us), Micros(MIN_QUANTUM_US), Micros(MAX_QUANTUM_US), Micros(DEFAULT_QUANTUM_US)
    )]
    Quantum {
        /// The value that was given.
        us: u64,
    },
    /// The slice of communication.
    #[error(
        "a slice of {} is out of range: use {} to {} (default {})",
        Micros(*us), Micros(MIN_QUANTUM_US), Micros(MAX_SLICE_US), Micros(DEFAULT_SLICE_US)
    )]
    Slice {
        /// The value that was given.
        us: u64,
    },
    /// The multiprogramming limit.
    #[error(
        "a multiprogramming limit of {rows} rows is out of range: use 1 to {MAX_MPL_LIMIT} \
         (default {DEFAULT_MPL_LIMIT})"
    )]
    MplLimit {
        /// The value that was given.
        rows: u32,
    },
}

impl Quantum {
    /// The length of the slice.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_micros(self.micros)
    }
}

impl Default for Quantum {
    fn default() -> Self {
        Self { micros: DEFAULT_QUANTUM_US }
    }
}

impl TryFrom<u64> for Quantum {
    type Error = ParamError;

    fn try_from(us: u64) -> Result<Self, ParamError> {
        let range = MIN_QUANTUM_US..=MAX_QUANTUM_US;
        if range.contains(&us) { Ok(Self { micros: us }) } else { Err(ParamError::Quantum { us }) }
    }
}

impl TryFrom<Duration> for Quantum {
    type Error = ParamError;

    /// Rounds down to whole microseconds.
    fn try_from(quantum: Duration) -> Result<Self, ParamError> {
        Self::try_from(u64::try_from(quantum.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Quantum> for u64 {
    fn from(quantum: Quantum) -> Self {
        quantum.micros
    }
}

impl SliceLength {
    /// The length of the slice.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_micros(self.micros)
    }
}

impl Default for SliceLength {
    fn default() -> Self {
        Self { micros: DEFAULT_SLICE_US }
    }
}

impl TryFrom<u64> for SliceLength {
    type Error = ParamError;

    fn try_from(us: u64) -> Result<Self, ParamError> {
        let range = MIN_QUANTUM_US..=MAX_SLICE_US;
        if range.contains(&us) { Ok(Self { micros: us }) } else { Err(ParamError::Slice { us }) }
    }
}

impl From<SliceLength> for u64 {
    fn from(slice: SliceLength) -> Self {
        slice.micros
    }
}

impl MplLimit {
    /// One row, as space sharing uses.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// The number of rows.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl Default for MplLimit {
    fn default() -> Self {
        const ROWS: NonZeroU32 = NonZeroU32::new(DEFAULT_MPL_LIMIT).unwrap();
        Self(ROWS)
    }
}

impl TryFrom<u32> for MplLimit {
    type Error = ParamError;

    fn try_from(rows: u32) -> Result<Self, ParamError> {
        match NonZeroU32::new(rows) {
            Some(limit) if rows <= MAX_MPL_LIMIT => Ok(Self(limit)),
            _ => Err(ParamError::MplLimit { rows }),
        }
    }
}

impl From<MplLimit> for u32 {
    fn from(limit: MplLimit) -> Self {
        limit.get()
    }
}

/// The settings of the policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PolicyParams {
    /// The length of a time slice, in microseconds. Default [`DEFAULT_QUANTUM_US`].
    pub quantum_us: Quantum,
    /// The length of a slice of communication under `bcs`, in microseconds. Default
    /// [`DEFAULT_SLICE_US`].
    pub slice_us: SliceLength,
    /// The most rows of the matrix. Default [`DEFAULT_MPL_LIMIT`].
    pub mpl_limit: MplLimit,
    /// The assumed run time of a job without a time limit, in seconds, for policies that let jobs
    /// pass. The default is longer than any run ([`crate::space::UNLIMITED_ESTIMATE`]): with it,
    /// such a job never passes another by its estimate.
    pub default_estimate_s: Option<NonZeroU32>,
    /// How jobs are packed into the matrix. Default [`crate::Packing::Buddy`].
    pub packing: crate::Packing,
    /// How jobs leave the queue of the matrix. Default [`MatrixQueue::Fcfs`], which needs no time
    /// limits.
    pub queue: MatrixQueue,
    /// Whether a job also runs in other rows where its columns are idle. Default: yes, because the
    /// columns would otherwise be idle.
    pub alternative_scheduling: bool,
    /// Whether rows with disjoint columns are merged. Default: yes, because all their jobs run more
    /// often and no job moves.
    pub unification: bool,
    /// Whether all jobs are mapped again as tightly as possible when a job is submitted or ends.
    /// Default: no. Mapping them again moves running processes, which only a replayed or simulated
    /// machine can do ([`crate::Capability::Migration`]).
    pub repack: bool,
    /// The memory of each node that jobs may not use, in MiB, where memory is counted. Default 0:
    /// jobs may use all the memory that a node is configured with.
    pub memory_reserve_mib: u64,
}

impl PolicyParams {
    /// The name of every setting, with the values that it takes.
    pub const NAMES: &'static [(&'static str, &'static str)] = &[
        ("quantum-us", "100 to 3600000000"),
        ("slice-us", "100 to 1000000"),
        ("mpl-limit", "1 to 1024"),
        ("default-estimate-s", "1 to 4294967295"),
        ("packing", "first-fit, best-fit, left-right, least-loaded or buddy"),
        ("queue", "fcfs or easy"),
        ("alternative-scheduling", "true or false"),
        ("unification", "true or false"),
        ("repack", "true or false"),
        ("memory-reserve-mib", "0 or more"),
    ];
}

impl Default for PolicyParams {
    fn default() -> Self {
        Self {
            quantum_us: Quantum::default(),
            slice_us: SliceLength::default(),
            mpl_limit: MplLimit::default(),
            default_estimate_s: None,
            packing: crate::Packing::default(),
            queue: MatrixQueue::default(),
            alternative_scheduling: true,
            unification: true,
            repack: false,
            memory_reserve_mib: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PolicyParams, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// Regression: an error spoke of "a quantum of 7200000000 us".
    #[test]
    fn a_setting_out_of_range_is_told_in_units_for_people() {
        let said = Quantum::try_from(7_200_000_000).expect_err("2 h is too long").to_string();
        assert_eq!(said, "a quantum of 2 h is out of range: use 100 us to 1 h (default 50 ms)");
        let told = [0, 2, 1500, 90_000_000, 120_000_000].map(|us| Micros(us).to_string());
        assert_eq!(told, ["0 us", "2 us", "1500 us", "90 s", "2 min"]);
    }

    #[test]
    fn an_empty_table_is_the_defaults() {
        assert_eq!(parse("").unwrap(), PolicyParams::default());
        assert_eq!(PolicyParams::default().quantum_us.duration(), Duration::from_millis(50));
        assert_eq!(PolicyParams::default().mpl_limit.get(), 8);
    }

    #[test]
    fn settings_are_read_and_written_back() {
        let params = parse("quantum-us = 2000\nmpl-limit = 2\ndefault-estimate-s = 60").unwrap();
        assert_eq!(params.quantum_us.duration(), Duration::from_millis(2));
        assert_eq!(params.mpl_limit.get(), 2);
        assert_eq!(params.default_estimate_s, NonZeroU32::new(60));
        assert_eq!(parse(&toml::to_string(&params).unwrap()).unwrap(), params);
    }

    #[test]
    fn packing_queue_and_modes_are_read_by_name() {
        let params = parse(
            "packing = 'left-right'\nqueue = 'easy'\nalternative-scheduling = false\n\
             unification = false\nrepack = true\nmemory-reserve-mib = 512",
        );
        let expected = PolicyParams {
            packing: crate::Packing::LeftRight,
            queue: MatrixQueue::Easy,
            alternative_scheduling: false,
            unification: false,
            repack: true,
            memory_reserve_mib: 512,
            ..PolicyParams::default()
        };
        assert_eq!(params.unwrap(), expected);
        assert_eq!(parse(&toml::to_string(&expected).unwrap()).unwrap(), expected);
        let unknown = parse("packing = 'tetris'").unwrap_err();
        assert!(unknown.contains("least-loaded"), "{unknown}");
        assert!(parse("queue = 'sjf'").unwrap_err().contains("fcfs"));
    }

    #[test]
    fn every_setting_is_named_with_its_values() {
        let unknown = parse("no-such = 1").unwrap_err();
        for (name, _) in PolicyParams::NAMES {
            assert!(unknown.contains(&format!("`{name}`")), "{name}: {unknown}");
        }
        assert_eq!(unknown.matches('`').count(), 2 * (PolicyParams::NAMES.len() + 1), "{unknown}");
        let takes = |name, value: &str| parse(&format!("{name} = {value}")).is_ok();
        for (name, values) in PolicyParams::NAMES {
            if let Some((least, most)) = values.split_once(" to ") {
                let beyond = most.parse::<u64>().unwrap() + 1;
                assert!(takes(name, least) && takes(name, most), "{name}");
                assert!(!takes(name, "0") && !takes(name, &beyond.to_string()), "{name}");
            } else if !values.contains("or more") {
                let words = values.replace(" or ", ", ");
                for word in words.split(", ") {
                    assert!(
                        takes(name, word) || takes(name, &format!("'{word}'")),
                        "{name} {word}"
                    );
                }
            }
        }
    }

    #[test]
    fn unknown_names_and_values_out_of_range_are_refused_with_the_range() {
        let unknown = parse("quantum = 50").unwrap_err();
        assert!(unknown.contains("unknown field `quantum`"), "{unknown}");
        assert!(unknown.contains("quantum-us"), "{unknown}");
        let short = parse("quantum-us = 99").unwrap_err();
        assert!(short.contains("use 100 us to 1 h"), "{short}");
        assert!(parse("quantum-us = 3600000001").is_err());
        assert!(parse("slice-us = 0").unwrap_err().contains("use 100 to 1000000 us (default 500)"));
        assert_eq!(parse("slice-us = 250").unwrap().slice_us.duration().as_micros(), 250);
        assert!(parse("default-estimate-s = 0").unwrap_err().contains("nonzero"));
        let zero = parse("mpl-limit = 0").unwrap_err();
        assert!(zero.contains("use 1 to 1024"), "{zero}");
        assert!(parse("mpl-limit = 1025").is_err());
        assert!(Quantum::try_from(Duration::MAX).is_err());
    }
}
