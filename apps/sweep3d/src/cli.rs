//! The command line.

use crate::decomposition::ProcessGrid;
use crate::problem::{Problem, SourceRegion};
use crate::quadrature::SnOrder;
use crate::solver::Stop;
use crate::sweep::Blocking;
use clap::Parser;
use std::str::FromStr;
use thiserror::Error;

/// Sweep3D: discrete-ordinates particle transport as a wavefront over a process grid.
///
/// Runs on any number of ranks: alone, or started by a process manager that speaks PMI-1. The
/// scalar flux has the same bits on any number of ranks. Rank 0 prints the result and "answer: OK".
/// The exit status is 0 if the answer is right, 1 if it is wrong, 2 for wrong arguments.
#[derive(Clone, Debug, Parser)]
#[command(name = "sweep3d", version, allow_negative_numbers = true)]
pub struct Arguments {
    /// Cells along i, j and k
    #[arg(long, value_name = "IxJxK", default_value = "64x64x32")]
    pub grid: Cells,
    /// Quadrature set: 2, 4, 6 or 8 (1, 3, 6 or 10 angles per octant)
    #[arg(long, value_name = "N", default_value = "4", value_parser = parse_order)]
    pub sn: SnOrder,
    /// Width of a cell, in cm
    #[arg(long, value_name = "CM", default_value_t = 0.1)]
    pub width: f64,
    /// Total cross-section, per cm
    #[arg(long, value_name = "SIGMA", default_value_t = 1.0)]
    pub total: f64,
    /// Part of the collisions that scatter, at least 0 and below 1
    #[arg(long, value_name = "RATIO", default_value_t = 0.5)]
    pub scattering: f64,
    /// Where the source is
    #[arg(long, value_enum, default_value_t = SourceRegion::Center)]
    pub source: SourceRegion,
    /// Axes whose low face reflects, such as "ij"; all other faces are open
    #[arg(long, value_name = "AXES", default_value = "", value_parser = parse_axes)]
    pub reflect: [bool; 3],
    /// Stop when no cell's flux changes by more than this part of it
    #[arg(long, value_name = "ERROR", default_value_t = 1e-3)]
    pub epsi: f64,
    /// Make exactly this many iterations instead
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: Option<u32>,
    /// Solve the problem this many times, for longer runs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: u32,
    /// Angles per pipeline block; at most an octant's
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub mmi: u32,
    /// k-planes per pipeline block
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub mk: u32,
    /// Processes along i; chosen from the number of ranks if absent
    #[arg(long, value_name = "N")]
    pub npe_i: Option<usize>,
    /// Processes along j; chosen from the number of ranks if absent
    #[arg(long, value_name = "N")]
    pub npe_j: Option<usize>,
    /// Compare with a solution by rank 0 alone, bit for bit
    #[arg(long)]
    pub verify: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print one line with no time in it, as the program in C does
    #[arg(long, conflicts_with = "json")]
    pub brief: bool,
    /// Print a line per iteration on standard error
    #[arg(long, short)]
    pub verbose: bool,
}

/// Numbers of cells, as `IxJxK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells(pub [usize; 3]);

/// Arguments that cannot be run.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ArgumentError {
    /// The text is not three positive numbers.
    #[error("\"{text}\" is not a grid; write cells as IxJxK, such as 64x64x32")]
    Grid {
        /// The text given.
        text: String,
    },
    /// The text names no quadrature set.
    #[error("there is no set S{text}; choose 2, 4, 6 or 8")]
    Order {
        /// The text given.
        text: String,
    },
    /// The text names no axes.
    #[error("\"{text}\" are not axes; write some of the letters i, j and k")]
    Axes {
        /// The text given.
        text: String,
    },
    /// The process grid does not have as many processes as there are ranks.
    #[error(
        "a process grid of {npe_i} x {npe_j} is not {ranks} ranks; leave out --npe-i and --npe-j to have one chosen"
    )]
    ProcessGrid {
        /// Along i.
        npe_i: usize,
        /// Along j.
        npe_j: usize,
        /// The ranks of the job.
        ranks: usize,
    },
    /// A number out of its range.
    #[error("--{option} {value} is out of range; it must be {range}")]
    Range {
        /// The option.
        option: &'static str,
        /// The value given.
        value: f64,
        /// The valid values.
        range: &'static str,
    },
}

impl Arguments {
    /// The problem to solve.
    ///
    /// # Errors
    /// [`ArgumentError::Range`] for an impossible material.
    pub fn problem(&self) -> Result<Problem, ArgumentError> {
        let positive = "a positive number";
        in_range("width", self.width, positive, |x| x > 0.0)?;
        in_range("total", self.total, positive, |x| x > 0.0)?;
        let ratio = "at least 0 and below 1";
        in_range("scattering", self.scattering, ratio, |x| (0.0..1.0).contains(&x))?;
        in_range("epsi", self.epsi, "at least 0", |x| x >= 0.0)?;
        Ok(Problem {
            cells: self.grid.0,
            widths_cm: [self.width; 3],
            total_per_cm: self.total,
            scattering_per_cm: self.total * self.scattering,
            source: self.source,
            reflect_low: self.reflect,
            order: self.sn,
        })
    }

