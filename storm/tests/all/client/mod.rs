//! The `storm` binary against the real server of the client API with a manager
//! of the test's own behind it: what users type, see and get as exit status.

mod following;
mod listing;
mod served;
mod submitting;
mod waiting;
