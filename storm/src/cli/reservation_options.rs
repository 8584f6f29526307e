//! Options of `reservation`.

use super::ClusterOptions;
use super::count::parse_count;
use crate::begin_time::parse_begin;
use crate::duration::parse_time_limit;
use clap::{ArgGroup, Args, Subcommand};
use jiff::{Timestamp, Zoned};
use std::time::Duration;

/// Options of `reservation`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
From its start to its end, the nodes of a reservation are only for jobs that its users submit
with --reservation. Another job does not get these nodes if its time limit lets it run past
the start, or if it has no time limit. Jobs that already run there go on.
A job of the reservation waits for the start and runs on its nodes only. When the reservation
ends or is deleted, its running jobs may finish, and its waiting jobs become ordinary jobs.

Examples:
  storm reservation create --name demo --start 16:00 --duration 2h --nodes 'n[1-4]' --users ann
  storm reservation create --name now --duration 30m -N 2
  storm submit --reservation demo -n 8 --time 1h ./solve
  storm reservation list
  storm reservation delete demo")]
pub(crate) struct ReservationOptions {
    #[command(subcommand)]
    pub(crate) command: ReservationCommand,
}

/// The actions on reservations.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ReservationCommand {
    /// Reserve nodes for some time; for administrators
    Create(Box<ReserveOptions>),
    /// List the reservations that are not over
    List {
        #[command(flatten)]
        cluster: ClusterOptions,
    },
    /// Show everything about a reservation
    Show {
        /// Name of the reservation
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        cluster: ClusterOptions,
    },
    /// Cancel a reservation; for administrators
    Delete {
        /// Name of the reservation
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        cluster: ClusterOptions,
    },
}

/// Options of `reservation create`.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["nodes", "node_count", "pes"]))]
pub(crate) struct ReserveOptions {
    /// Name of the reservation
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// When it begins: now+1hour, 16:00, tomorrow, 2026-12-24T08:00 [default: now]
    #[arg(long, value_name = "TIME", value_parser = |text: &str| parse_start(text))]
    pub(crate) start: Option<Start>,
    /// How long it lasts: 90s, 10m, 1h30m, or MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM:SS
    #[arg(long, value_name = "T", value_parser = parse_time_limit)]
    pub(crate) duration: Duration,
    /// Reserve these nodes, as n3 or n[1-8,12]
    #[arg(long, value_name = "LIST")]
    pub(crate) nodes: Option<String>,
    /// Reserve this many nodes
    #[arg(short = 'N', long, value_name = "N", allow_negative_numbers = true, value_parser = parse_count)]
    pub(crate) node_count: Option<u32>,
    /// Reserve nodes that together have this many processing elements
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = parse_count)]
    pub(crate) pes: Option<u32>,
    /// Users who may use it, by name or number [default: everybody]
    #[arg(long, value_name = "USERS", value_delimiter = ',')]
    pub(crate) users: Vec<String>,
    /// Partition of its nodes [default: the default one]
    #[arg(long, short, value_name = "PARTITION")]
    pub(crate) partition: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// When a reservation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// As soon as the manager has made it, independent of clocks.
    Now,
    /// At this time.
    At(Timestamp),
}

fn parse_start(text: &str) -> Result<Start, crate::begin_time::NotABegin> {
    if text.trim() == "now" {
        return Ok(Start::Now);
    }
    parse_begin(text, &Zoned::now()).map(Start::At)
}
