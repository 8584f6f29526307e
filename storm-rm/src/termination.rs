//! termination
