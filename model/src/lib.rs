//! The analytic model of STORM: what a launch, a strobe and a
//! COMPARE-AND-WRITE cost on a machine that need not exist (paper, section 4.4).
//!
//! Pure: no file, clock, network or process, and no other crate of STORM.
//!
//! * [`equations`]: the paper's Equations 1 to 9, one function each.
//! * [`QsNet`], [`Es40`]: the constants that they take, each with its source.
//!
//! **Units.** The paper writes MB and MB/s for 2^20 bytes: only so do all cells
//! of its Table 3 come out, and only so does one timeslice overhead explain both
//! launch times that it prints. Here a name ends in its unit, and [`MibPerS`]
//! is the one type of a bandwidth.
#![forbid(unsafe_code)]

pub mod equations;
mod es40;
mod input_error;
mod node_count;
mod qsnet;
mod quantity;

pub use es40::{Es40, SourceFile};
pub use input_error::InputError;
pub use node_count::{MAX_NODES, NodeCount};
pub use qsnet::QsNet;
pub use quantity::{Metres, Mib, MibPerS, Switches};
