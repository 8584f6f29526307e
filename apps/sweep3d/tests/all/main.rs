//! The solver, its program on many ranks, and the program in C.

mod in_c;
mod physics;
mod ranks;
