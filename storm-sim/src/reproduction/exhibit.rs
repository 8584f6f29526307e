//! The tables and figures of the paper that can be reproduced, by name.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A table or figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Exhibit {
    /// Bandwidth by nodes and cable.
    Table3,
    /// Launch times found in the literature.
    Table4,
    /// Launch times extrapolated to 4,096 nodes.
    Table5,
    /// The shortest time slices.
    Table6,
    /// Launch on an unloaded system.
    Fig2a,
    /// Launch while all processors are busy.
    Fig2b,
    /// Launch while the network is busy.
    Fig2c,
    /// The three together, 12 MB.
    Fig2d,
    /// Runtime by time slice.
    Fig3,
    /// Runtime by nodes.
    Fig4,
    /// Runtime by multiprogramming level.
    Fig5,
    /// Latency of a barrier by nodes.
    Fig7,
    /// Launch by nodes, estimated and simulated.
    Fig8,
    /// Launch by nodes, compared with other systems.
    Fig9,
}

/// There is no table or figure of this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "there is no table or figure {name:?}: use one of {}",
    Exhibit::ALL.map(Exhibit::name).join(", ")
)]
pub struct UnknownExhibit {
    /// The name asked for.
    pub name: String,
}

impl Exhibit {
    /// All exhibits, in the order of the paper's numbers.
    pub const ALL: [Exhibit; 14] = [
        Exhibit::Table3,
        Exhibit::Table4,
        Exhibit::Table5,
        Exhibit::Table6,
        Exhibit::Fig2a,
        Exhibit::Fig2b,
        Exhibit::Fig2c,
        Exhibit::Fig2d,
        Exhibit::Fig3,
        Exhibit::Fig4,
        Exhibit::Fig5,
        Exhibit::Fig7,
        Exhibit::Fig8,
        Exhibit::Fig9,
    ];

    /// The name on the command line and in the names of its files.
    pub fn name(self) -> &'static str {
        match self {
            Exhibit::Table3 => "table3",
            Exhibit::Table4 => "table4",
            Exhibit::Table5 => "table5",
            Exhibit::Table6 => "table6",
            Exhibit::Fig2a => "fig2a",
            Exhibit::Fig2b => "fig2b",
            Exhibit::Fig2c => "fig2c",
            Exhibit::Fig2d => "fig2d",
            Exhibit::Fig3 => "fig3",
            Exhibit::Fig4 => "fig4",
            Exhibit::Fig5 => "fig5",
            Exhibit::Fig7 => "fig7",
            Exhibit::Fig8 => "fig8",
            Exhibit::Fig9 => "fig9",
        }
    }

    /// The title.
    pub fn title(self) -> &'static str {
        match self {
            Exhibit::Table3 => "Table 3: broadcast bandwidth by nodes and cable",
            Exhibit::Table4 => "Table 4: launch times found in the literature",
            Exhibit::Table5 => "Table 5: launch times extrapolated to 4,096 nodes",
            Exhibit::Table6 => "Table 6: shortest time slices with a slowdown of 2 % or less",
            Exhibit::Fig2a => "Fig. 2a: launch on an unloaded system",
            Exhibit::Fig2b => "Fig. 2b: launch while all processors are busy",
            Exhibit::Fig2c => "Fig. 2c: launch while the network is busy",
            Exhibit::Fig2d => "Fig. 2d: launch of 12 MB under each load",
            Exhibit::Fig3 => "Fig. 3: runtime by time slice, two jobs at once on 32 nodes",
            Exhibit::Fig4 => "Fig. 4: runtime by nodes, time slice 50 ms",
            Exhibit::Fig5 => "Fig. 5: runtime by jobs at once on 32 nodes, time slice 50 ms",
            Exhibit::Fig7 => "Fig. 7: latency of a barrier by nodes",
            Exhibit::Fig8 => "Fig. 8: launch of 12 MB by nodes, estimated and simulated",
            Exhibit::Fig9 => "Fig. 9: launch by nodes beside other systems",
        }
    }
}

impl fmt::Display for Exhibit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Exhibit {
    type Err = UnknownExhibit;

    fn from_str(name: &str) -> Result<Exhibit, UnknownExhibit> {
        let known = Exhibit::ALL.into_iter().find(|exhibit| exhibit.name() == name);
        known.ok_or_else(|| UnknownExhibit { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhibits_are_found_by_exact_name() {
        for exhibit in Exhibit::ALL {
            assert_eq!(exhibit.name().parse(), Ok(exhibit));
        }
        let refusal = "fig6".parse::<Exhibit>().expect_err("it is a drawing").to_string();
        assert!(refusal.contains("fig6") && refusal.contains("table3, table4"), "{refusal}");
    }
}
