//! The analytic model of STORM: the cost of a launch, a strobe and a COMPARE-AND-WRITE on a
//! machine, real or planned (paper, section 4.4).
//!
//! The model is pure: it uses no file, clock, network or process, and no other crate of STORM.
//!
//! * [`equations`]: the paper's Equations 1 to 9, one function each.
//! * [`QsNet`], [`Es40`]: the constants of the equations, each with its source.
//! * [`table_2`], [`table_3`], [`table_5`], [`fig_8`], [`fig_9`], [`crossovers`]: the paper's
//!   results, for STORM and for its [`Rival`]s.
//! * [`Profile`]: the paper's machine or another; [`predict`] and [`size`] answer questions about
//!   it.
//! * [`calibrate`]: the parameters of a real cluster, fitted to measurements.
//!
//! **Units.** The paper writes MB and MB/s for 2^20 bytes. Only this reading reproduces all cells
//! of its Table 3, and both printed launch times with one timeslice overhead. In this crate a name
//! ends in its unit, and every bandwidth has the type [`MibPerS`].
#![forbid(unsafe_code)]

pub mod calibrate;
pub mod equations;
mod es40;
mod input_error;
mod limit;
mod network;
mod node_count;
mod paper_figures;
mod paper_launch;
mod paper_tables;
mod predict;
mod profile;
mod qsnet;
mod quantity;
mod rival;
mod size;
mod sourced;

pub use es40::{Es40, SourceFile};
pub use input_error::InputError;
pub use limit::Limit;
pub use network::{FanOut, MAX_FAN_OUT, Multicast, Network, SharedHost, Tree, tree_depth};
pub use node_count::{MAX_NODES, NodeCount};
pub use paper_figures::{
    Crossover, Fig8Row, Fig9Row, RivalLaunch, crossovers, fig_8, fig_9, fig_9_row, figure_nodes,
};
pub use paper_launch::{PaperMachine, paper_launch_ms, paper_transfer};
pub use paper_tables::{
    TABLE_3_CABLES_M, TABLE_3_STAGES, Table2Row, Table3Row, Table5Row, table_2, table_3, table_5,
};
pub use predict::{Launch, Part, Prediction, QuantumCost, Question, Strobe, predict};
pub use profile::{
    Absent, BUILTIN_NAMES, Host, KEYS, KeyRange, Profile, ProfileError, ProfileKey, Protocol,
    builtin, builtin_text, check_values, commented_tables,
};
pub use qsnet::QsNet;
pub use quantity::{Metres, Mib, MibPerS, Switches};
pub use rival::{GrowthLaw, PublishedLaunch, Rival};
pub use size::{CHUNK_CHOICES, Goal, Setting, SizeLimit, Sizing, size};
pub use sourced::Sourced;
