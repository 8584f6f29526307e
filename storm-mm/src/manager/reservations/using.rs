//! Jobs of reservations: the right to submit them, and their reasons to wait.

use crate::api::{ApiError, ErrorCode, Peer, ReservedNodes};
use crate::cluster::ReservationRecord;
use crate::job::JobRecord;
use crate::manager::Core;
use crate::manager::admission::request_of;
use jiff::Timestamp;
use std::time::Duration;
use storm_primitives::{Instant, NodeId, NodeSet, fold_names};
use storm_rm::JobSpec;
use storm_sched::{JobRequest, PendingReason, ReservationId};

impl Core {
    /// The reservation that a job is submitted to, if the user may use that reservation. The job
    /// gets the reservation's partition.
    pub(in crate::manager) fn reservation_to_use(
        &self,
        now: Instant,
        peer: Peer,
        name: &str,
        spec: &mut JobSpec,
    ) -> Result<(ReservationId, String), ApiError> {
        let at = self.wall(now);
        let Some(record) = self.reservations.named(name, at) else {
            return Err(self.no_such_reservation(now, name));
        };
        let (uid, user) = (peer.uid.to_string(), (self.config.user_name)(peer.uid));
        let is_user = |known: &String| *known == uid || Some(known) == user.as_ref();
        if !record.users.is_empty() && !record.users.iter().any(is_user) {
            let (who, users) = (user.unwrap_or(uid), record.users.join(", "));
            let message = format!("user {who} may not use reservation {name:?}");
            return Err(
                ApiError::new(ErrorCode::NotPermitted, message).why(format!("it is for {users}"))
            );
        }
        match &spec.partition {
            Some(other) if !other.split(',').any(|name| name == record.partition) => {
                let own = &record.partition;
                let message = format!("reservation {name:?} has no nodes of partition {other:?}");
                return Err(ApiError::new(ErrorCode::Infeasible, message)
                    .why(format!("its nodes are in partition {own:?}")));
            }
            Some(_) | None => spec.partition = Some(record.partition.clone()),
        }
        Ok((record.id, record.name.clone()))
    }

    /// Fails if the nodes or the time of a reservation are not enough for a job.
    pub(in crate::manager) fn check_reservation(
        &self,
        now: Instant,
        id: ReservationId,
        request: &JobRequest,
    ) -> Result<(), ApiError> {
        let Some(record) = self.reservations.get(id) else { return Ok(()) };
        let never = |why: String| {
            let message = format!("reservation {:?} can never run this job", record.name);
            Err(ApiError::new(ErrorCode::Infeasible, message).why(why))
        };
        let left = left_of(record, self.wall(now));
        if let Some(limit) = request.time_limit.filter(|limit| *limit > left) {
            let (limit, left) = (limit.as_secs(), left.as_secs());
            return never(format!("its time limit is {limit} s, and there are {left} s of it"));
        }
        match self
            .partitions
            .machine_of(record)
            .map(|machine| storm_sched::feasible(&machine, request))
        {
            Some(Err(why)) => never(format!("on its nodes alone {why}")),
            Some(Ok(())) => Ok(()),
            None => never("none of its nodes is configured any more".to_owned()),
        }
    }

    /// The nodes of a reservation that its partition no longer has, if there are any.
    pub(in crate::manager) fn lost_nodes(&self, record: &ReservationRecord) -> Option<String> {
        let partition = self.partitions.id_of(&record.partition);
        let here = |name: &String| {
            let members = partition.map(|id| self.partitions[id].members());
            members.is_some_and(|all| all.iter().any(|node| self.node_name(*node) == *name))
        };
        let lost: Vec<String> = record.nodes.iter().filter(|name| !here(name)).cloned().collect();
        (!lost.is_empty()).then(|| fold_names(&lost))
    }

    /// A warning for a waiting job: the nodes that its reservation has lost.
    pub(in crate::manager) fn reservation_loss(
        &self,
        now: Instant,
        record: &JobRecord,
    ) -> Option<String> {
        let (id, name) = record.reservation.as_ref()?;
        let reservation = self.reservations.get(*id)?;
        if reservation.end <= self.wall(now) {
            return None;
        }
        let (lost, end) = (self.lost_nodes(reservation)?, reservation.end);
        Some(format!(
            "; its reservation {name}, until {end}, has lost {lost}: partition {} is not configured \
             with that",
            reservation.partition
        ))
    }

