//! `scontrol show reservation`, and `sinfo --reservation`.

use super::record::{NULL, Record};
use crate::view::{Show, time_text};
use jiff::Timestamp;

/// Facts about a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationFacts {
    /// Its name.
    pub name: String,
    /// When it begins.
    pub start: Timestamp,
    /// When it ends.
    pub end: Timestamp,
    /// Its nodes, folded.
    pub node_list: String,
    /// The number of its nodes.
    pub nodes: u32,
    /// Its processing elements.
    pub cpus: u32,
    /// Its partition.
    pub partition: Option<String>,
    /// The users that may use it; empty is all.
    pub users: Vec<String>,
    /// Whether it has begun.
    pub active: bool,
}

impl ReservationFacts {
    fn duration(&self) -> String {
        let seconds = self.end.duration_since(self.start).as_secs();
        time_text::full(u64::try_from(seconds).unwrap_or(0))
    }

    fn state(&self) -> &'static str {
        if self.active { "ACTIVE" } else { "INACTIVE" }
    }
}

/// The record of a reservation.
pub fn reservation(reservation: &ReservationFacts, show: &Show, one_line: bool) -> String {
    let mut record = Record::default();
    let users = match reservation.users.is_empty() {
        true => NULL.to_owned(),
        false => reservation.users.join(","),
    };
    record
        .line(format!(
            "ReservationName={} StartTime={} EndTime={} Duration={}",
            reservation.name,
            show.time(reservation.start),
            show.time(reservation.end),
            reservation.duration()
        ))
        .line(format!(
            "Nodes={} NodeCnt={} CoreCnt={} Features={NULL} PartitionName={} Flags=SPEC_NODES",
            reservation.node_list,
            reservation.nodes,
            reservation.cpus,
            reservation.partition.as_deref().unwrap_or(NULL)
        ))
        .line(format!("TRES=cpu={}", reservation.cpus))
        .line(format!(
            "Users={users} Groups={NULL} Accounts={NULL} Licenses={NULL} State={} \
             BurstBuffer={NULL} Watts=n/a",
            reservation.state()
        ))
        .line(format!("MaxStartDelay={NULL}"));
    record.text(one_line)
}

/// The line of heads of `sinfo --reservation`.
pub const RESERVATION_HEADS: &str =
    "RESV_NAME     STATE           START_TIME             END_TIME     DURATION  NODELIST\n";

/// The line of a reservation in `sinfo --reservation`.
pub fn reservation_row(reservation: &ReservationFacts, show: &Show) -> String {
    format!(
        "{:<10} {:>8}  {:>19}  {:>19}  {:>11}  {}\n",
        reservation.name,
        reservation.state(),
        show.time(reservation.start),
        show.time(reservation.end),
        reservation.duration(),
        reservation.node_list
    )
}
