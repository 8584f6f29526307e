//! The `storm` binary against the real server of the client API, with a manager of the test behind
//! it: command lines, output and exit status.

mod following;
mod listing;
mod served;
mod submitting;
mod waiting;
