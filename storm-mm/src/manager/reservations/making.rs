//! Making and deleting reservations.

use crate::api::{ApiError, ErrorCode, Peer, ReservationRequest, ReservationView};
use crate::cluster::ReservationRecord;
use crate::manager::Core;
use crate::manager::live::LivePlace;
use crate::manager::partitions::sched_time;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use storm_primitives::{Instant, NodeId};
use storm_rm::{JobId, PartitionId};
use storm_sched::{Event, ReservationId, SchedTime};

/// Most reservations at a time: every decision checks all of them.
const MAX_RESERVATIONS: usize = 1024;
/// Longest name of a reservation or a user, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Most users of a reservation.
const MAX_USERS: usize = 1024;
/// The latest begin of a reservation: a hundred years from now, which the policies' clock can
/// express.
const MAX_AHEAD_HOURS: i64 = 100 * 365 * 24;
/// Longest reservation, in seconds: ten years.
const MAX_DURATION_S: u64 = 10 * 365 * 86_400;

/// The begin and the end.
type Window = (Timestamp, Timestamp);

impl Core {
    /// Reserves nodes.
    ///
    /// # Errors
    /// An [`ApiError`] for the client; nothing is changed then.
    pub fn reserve(
        &mut self,
        now: Instant,
        peer: Peer,
        request: &ReservationRequest,
    ) -> Result<ReservationView, ApiError> {
        self.admin_only(peer)?;
        let at = self.wall(now);
        self.check_names(request, at)?;
        let window = window(request, at)?;
        let partition = self.partition_to_reserve(request)?;
        let nodes = match (&request.nodes, request.node_count, request.pes) {
            (Some(list), None, None) => self.named_nodes(partition, list, window)?,
            (None, Some(count), None) => self.chosen_nodes(now, partition, window, count, 0)?,
            (None, None, Some(pes)) => self.chosen_nodes(now, partition, window, 0, pes)?,
            _ => {
                let message = "a reservation takes nodes by name, or a number of nodes or PEs";
                return Err(ApiError::new(ErrorCode::BadRequest, message)
                    .hint("give one of --nodes, -N and -n"));
            }
        };
        let id = ReservationId(self.reservations.next().max(1));
        let record = ReservationRecord {
            id,
            name: request.name.clone(),
            partition: self.partitions[partition].name().to_owned(),
            nodes: nodes.into_iter().map(|node| self.node_name(node)).collect(),
            start: window.0,
            end: window.1,
            users: request.users.clone(),
        };
        let view = self.reservation_view(&record, at);
        let mut all: Vec<ReservationRecord> = self.reservations.left(at).cloned().collect();
        all.push(record);
        self.set_reservations(now, id.0 + 1, all);
        let told = self.reservations_of(now, partition);
        for reservation in told.into_iter().filter(|reservation| reservation.id == id) {
            // At once, even in the middle of a slice: starting jobs wait for the edge themselves.
            self.handle_event(now, partition, Event::Reserve(reservation));
        }
        Ok(view)
    }

    /// Deletes a reservation. Its running jobs continue; its waiting jobs become ordinary jobs.
    ///
    /// # Errors
    /// An [`ApiError`] for the client; nothing is changed then.
    pub fn unreserve(&mut self, now: Instant, peer: Peer, name: &str) -> Result<(), ApiError> {
        self.admin_only(peer)?;
        let at = self.wall(now);
        let Some(record) = self.reservations.named(name, at).cloned() else {
            return Err(self.no_such_reservation(now, name));
        };
        let left = self.reservations.left(at).filter(|other| other.id != record.id);
        let left: Vec<ReservationRecord> = left.cloned().collect();
        self.set_reservations(now, self.reservations.next(), left);
        if let Some(partition) = self.partitions.id_of(&record.partition) {
            self.handle_event(now, partition, Event::Unreserve(record.id));
        }
        Ok(())
    }

    fn check_names(&self, request: &ReservationRequest, at: Timestamp) -> Result<(), ApiError> {
        let bad = |message: String| Err(ApiError::new(ErrorCode::BadRequest, message));
        let name = &request.name;
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(allowed) {
            return bad(format!(
                "{name:?} is not a name for a reservation: use 1 to {MAX_NAME_BYTES} letters, \
                 digits, '_', '-' and '.'"
            ));
        }
        if self.reservations.named(name, at).is_some() {
            let message = format!("there is a reservation {name:?} already");
            return Err(ApiError::new(ErrorCode::BadRequest, message)
                .hint("choose another name, or delete it first"));
        }
        if self.reservations.left(at).count() >= MAX_RESERVATIONS {
            return bad(format!("there are {MAX_RESERVATIONS} reservations, which is the limit"));
        }
        let sound = |user: &String| !user.is_empty() && user.len() <= MAX_NAME_BYTES;
        if request.users.len() > MAX_USERS || !request.users.iter().all(sound) {
            return bad(format!(
                "a reservation names at most {MAX_USERS} users, each with 1 to {MAX_NAME_BYTES} \
                 bytes"
            ));
        }
        Ok(())
    }

    fn partition_to_reserve(&self, request: &ReservationRequest) -> Result<PartitionId, ApiError> {
        match &request.partition {
            Some(name) => {
                self.partitions.id_of(name).ok_or_else(|| self.partitions.none_named(name))
            }
            None => Ok(self.partitions.default_id()),
        }
    }

