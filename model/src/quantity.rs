//! Sizes, bandwidths and lengths as types, so that they cannot be confused.

use crate::InputError;
use crate::input_error::{not_negative, positive};
use serde::{Deserialize, Serialize};

const BYTES_PER_MIB: f64 = 1_048_576.0;
const BYTES_PER_MB: f64 = 1e6;
const NS_PER_S: f64 = 1e9;

/// An amount of data in MiB, 2^20 bytes, which the paper calls MB.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mib(pub(crate) f64);

impl Mib {
    /// The binary of most of the paper's figures.
    pub const PAPER_BINARY: Mib = Mib(12.0);

    /// `mib` MiB.
    ///
    /// # Errors
    /// Negative, or not finite.
    pub fn new(mib: f64) -> Result<Mib, InputError> {
        not_negative("the size", "MiB", mib).map(Mib)
    }

    /// An amount of `bytes` bytes.
    pub fn from_bytes(bytes: u64) -> Mib {
        Mib(bytes as f64 / BYTES_PER_MIB)
    }

    /// The amount in MiB.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The amount in bytes.
    pub fn bytes(self) -> f64 {
        self.0 * BYTES_PER_MIB
    }
}

/// A bandwidth in MiB/s, which the paper calls MB/s.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MibPerS(pub(crate) f64);

impl MibPerS {
    /// `mib_s` MiB/s.
    ///
    /// # Errors
    /// Not positive, or not finite.
    pub fn new(mib_s: f64) -> Result<MibPerS, InputError> {
        positive("the bandwidth", "MiB/s", mib_s).map(MibPerS)
    }

    /// Converts from MB/s, 10^6 bytes per second, the unit in vendors' data sheets.
    ///
    /// # Errors
    /// Not positive, or not finite.
    pub fn from_mb_s(mb_s: f64) -> Result<MibPerS, InputError> {
        positive("the bandwidth", "MB/s", mb_s)
            .map(|mb_s| MibPerS(mb_s * BYTES_PER_MB / BYTES_PER_MIB))
    }

    /// `bytes` every `time_ns`; both are positive.
    pub(crate) fn of_bytes_per_ns(bytes: f64, time_ns: f64) -> MibPerS {
        MibPerS(bytes / time_ns * NS_PER_S / BYTES_PER_MIB)
    }

    /// The bandwidth in MiB/s.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The bandwidth in MB/s, 10^6 bytes per second.
    pub fn mb_s(self) -> f64 {
        self.0 * BYTES_PER_MIB / BYTES_PER_MB
    }

    /// The lesser.
    #[must_use]
    pub fn min(self, other: MibPerS) -> MibPerS {
        MibPerS(self.0.min(other.0))
    }

    /// Milliseconds that `size` takes.
    pub fn time_ms(self, size: Mib) -> f64 {
        size.0 / self.0 * 1e3
    }
}

/// A length of cable in metres.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metres(pub(crate) f64);

impl Metres {
    /// `metres` metres.
    ///
    /// # Errors
    /// Negative, or not finite.
    pub fn new(metres: f64) -> Result<Metres, InputError> {
        not_negative("the cable", "m", metres).map(Metres)
    }

    /// The length in metres.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// Switches that a packet crosses. Equation 5 gives a fraction between powers of 4. For a single
/// node, which needs no network, it gives -1. The value has no effect, because the packet itself
/// takes longer.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Switches(pub(crate) f64);

impl Switches {
    /// A whole number of switches.
    pub fn new(switches: u32) -> Switches {
        Switches(f64::from(switches))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn megabytes_are_not_mebibytes() {
        let gigabit = MibPerS::from_mb_s(125.0).unwrap();
        assert!((gigabit.get() - 119.209).abs() < 1e-3);
        assert!((gigabit.mb_s() - 125.0).abs() < 1e-9);
        assert_eq!(Mib::from_bytes(1 << 20), Mib::new(1.0).unwrap());
        assert_eq!(MibPerS::new(120.0).unwrap().time_ms(Mib::PAPER_BINARY), 100.0);
    }

    #[test]
    fn senseless_values_are_refused_with_the_reason() {
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            let cable = Metres::new(wrong).unwrap_err().to_string();
            assert!(cable.contains("cable") && cable.contains("not negative"), "{cable}");
            assert!(Mib::new(wrong).is_err());
            assert!(MibPerS::new(wrong).is_err());
        }
        assert!(MibPerS::new(0.0).is_err());
        assert!(MibPerS::from_mb_s(0.0).unwrap_err().hint().contains("more than 0"));
    }
}
