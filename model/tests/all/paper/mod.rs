//! The paper's tables and figures against values computed by another program
//! (`expected/*.csv`, outside this repository; `STORM_SHARED` says where).

mod crossover;
mod expected;
mod fig8;
mod fig9;
mod table3;
mod table5;
