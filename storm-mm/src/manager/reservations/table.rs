//! The reservations that are not over. Only this module changes them.

use crate::cluster::ReservationRecord;
use jiff::Timestamp;
use std::collections::BTreeMap;
use storm_primitives::Instant;
use storm_sched::ReservationId;

/// Reservations that are not over.
#[derive(Debug, Default)]
pub(in crate::manager) struct ReservationTable {
    by_id: BTreeMap<ReservationId, ReservationRecord>,
    /// The number of the next reservation; no number is used twice.
    next: u64,
    /// When the driver will wake the policies.
    armed: Option<Instant>,
}

impl ReservationTable {
    /// Replaces the table by that of the journal.
    pub(in crate::manager) fn set(&mut self, next: u64, records: &[ReservationRecord]) {
        self.next = next;
        self.by_id = records.iter().map(|record| (record.id, record.clone())).collect();
    }

    /// The reservation of this name that is not over.
    pub(super) fn named(&self, name: &str, at: Timestamp) -> Option<&ReservationRecord> {
        self.left(at).find(|record| record.name == name)
    }

    /// The reservations that are not over.
    pub(super) fn left(&self, at: Timestamp) -> impl Iterator<Item = &ReservationRecord> + '_ {
        self.by_id.values().filter(move |record| record.end > at)
    }

    /// The reservation of this number, even if it is over.
    pub(super) fn get(&self, id: ReservationId) -> Option<&ReservationRecord> {
        self.by_id.get(&id)
    }

    /// The number of the next reservation.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The driver is to wake the policies at this time. Returns whether the driver needs a new
    /// timer: otherwise the driver wakes the policies as early already.
    pub(super) fn arm(&mut self, now: Instant, at: Instant) -> bool {
        if self.armed.is_some_and(|armed| armed > now && armed <= at) {
            return false;
        }
        self.armed = Some(at);
        true
    }

    /// The driver has woken the policies.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
    }
}
