//! The launchers that the paper compares with, as the paper extrapolates them (Tables 4 and 5).

use crate::NodeCount;
use serde::Serialize;
use std::fmt;

/// Another system that launches jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Rival {
    /// A shell on each node, one after the other.
    #[serde(rename = "rsh")]
    Rsh,
    /// Quadrics' resource manager.
    #[serde(rename = "RMS")]
    Rms,
    /// A layer of Berkeley's network of workstations.
    #[serde(rename = "GLUnix")]
    Glunix,
    /// Sandia's clusters: a tree over Myrinet.
    #[serde(rename = "Cplant")]
    Cplant,
    /// Beowulf's process space: copies a running process.
    #[serde(rename = "BProc")]
    Bproc,
}

/// The growth of a launch time with the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "form", rename_all = "kebab-case")]
pub enum GrowthLaw {
    /// `per_node_s` n + `fixed_s`.
    Linear {
        /// Seconds for each node.
        per_node_s: f64,
        /// Seconds for any number of nodes.
        fixed_s: f64,
    },
    /// `per_doubling_s` lg n + `fixed_s`.
    Logarithmic {
        /// Seconds for each doubling of the nodes.
        per_doubling_s: f64,
        /// Seconds for any number of nodes. Negative for BProc: its law does not hold for very
        /// small machines.
        fixed_s: f64,
    },
}

/// A published, measured launch (Table 4).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedLaunch {
    /// The number of nodes.
    pub nodes: u32,
    /// The launch time in seconds.
    pub launch_s: f64,
    /// Size of the binary in the paper's MB; 0 for a minimal job.
    pub binary_mib: u32,
}

impl Rival {
    /// All rivals, in the order of the paper's tables.
    pub const ALL: [Rival; 5] =
        [Rival::Rsh, Rival::Rms, Rival::Glunix, Rival::Cplant, Rival::Bproc];

    /// The extrapolation (Table 5).
    pub fn law(self) -> GrowthLaw {
        match self {
            Rival::Rsh => GrowthLaw::Linear { per_node_s: 0.934, fixed_s: 1.266 },
            Rival::Rms => GrowthLaw::Linear { per_node_s: 0.077, fixed_s: 1.092 },
            Rival::Glunix => GrowthLaw::Linear { per_node_s: 0.012, fixed_s: 0.228 },
            Rival::Cplant => GrowthLaw::Logarithmic { per_doubling_s: 1.379, fixed_s: 6.177 },
            Rival::Bproc => GrowthLaw::Logarithmic { per_doubling_s: 0.413, fixed_s: -0.084 },
        }
    }

    /// The measurement behind it (Table 4).
    pub fn published(self) -> PublishedLaunch {
        let (nodes, launch_s, binary_mib) = match self {
            Rival::Rsh => (95, 90.0, 0),
            Rival::Rms => (64, 5.9, 12),
            Rival::Glunix => (95, 1.3, 0),
            Rival::Cplant => (1_010, 20.0, 12),
            Rival::Bproc => (100, 2.7, 12),
        };
        PublishedLaunch { nodes, launch_s, binary_mib }
    }

    /// Seconds on 4,096 nodes as the paper prints them (Table 5). Its
    /// coefficients are rounded, so its own law gives up to 0.4 % less.
    pub fn extrapolated_s(self) -> f64 {
        match self {
            Rival::Rsh => 3_827.10,
            Rival::Rms => 317.67,
            Rival::Glunix => 49.38,
            Rival::Cplant => 22.73,
            Rival::Bproc => 4.88,
        }
    }

    /// Seconds to launch on `nodes`, calculated from the law.
    pub fn launch_s(self, nodes: NodeCount) -> f64 {
        match self.law() {
            GrowthLaw::Linear { per_node_s, fixed_s } => per_node_s * nodes.as_f64() + fixed_s,
            GrowthLaw::Logarithmic { per_doubling_s, fixed_s } => {
                per_doubling_s * nodes.log2() + fixed_s
            }
        }
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rival::Rsh => "rsh",
            Rival::Rms => "RMS",
            Rival::Glunix => "GLUnix",
            Rival::Cplant => "Cplant",
            Rival::Bproc => "BProc",
        })
    }
}

impl fmt::Display for GrowthLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slope, variable, fixed_s) = match *self {
            GrowthLaw::Linear { per_node_s, fixed_s } => (per_node_s, "n", fixed_s),
            GrowthLaw::Logarithmic { per_doubling_s, fixed_s } => (per_doubling_s, "lg n", fixed_s),
        };
        let sign = if fixed_s < 0.0 { '-' } else { '+' };
        write!(f, "{slope:.3} {variable} {sign} {:.3}", fixed_s.abs())
    }
}
