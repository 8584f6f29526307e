//! The paper's tables and figures, compared with values from another program (`expected/*.csv`).
//! The files are outside this repository; `STORM_SHARED` names their directory.

mod crossover;
mod expected;
mod fig8;
mod fig9;
mod table3;
mod table5;