    /// The nodes of a list, if all can be reserved.
    fn named_nodes(
        &self,
        id: PartitionId,
        list: &str,
        window: Window,
    ) -> Result<Vec<NodeId>, ApiError> {
        let nodes = self.nodes.of_list(list)?;
        let partition = &self.partitions[id];
        if let Some(node) = nodes.iter().find(|node| !partition.nodes().contains(**node)) {
            let (node, name) = (self.node_name(*node), partition.name());
            let message = format!("node {node} is not in partition {name:?}");
            return Err(ApiError::new(ErrorCode::NoSuchNode, message).hint(
                "all nodes of a reservation are in one partition: name it with --partition",
            ));
        }
        for node in &nodes {
            if let Some(other) = self.reserved_by_another(*node, window) {
                let node = self.node_name(*node);
                let message = format!(
                    "node {node} is reserved for {:?} from {} to {}",
                    other.name, other.start, other.end
                );
                return Err(ApiError::new(ErrorCode::Infeasible, message)
                    .hint("choose other nodes or another time, or delete that one"));
            }
        }
        Ok(nodes)
    }

    /// `count` nodes, or nodes with `pes` PEs together, that are in no other reservation. Nodes
    /// that are up are first, and among them the nodes whose jobs must have ended by then.
    fn chosen_nodes(
        &self,
        now: Instant,
        id: PartitionId,
        window: Window,
        count: u32,
        pes: u32,
    ) -> Result<Vec<NodeId>, ApiError> {
        if count == 0 && pes == 0 {
            let message = "a reservation needs at least one node or PE";
            return Err(ApiError::new(ErrorCode::BadRequest, message));
        }
        let partition = &self.partitions[id];
        let free = |node: &NodeId| self.reserved_by_another(*node, window).is_none();
        let mut nodes: Vec<NodeId> = partition.members().iter().copied().filter(free).collect();
        let start = self.sched_time_of(window.0);
        nodes.sort_by_key(|node| (self.is_absent(*node), self.is_held_at(now, *node, start)));
        let pes_of = |node: &NodeId| self.nodes.get(*node).map_or(0, |entry| entry.pes);
        let (mut chosen, mut chosen_pes) = (Vec::new(), 0u32);
        for node in &nodes {
            if chosen.len() as u32 >= count && chosen_pes >= pes {
                break;
            }
            chosen.push(*node);
            chosen_pes = chosen_pes.saturating_add(pes_of(node));
        }
        if chosen.len() as u32 >= count && chosen_pes >= pes {
            chosen.sort_unstable();
            return Ok(chosen);
        }
        let (has, all) = (nodes.len(), partition.members().len());
        let asked = if count > 0 { format!("{count} nodes") } else { format!("{pes} PEs") };
        let message = format!("{asked} of partition {:?} cannot be reserved", partition.name());
        let why = format!(
            "{has} of its {all} nodes, with {chosen_pes} PEs, are in no other reservation then"
        );
        Err(ApiError::new(ErrorCode::Infeasible, message).why(why))
    }

    fn reserved_by_another(&self, node: NodeId, window: Window) -> Option<&ReservationRecord> {
        let name = self.node_name(node);
        let (start, end) = window;
        let mut all = self.reservations.left(start);
        all.find(|other| other.start < end && start < other.end && other.nodes.contains(&name))
    }

    fn is_absent(&self, node: NodeId) -> bool {
        let drained = self.nodes.get(node).is_some_and(|entry| entry.drained.is_some());
        drained || !self.nodes.up().contains(node)
    }

    /// Whether a job can be on a node at a time, by its time limit.
    fn is_held_at(&self, now: Instant, node: NodeId, at: SchedTime) -> bool {
        let is_there = |(job, live): (JobId, &LivePlace)| {
            let limit = self.jobs.get(&job).and_then(|record| record.spec.time_limit);
            let left = limit.map(|limit| limit.saturating_sub(live.run_time(now)));
            let end = left.map(|left| sched_time(now) + left);
            live.place_nodes().contains(node) && end.is_none_or(|end| end > at)
        };
        self.live.iter().any(is_there)
    }
}

/// The time of the reservation, if it is possible.
fn window(request: &ReservationRequest, at: Timestamp) -> Result<Window, ApiError> {
    let start = request.start.unwrap_or(at);
    if start < at {
        let message = format!("the reservation cannot begin at {start}: it is {at} already");
        return Err(
            ApiError::new(ErrorCode::BadRequest, message).hint("leave the start out for now")
        );
    }
    if start.duration_since(at) > SignedDuration::from_hours(MAX_AHEAD_HOURS) {
        let message = format!("the reservation begins too late, at {start}");
        return Err(ApiError::new(ErrorCode::BadRequest, message)
            .hint("a reservation begins within a hundred years"));
    }
    if request.duration_s == 0 || request.duration_s > MAX_DURATION_S {
        let message = format!("a reservation lasts from 1 to {MAX_DURATION_S} seconds");
        return Err(ApiError::new(ErrorCode::BadRequest, message));
    }
    let length = Duration::from_secs(request.duration_s);
    let end =
        SignedDuration::try_from(length).ok().and_then(|length| start.checked_add(length).ok());
    let error = || ApiError::new(ErrorCode::BadRequest, "the reservation would never end");
    Ok((start, end.ok_or_else(error)?))
}
