//! How command lines are understood.
