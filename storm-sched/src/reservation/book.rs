//! The reservations of a partition that have not ended.

use std::collections::BTreeMap;

use crate::reservation::{Pool, Reservation, ReservationId};
use crate::{Event, EventError, JobRequest, Machine, NodeIndex, SchedTime};

/// The reservations that have not ended by the time `now`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book {
    now: SchedTime,
    windows: BTreeMap<ReservationId, Reservation>,
    /// Whether a reservation was added, began, ended or was withdrawn since the last decision.
    turned: bool,
}

impl Book {
    /// The time of the last event: reservations that ended by then are dropped.
    pub(crate) fn now(&self) -> SchedTime {
        self.now
    }

    /// Whether nothing is reserved.
    pub(crate) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// The reservations, by number. The nodes of each ascend.
    pub(crate) fn windows(&self) -> impl Iterator<Item = &Reservation> + '_ {
        self.windows.values()
    }

    /// Takes an event at its time: reservations may begin or end, and the event may add or remove
    /// one.
    pub(crate) fn take(
        &mut self,
        now: SchedTime,
        machine: &Machine,
        event: &Event,
    ) -> Result<(), EventError> {
        self.advance(now);
        match event {
            Event::Reserve(reservation) => self.add(machine, reservation.clone()),
            Event::Unreserve(id) => self.remove(*id),
            _ => Ok(()),
        }
    }

    /// Whether the reservations have changed since the last [`Book::take_turned`].
    pub(crate) fn has_turned(&self) -> bool {
        self.turned
    }

    /// Whether the reservations have changed since the last call.
    pub(crate) fn take_turned(&mut self) -> bool {
        std::mem::take(&mut self.turned)
    }

    /// The next time at which a reservation begins or ends.
    pub(crate) fn next_turn(&self) -> Option<SchedTime> {
        self.turns().filter(|at| *at > self.now).min()
    }

    /// The times at which reservations begin and end, in no order.
    pub(crate) fn turns(&self) -> impl Iterator<Item = SchedTime> + '_ {
        self.windows().flat_map(|window| [window.start, window.end])
    }

    /// The pool in which a job competes.
    pub(crate) fn pool_of(&self, request: &JobRequest) -> Pool {
        match self.own(request) {
            None => Pool::Common,
            Some(own) if own.start > self.now => Pool::Before(own.id),
            Some(own) => Pool::Of(own.id),
        }
    }

    /// The reservations that are under way, as queues of their own.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = Pool> + '_ {
        let begun = self.windows().filter(|window| window.is_under_way(self.now));
        begun.map(|window| Pool::Of(window.id))
    }

    /// The nodes of a job's own reservation, unless the reservation has ended.
    pub(crate) fn own_nodes(&self, request: &JobRequest) -> Option<&[NodeIndex]> {
        self.own(request).map(|own| own.nodes.as_slice())
    }

    /// The nodes that a job may not use if it starts at `from` and ends by `until`, ascending.
    pub(crate) fn closed(
        &self,
        machine: &Machine,
        request: &JobRequest,
        from: SchedTime,
        until: SchedTime,
    ) -> Vec<NodeIndex> {
        let mut closed: Vec<NodeIndex> = self
            .windows()
            .filter(|window| Some(window.id) != request.reservation && window.meets(from, until))
            .flat_map(|window| window.nodes.iter().copied())
            .collect();
        if let Some(own) = self.own(request).filter(|own| from < own.end) {
            let all = (0..machine.nodes().len() as u32).map(NodeIndex);
            let is_own = |node: &NodeIndex| own.nodes.binary_search(node).is_ok();
            closed.extend(all.filter(|node| from < own.start || !is_own(node)));
        }
        closed.sort_unstable();
        closed.dedup();
        closed
    }

    /// The earliest reservation of others that overlaps a run of the job.
    pub(crate) fn in_the_way(
        &self,
        request: &JobRequest,
        from: SchedTime,
        until: SchedTime,
    ) -> Option<&Reservation> {
        let others = self.windows().filter(|window| Some(window.id) != request.reservation);
        others.filter(|window| window.meets(from, until)).min_by_key(|window| window.start)
    }

    /// Like [`Book::in_the_way`], for reservations that have one of these nodes.
    pub(crate) fn in_the_way_on(
        &self,
        nodes: &[NodeIndex],
        request: &JobRequest,
        from: SchedTime,
        until: SchedTime,
    ) -> Option<&Reservation> {
        let others = self.windows().filter(|window| Some(window.id) != request.reservation);
        let has = |window: &&Reservation| {
            window.meets(from, until)
                && nodes.iter().any(|node| window.nodes.binary_search(node).is_ok())
        };
        others.filter(has).min_by_key(|window| window.start)
    }

    /// The reservation of a job, unless the reservation has ended.
    pub(crate) fn own(&self, request: &JobRequest) -> Option<&Reservation> {
        self.windows.get(&request.reservation?)
    }

    fn advance(&mut self, now: SchedTime) {
        if self.windows.is_empty() {
            self.now = self.now.max(now);
            return;
        }
        let turned = self.turns().any(|turn| self.now < turn && turn <= now);
        self.turned |= turned;
        self.now = self.now.max(now);
        self.windows.retain(|_, window| window.end > now);
    }

    fn add(&mut self, machine: &Machine, mut reservation: Reservation) -> Result<(), EventError> {
        let Reservation { id, start, end, .. } = reservation;
        reservation.nodes.sort_unstable();
        reservation.nodes.dedup();
        if start >= end || end <= self.now {
            return Err(EventError::ReservationOver { reservation: id });
        }
        if let Some(node) = reservation.nodes.iter().find(|node| machine.node(**node).is_none()) {
            return Err(EventError::NoSuchNode { node: *node });
        }
        let shares_nodes = |window: &Reservation| {
            window.nodes.iter().any(|node| reservation.nodes.binary_search(node).is_ok())
        };
        let clash = self
            .windows()
            .find(|window| window.id == id || (window.meets(start, end) && shares_nodes(window)));
        if let Some(clash) = clash {
            return Err(EventError::ReservationClash { reservation: id, other: clash.id });
        }
        self.windows.insert(id, reservation);
        self.turned = true;
        Ok(())
    }

    fn remove(&mut self, id: ReservationId) -> Result<(), EventError> {
        self.windows.remove(&id).ok_or(EventError::NoSuchReservation { reservation: id })?;
        self.turned = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobId;

    fn at(secs: u64) -> SchedTime {
        SchedTime::from_secs(secs)
    }

    fn book() -> (Machine, Book) {
        let machine = Machine::uniform(4, 2).unwrap();
        let mut book = Book::default();
        for (id, nodes, start, end) in [(1, [0, 1], 10, 20), (2, [1, 2], 30, 40)] {
            let nodes = nodes.map(NodeIndex).to_vec();
            let id = ReservationId(id);
            let window = Reservation { id, nodes, start: at(start), end: at(end) };
            book.take(at(0), &machine, &Event::Reserve(window)).unwrap();
        }
        (machine, book)
    }

    fn closed(job: &JobRequest, from: u64, until: u64) -> Vec<u32> {
        let (machine, book) = book();
        book.closed(&machine, job, at(from), at(until)).into_iter().map(|node| node.0).collect()
    }

    #[test]
    fn a_run_that_meets_a_window_may_not_have_its_nodes() {
        let job = JobRequest::new(JobId(1), 1);
        assert!(closed(&job, 0, 10).is_empty(), "it has ended when the first begins");
        assert_eq!(closed(&job, 0, 11), [0, 1]);
        assert_eq!(closed(&job, 19, 31), [0, 1, 2]);
        assert_eq!(closed(&job, 20, 31), [1, 2]);
        assert!(closed(&job, 40, 99).is_empty());
    }

    #[test]
    fn a_job_of_a_reservation_has_its_nodes_and_no_others_until_it_is_over() {
        let job = JobRequest::new(JobId(1), 1).with_reservation(ReservationId(1));
        assert_eq!(closed(&job, 9, 11), [0, 1, 2, 3], "not before it begins");
        assert_eq!(closed(&job, 10, 20), [2, 3]);
        assert_eq!(closed(&job, 10, 31), [1, 2, 3], "the other one begins meanwhile");
        assert_eq!(closed(&job, 20, 31), [1, 2], "it is a job like others then");
    }

    #[test]
    fn starts_and_ends_are_noticed_once_and_past_reservations_are_dropped() {
        let (machine, mut book) = book();
        assert!(book.take_turned() && !book.take_turned());
        let wake = |book: &mut Book, secs| {
            book.take(at(secs), &machine, &Event::Wake).unwrap();
            book.take_turned()
        };
        assert_eq!(book.next_turn(), Some(at(10)));
        assert!(!wake(&mut book, 9) && wake(&mut book, 10) && !wake(&mut book, 15));
        assert_eq!(book.next_turn(), Some(at(20)));
        assert!(wake(&mut book, 25));
        assert_eq!(book.windows().count(), 1);
        book.take(at(25), &machine, &Event::Unreserve(ReservationId(2))).unwrap();
        assert!(book.is_empty() && book.next_turn().is_none());
        let gone = book.take(at(26), &machine, &Event::Unreserve(ReservationId(2)));
        assert_eq!(gone, Err(EventError::NoSuchReservation { reservation: ReservationId(2) }));
    }

    #[test]
    fn impossible_reservations_are_refused() {
        let (machine, mut book) = book();
        let mut refused = |nodes: &[u32], start, end| {
            let nodes = nodes.iter().copied().map(NodeIndex).collect();
            let id = ReservationId(3);
            let window = Reservation { id, nodes, start: at(start), end: at(end) };
            book.take(at(5), &machine, &Event::Reserve(window)).unwrap_err()
        };
        let (reservation, other) = (ReservationId(3), ReservationId(1));
        assert_eq!(refused(&[4], 0, 9), EventError::NoSuchNode { node: NodeIndex(4) });
        assert_eq!(refused(&[1], 19, 30), EventError::ReservationClash { reservation, other });
        assert_eq!(refused(&[3], 0, 5), EventError::ReservationOver { reservation });
    }
}