    /// The name of the reservation that a job is in.
    pub(in crate::manager) fn reservation_of(&self, record: &JobRecord) -> Option<String> {
        let (_, name) = record.reservation.as_ref()?;
        Some(name.clone())
    }

    /// The reservations of others that keep nodes from a waiting job. They count if the job could
    /// be running there at their time: from now on, or from its estimated start on.
    pub(in crate::manager) fn reserved_from(
        &self,
        now: Instant,
        record: &JobRecord,
        estimate: Option<Timestamp>,
    ) -> Vec<(ReservationId, ReservedNodes)> {
        let (at, partition) = (self.wall(now), self.partitions.id_of(&record.partition));
        // A job of a reservation can have only the nodes of that reservation, which are in no
        // other.
        let Some(partition) = partition.filter(|_| record.reservation.is_none()) else {
            return Vec::new();
        };
        let entry = &self.partitions[partition];
        let (request, machine) = (request_of(record.id, &record.spec), entry.policy().machine());
        let may_have = |node: &NodeId| {
            let node = entry.index_of(*node).and_then(|index| machine.node(index));
            node.is_some_and(|node| request.may_have(node))
        };
        let from = estimate.map_or(at, |estimate| estimate.max(at));
        let over = record.spec.time_limit.map(|limit| from.saturating_add(limit));
        let until = over.and_then(Result::ok).unwrap_or(Timestamp::MAX);
        let meets = |of: &&ReservationRecord| of.partition == record.partition && of.start < until;
        let mut met: Vec<&ReservationRecord> = self.reservations.left(at).filter(meets).collect();
        met.sort_by_key(|of| (of.start, of.id));
        let kept = met.into_iter().filter_map(|of| {
            let nodes: NodeSet = self.reserved_nodes(of).iter().filter(may_have).collect();
            let told = ReservedNodes {
                reservation: of.name.clone(),
                node_list: self.nodes.fold(&nodes),
                start: of.start,
                end: of.end,
            };
            (!nodes.is_empty()).then_some((of.id, told))
        });
        kept.collect()
    }

    /// The name of the reservation that holds a node now.
    pub(in crate::manager) fn reservation_on(&self, now: Instant, node: &str) -> Option<String> {
        let at = self.wall(now);
        let has = |of: &&ReservationRecord| {
            of.start <= at && of.nodes.iter().any(|reserved| reserved == node)
        };
        self.reservations.left(at).find(has).map(|of| of.name.clone())
    }

    /// Why a job waits for a reservation, with the reservation's name and wall-clock times; `None`
    /// if it waits for something else.
    pub(in crate::manager) fn reserved_reason(&self, reason: &PendingReason) -> Option<String> {
        match reason {
            PendingReason::Reserved { reservation, .. } => {
                let record = self.reservations.get(*reservation)?;
                let ReservationRecord { name, start, end, .. } = record;
                Some(in_the_way(&ReservedNodes {
                    reservation: name.clone(),
                    node_list: self.nodes.fold(&self.reserved_nodes(record)),
                    start: *start,
                    end: *end,
                }))
            }
            PendingReason::NotBegun { reservation, .. } => {
                let record = self.reservations.get(*reservation)?;
                let ReservationRecord { name, start, .. } = record;
                Some(format!("its reservation {name} begins at {start} (Reservation)"))
            }
            PendingReason::Resources(_)
            | PendingReason::Priority { .. }
            | PendingReason::WouldDelay { .. }
            | PendingReason::Shorter { .. }
            | PendingReason::Kept { .. }
            | PendingReason::MakingRoom { .. }
            | PendingReason::Suspended { .. } => None,
        }
    }
}

/// The reason for nodes that a job cannot have.
pub(in crate::manager) fn in_the_way(reserved: &ReservedNodes) -> String {
    let ReservedNodes { reservation, node_list, start, end } = reserved;
    format!(
        "{node_list} is reserved for {reservation} from {start} to {end}, and the job could be \
         running in that time (ReqNodeNotAvail)"
    )
}

/// The rest of a reservation, from its start on.
fn left_of(record: &ReservationRecord, at: Timestamp) -> Duration {
    let left = record.end.duration_since(record.start.max(at));
    Duration::try_from(left).unwrap_or_default()
}