    /// The process grid for this many ranks.
    ///
    /// # Errors
    /// [`ArgumentError::ProcessGrid`] if the grid asked for does not fit the ranks.
    pub fn process_grid(&self, ranks: usize) -> Result<ProcessGrid, ArgumentError> {
        let grid = match (self.npe_i, self.npe_j) {
            (None, None) => ProcessGrid::choose(ranks, self.grid.0[0], self.grid.0[1]),
            (Some(npe_i), None) => {
                ProcessGrid { npe_i, npe_j: ranks.checked_div(npe_i).unwrap_or(0) }
            }
            (None, Some(npe_j)) => {
                ProcessGrid { npe_i: ranks.checked_div(npe_j).unwrap_or(0), npe_j }
            }
            (Some(npe_i), Some(npe_j)) => ProcessGrid { npe_i, npe_j },
        };
        let (npe_i, npe_j) = (grid.npe_i, grid.npe_j);
        if npe_i.checked_mul(npe_j) == Some(ranks) {
            return Ok(grid);
        }
        Err(ArgumentError::ProcessGrid { npe_i, npe_j, ranks })
    }

    /// The blocks of the sweep.
    pub fn blocking(&self) -> Blocking {
        let mmi = (self.mmi as usize).min(self.sn.angles_per_octant());
        Blocking { mmi, mk: (self.mk as usize).min(self.grid.0[2]) }
    }

    /// When the iteration stops.
    pub fn stop(&self) -> Stop {
        match self.iterations {
            Some(iterations) => Stop::After(iterations as usize),
            None => Stop::Converged(self.epsi),
        }
    }
}

impl FromStr for Cells {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        let wrong = || ArgumentError::Grid { text: text.to_owned() };
        let cells: Vec<usize> = text
            .split(['x', 'X'])
            .map(|n| n.trim().parse().map_err(|_| wrong()))
            .collect::<Result<_, _>>()?;
        let cells: [usize; 3] = cells.try_into().map_err(|_| wrong())?;
        let count = cells.iter().try_fold(1usize, |acc, &n| acc.checked_mul(n));
        // Counted in bytes too: the arrays must be addressable.
        match count.and_then(|count| count.checked_mul(64)) {
            Some(bytes) if bytes > 0 && bytes <= isize::MAX as usize => Ok(Cells(cells)),
            _ => Err(wrong()),
        }
    }
}

fn parse_order(text: &str) -> Result<SnOrder, ArgumentError> {
    let n = text.trim_start_matches(['S', 's']).parse().ok();
    n.and_then(SnOrder::from_n).ok_or_else(|| ArgumentError::Order { text: text.to_owned() })
}

fn parse_axes(text: &str) -> Result<[bool; 3], ArgumentError> {
    if text.chars().all(|c| "ijk,".contains(c)) {
        return Ok(['i', 'j', 'k'].map(|axis| text.contains(axis)));
    }
    Err(ArgumentError::Axes { text: text.to_owned() })
}

fn in_range(
    option: &'static str,
    value: f64,
    range: &'static str,
    holds: impl Fn(f64) -> bool,
) -> Result<(), ArgumentError> {
    if value.is_finite() && holds(value) {
        return Ok(());
    }
    Err(ArgumentError::Range { option, value, range })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Arguments {
        Arguments::try_parse_from(line.split(' ')).unwrap()
    }

    #[test]
    fn defaults_make_a_problem() {
        let arguments = arguments("sweep3d");
        assert_eq!(arguments.problem().unwrap().cells, [64, 64, 32]);
        assert_eq!(arguments.process_grid(256), Ok(ProcessGrid { npe_i: 16, npe_j: 16 }));
    }

    #[test]
    fn process_grids_must_fit() {
        let given = arguments("sweep3d --npe-i 3");
        assert_eq!(given.process_grid(6), Ok(ProcessGrid { npe_i: 3, npe_j: 2 }));
        assert!(given.process_grid(7).is_err());
        assert!(arguments("sweep3d --npe-i 0").process_grid(4).is_err());
        assert!(arguments("sweep3d --npe-i 2 --npe-j 3").process_grid(4).is_err());
    }

    #[test]
    fn invalid_arguments_are_refused_with_a_reason() {
        for grid in ["", "1x2", "1x2x0", "axbxc", "99999999999x99999999999x9"] {
            assert!(grid.parse::<Cells>().is_err(), "{grid}");
        }
        assert!(arguments("sweep3d --scattering 1.0").problem().is_err());
        assert!(arguments("sweep3d --width -1").problem().is_err());
        assert!(parse_order("5").is_err() && parse_axes("x").is_err());
        assert_eq!(parse_axes("i,k"), Ok([true, false, true]));
    }
}
