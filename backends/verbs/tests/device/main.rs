//! Lanes and what can go wrong with them, on a device. As they take the device away and
//! its port down they need a machine of their own, and run one at a time: `.ci/verbs`.

mod environment;
mod failures;
mod lanes;
mod log;
mod memory;
mod multicast;
mod offers;
mod pair;
