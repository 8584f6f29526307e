//! Lanes and their failures, on a device. The tests remove the device and take its port down. They
//! therefore need a machine of their own and run one at a time: `.ci/verbs`.

mod environment;
mod failures;
mod lanes;
mod log;
mod memory;
mod multicast;
mod offers;
mod pair;
