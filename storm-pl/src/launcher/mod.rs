//! The PL: the code of each pre-forked process until it becomes the application.

mod application_state;
mod become_application;
mod execute;
pub(crate) mod request;
mod stdio;
mod wait_for_launch;

pub(crate) use wait_for_launch::wait_for_launch;
