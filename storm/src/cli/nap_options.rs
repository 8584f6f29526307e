//! The options of `storm nap`, the job of a live replay.

use crate::duration::parse_time;
use clap::Args;
use std::time::Duration;

/// A job that does nothing.
#[derive(Clone, Debug, Args)]
pub(crate) struct NapOptions {
    /// How long, not counting the time in which it is stopped
    #[arg(value_name = "TIME", value_parser = parse_time)]
    pub(crate) time: Duration,
    /// The planned start, in microseconds since 1970: a delay that launching can explain is taken
    /// off the time
    #[arg(long, value_name = "UNIX_US")]
    pub(crate) planned: Option<i64>,
}
