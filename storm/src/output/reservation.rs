//! Reservations, for users.

use super::table_form::{pairs, table};
use super::written;
use super::zone::Zone;
use storm_mm::api::ReservationView;

/// A line for each.
pub(super) fn listing(reservations: &[ReservationView], zone: &Zone) -> String {
    let columns = [
        "RESERVATION",
        "STATE",
        "START",
        "END",
        "PARTITION",
        ">NODES",
        ">PES",
        ">RUNNING",
        ">PENDING",
        "USERS",
        "NODE LIST",
    ];
    table(&columns, reservations.iter().map(|reservation| row(reservation, zone)))
}

fn row(reservation: &ReservationView, zone: &Zone) -> Vec<String> {
    vec![
        reservation.name.clone(),
        state(reservation).to_owned(),
        written::time(reservation.start, zone),
        written::time(reservation.end, zone),
        reservation.partition.clone(),
        reservation.nodes.to_string(),
        reservation.pes.to_string(),
        reservation.jobs_running.to_string(),
        reservation.jobs_pending.to_string(),
        users(reservation),
        reservation.node_list.clone(),
    ]
}

/// Everything about a reservation.
pub(super) fn details(reservation: &ReservationView, zone: &Zone) -> String {
    pairs(&[
        ("Reservation", reservation.name.clone()),
        ("State", state(reservation).to_owned()),
        ("Start", written::time(reservation.start, zone)),
        ("End", written::time(reservation.end, zone)),
        ("Partition", reservation.partition.clone()),
        ("Nodes", format!("{}: {}", reservation.nodes, reservation.node_list)),
        ("PEs", reservation.pes.to_string()),
        ("Users", users(reservation)),
        ("Running", reservation.jobs_running.to_string()),
        ("Pending", reservation.jobs_pending.to_string()),
    ])
}

/// Slurm's word for the state.
fn state(reservation: &ReservationView) -> &'static str {
    if reservation.active { "ACTIVE" } else { "INACTIVE" }
}

fn users(reservation: &ReservationView) -> String {
    match reservation.users.is_empty() {
        true => "all".to_owned(),
        false => reservation.users.join(","),
    }
}
