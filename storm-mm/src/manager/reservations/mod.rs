//! Reservations: making and using them, and passing them to the policies (`docs/decisions/0051`).
//!
//! The manager has names, users and the wall clock. The policies have numbers, nodes and instants,
//! and decide where jobs start.

mod making;
mod table;
mod using;
mod waking;

pub(super) use table::ReservationTable;
pub(super) use using::in_the_way;

use super::Core;
use crate::api::{ApiError, ErrorCode, Peer, ReservationView};
use crate::cluster::{ClusterEventKind, ReservationRecord};
use crate::job::Phase;
use jiff::Timestamp;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet};
use storm_rm::PartitionId;
use storm_sched::{Event, Policy, Reservation, SchedTime};

impl Core {
    /// The reservations that are not over, by their begin.
    pub fn list_reservations(&self, now: Instant) -> Vec<ReservationView> {
        let at = self.wall(now);
        let mut left: Vec<&ReservationRecord> = self.reservations.left(at).collect();
        left.sort_by_key(|record| (record.start, record.id));
        left.into_iter().map(|record| self.reservation_view(record, at)).collect()
    }

    fn reservation_view(&self, record: &ReservationRecord, at: Timestamp) -> ReservationView {
        let of_it = |job: &&crate::job::JobRecord| {
            job.reservation.as_ref().is_some_and(|(id, _)| *id == record.id)
        };
        let (mut running, mut pending) = (0, 0);
        for job in self.jobs.values().filter(of_it) {
            match job.phase {
                Phase::Pending => pending += 1,
                Phase::Starting | Phase::Running | Phase::Ending(_) => running += 1,
                Phase::Ended(_) => {}
            }
        }
        let nodes = self.reserved_nodes(record);
        let of_node = |node: NodeId| self.nodes.get(node).map_or(0, |entry| entry.pes);
        ReservationView {
            name: record.name.clone(),
            active: record.start <= at,
            partition: record.partition.clone(),
            node_list: self.nodes.fold(&nodes),
            nodes: nodes.len() as u32,
            pes: nodes.iter().map(of_node).sum(),
            start: record.start,
            end: record.end,
            users: record.users.clone(),
            jobs_running: running,
            jobs_pending: pending,
        }
    }

    /// The configured nodes of a reservation.
    fn reserved_nodes(&self, record: &ReservationRecord) -> NodeSet {
        let named = self.nodes.iter().filter(|(_, entry)| record.nodes.contains(&entry.name));
        named.map(|(node, _)| node).collect()
    }

    /// The reservations of a partition that are not over, in the form for its policy.
    pub(super) fn reservations_of(&self, now: Instant, id: PartitionId) -> Vec<Reservation> {
        let partition = &self.partitions[id];
        let at = self.wall(now);
        let here = self.reservations.left(at).filter(|record| record.partition == partition.name());
        here.map(|record| {
            let nodes = self.reserved_nodes(record);
            Reservation {
                id: record.id,
                nodes: nodes.iter().filter_map(|node| partition.index_of(node)).collect(),
                start: self.sched_time_of(record.start),
                end: self.sched_time_of(record.end),
            }
        })
        .collect()
    }

    /// Passes the reservations in its partition to a new policy.
    pub(super) fn tell_reservations(&self, now: Instant, id: PartitionId, policy: &mut dyn Policy) {
        for reservation in self.reservations_of(now, id) {
            // No job waits for the reservation yet, so none can start.
            policy.handle(super::partitions::sched_time(now), Event::Reserve(reservation));
        }
    }

    /// Passes the reservations of the journal to all policies, and warns of nodes that the
    /// reservations have lost.
    pub(super) fn restore_reservations(&mut self, now: Instant) {
        for record in self.reservations.left(self.wall(now)) {
            if let Some(nodes) = self.lost_nodes(record) {
                let (reservation, partition) = (&record.name, &record.partition);
                tracing::warn!(
                    %reservation, %partition, nodes,
                    "a reservation has nodes that its partition no longer has in the configuration"
                );
            }
        }
        for id in self.partitions.ids() {
            for reservation in self.reservations_of(now, id) {
                self.handle_event(now, id, Event::Reserve(reservation));
            }
        }
    }

    /// An instant of the wall clock as the policies count time; times before the backend's origin
    /// become the origin.
    fn sched_time_of(&self, at: Timestamp) -> SchedTime {
        let since = Duration::try_from(at.duration_since(self.config.origin));
        SchedTime::ZERO + since.unwrap_or_default()
    }

    /// Journals and installs the list of all reservations that are not over.
    fn set_reservations(&mut self, now: Instant, next: u64, records: Vec<ReservationRecord>) {
        let kind = ClusterEventKind::ReservationsSet { next, reservations: records };
        self.append_of_cluster(now, kind);
    }

    fn no_such_reservation(&self, now: Instant, name: &str) -> ApiError {
        let names: Vec<String> =
            self.list_reservations(now).into_iter().map(|known| known.name).collect();
        let error = ApiError::new(
            ErrorCode::NoSuchReservation,
            format!("there is no reservation {name:?}"),
        );
        match names.is_empty() {
            true => error.hint("there are none: storm reservation create makes one"),
            false => error.hint(format!("there are: {}", names.join(", "))),
        }
    }

    fn admin_only(&self, peer: Peer) -> Result<(), ApiError> {
        if self.is_admin(peer) {
            return Ok(());
        }
        let message = "only an administrator may make and delete reservations";
        Err(ApiError::new(ErrorCode::NotPermitted, message))
    }
}
