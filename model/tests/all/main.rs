//! The model against the paper and against itself.

mod any_profile;
mod calibrate;
mod paper;
mod predict;
mod size;
