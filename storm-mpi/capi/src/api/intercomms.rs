//! Inter-communicators of two groups. The members of each group send to members of the other
//! (MPI-4.1, section 7.6).

use super::new_comm::{agreed, of};
use crate::abi::Out;
use crate::call::on;
use crate::comm::Comm;
use crate::fault::{Class, Fault, Outcome};
use crate::session::Session;
use crate::table::{COMM, Handle};
use std::ffi::c_int;
use storm_mpi::collective::{Between, Party, now};
use storm_mpi::comm::{
    ATTEMPTS, Choice, ContextId, ContextPool, FreeContexts, Group, Introduction, Refusal,
    chosen_together, keep_between, of_color,
};
use storm_mpi::{CommError, Rank};

/// Bytes of a place in messages of members.
const PLACE_BYTES: usize = size_of::<u32>();

/// A group that this process is in, with its place, and the other group.
type Sides = ((Group, usize), Group);

/// Makes an inter-communicator of some members of another. All members of the other call it. A
/// member that will not be in the new one gets a null handle.
pub(super) fn make(
    session: &Session,
    parent: &Comm,
    groups: Between<'_>,
    sides: Option<Sides>,
) -> Outcome<Handle> {
    let (both, me) = groups.both();
    let context = agreed(session, groups.party(&both, me))?;
    // If the other group is empty, no inter-communicator is made.
    let Some((members, others)) = sides.filter(|(_, others)| others.size() > 0) else {
        session.contexts.borrow_mut().give_back(context);
        return Ok(COMM.null());
    };
    session.add_comm(of(session, parent, context, members, None).with(others))
}

/// Makes inter-communicators of the members of both groups that chose the same.
pub(super) fn split(
    session: &Session,
    comm: &Comm,
    groups: Between<'_>,
    choice: Choice,
) -> Outcome<Handle> {
    let [ours, theirs] = now(groups.gathered(&choice.encode()))?.map(|told| {
        let (chunks, _) = told.as_chunks::<{ Choice::BYTES }>();
        chunks.iter().map(|&chunk| Choice::decode(chunk)).collect::<Vec<_>>()
    });
    let together = chosen_together(&ours, comm.me);
    let me = together.iter().position(|&place| place == comm.me);
    let at = |group: &Group, places: &[usize]| {
        Group::new(places.iter().map(|&place| group.members()[place]))
    };
    let others = choice.color.map_or_else(Vec::new, |color| of_color(&theirs, color));
    let sides = me.map(|me| ((at(&comm.group, &together), me), at(&comm.peers, &others)));
    make(session, comm, groups, sides)
}

/// Makes an inter-communicator of `group`, which all members of this side pass, and the other
/// side's group. The members of each group report their places in it.
pub(super) fn create(
    session: &Session,
    comm: &Comm,
    groups: Between<'_>,
    group: &Group,
) -> Outcome<Handle> {
    let me = group.position(session.process.rank());
    // One more than the place; 0 for a process outside of the group.
    let place = me.map_or(0, |me| me as u32 + 1);
    let [_, theirs] = now(groups.gathered(&place.to_le_bytes()))?;
    let (places, _) = theirs.as_chunks::<PLACE_BYTES>();
    let told = places.iter().zip(comm.peers.members());
    let mut others: Vec<_> =
        told.map(|(&place, &rank)| (u32::from_le_bytes(place), rank)).collect();
    others.retain(|(place, _)| *place > 0);
    others.sort_unstable();
    let others = Group::new(others.into_iter().map(|(_, rank)| rank));
    make(session, comm, groups, me.map(|me| ((group.clone(), me), others)))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_test_inter(comm: Handle, flag: Out<c_int>) -> c_int {
    on(comm, "MPI_Comm_test_inter", |_, comm| flag.set(c_int::from(comm.remote().is_some())))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_remote_size(comm: Handle, size: Out<c_int>) -> c_int {
    on(comm, "MPI_Comm_remote_size", |_, comm| size.set(comm.must_be_inter()?.size() as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_remote_group(comm: Handle, group: Out<Handle>) -> c_int {
    on(comm, "MPI_Comm_remote_group", |session, comm| {
        group.set(session.groups.borrow_mut().add(comm.must_be_inter()?.clone())?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Intercomm_create(
    local_comm: Handle,
    local_leader: c_int,
    peer_comm: Handle,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: Out<Handle>,
) -> c_int {
    on(local_comm, "MPI_Intercomm_create", |session, comm| {
        comm.must_be_intra()?;
        let leader = comm.member(local_leader)?;
        // A member with wrong arguments still takes part, because the others wait for it.
        let mine = newintercomm.set(COMM.null()).and(match tag {
            0.. => Ok(()),
            _ => Err(Fault::new(Class::Tag, format!("tag {tag}"))),
        });
        let failed = mine.as_ref().err().map(why);
        let has_threads = comm.party(&session.process).has_threads()?;
        let meeting = Meeting { session, comm, leader, peer_comm, remote_leader, tag, has_threads };
        let mut own = Some(mine);
        for attempt in 0..ATTEMPTS {
            let told = meeting.hold(own.take().unwrap_or(Ok(())), failed, attempt)?;
            let Introduction { context, others } = told;
            if !has_threads || meeting.keeps(context)? {
                let made = of(session, comm, context, (comm.group.clone(), comm.me), None);
                return newintercomm.set(session.add_comm(made.with(others))?);
            }
        }
        Err(CommError::NoContext.into())
    })
}

/// The meeting of two groups for an inter-communicator. The leaders exchange messages in the
/// context of the peer communicator's collectives, where every message is for a named member. The
/// tag separates meetings that several threads hold at the same time, so it counts only if there
/// are several threads.
struct Meeting<'a> {
    session: &'static Session,
    comm: &'a Comm,
    leader: usize,
    peer_comm: Handle,
    remote_leader: c_int,
    tag: c_int,
    has_threads: bool,
}

impl Meeting<'_> {
    /// Exchanges what each group knows. All members learn of this process's own mistake.
    fn hold(&self, mut own: Outcome, failed: Option<u16>, attempt: usize) -> Outcome<Introduction> {
        let members = || self.comm.party(&self.session.process);
        let free = ContextPool::free_at_all(&self.session.contexts, members())?;
        let mut came = None;
        if self.comm.me == self.leader {
            came = Some(match self.met((free, self.start(attempt)), failed) {
                Ok(outcome) => outcome,
                Err(fault) => {
                    let refusal = Err(Refusal::Leader(why(&fault)));
                    own = own.and(Err(fault));
                    refusal
                }
            });
        }
        let told = Introduction::share(members(), self.leader, came)?;
        own?;
        told.map_err(refused)
    }

    /// The number from which both leaders search for a context. If the same processes hold two
    /// meetings at the same time and must search again, they start from different numbers.
    fn start(&self, attempt: usize) -> usize {
        attempt * (self.tag.unsigned_abs() as usize % ATTEMPTS + 1)
    }

    fn met(
        &self,
        free: (FreeContexts, usize),
        failed: Option<u16>,
    ) -> Outcome<Result<Introduction, Refusal>> {
        let leaders = self.leaders()?;
        if leaders.iter().all(|&leader| self.comm.group.position(leader).is_some()) {
            return Ok(Err(Refusal::CommonMember));
        }
        let group = &self.comm.group;
        Ok(Introduction::of_leaders(self.party_of(&leaders)?, group, free, failed)?)
    }

    /// Whether the context is still free at all members of both groups. If so, it is reserved.
    fn keeps(&self, context: ContextId) -> Outcome<bool> {
        let leaders = if self.comm.me == self.leader { Some(self.leaders()?) } else { None };
        let leaders = leaders.as_ref().map(|leaders| self.party_of(leaders)).transpose()?;
        let group = (self.comm.party(&self.session.process), self.leader);
        Ok(keep_between(&self.session.contexts, context, group, leaders)?)
    }

    /// Both leaders, in order. Only a leader may call it.
    fn leaders(&self) -> Outcome<[Rank; 2]> {
        let peer = self.session.comm(self.peer_comm)?;
        let mut leaders = [self.session.process.rank(), peer.rank_in_job(self.remote_leader)?];
        leaders.sort_unstable();
        Ok(leaders)
    }

    fn party_of<'p>(&'p self, leaders: &'p [Rank; 2]) -> Outcome<Party<'p>> {
        let peer = self.session.comm(self.peer_comm)?;
        let me = usize::from(leaders[0] != self.session.process.rank());
        let context = peer.context().collective();
        let party = Party::new(&self.session.process, leaders, me, context).by_messages();
        Ok(if self.has_threads { party.apart(self.tag.unsigned_abs()) } else { party })
    }
}

/// The code by which a leader reports its fault.
fn why(fault: &Fault) -> u16 {
    fault.class.code() as u16
}

fn refused(refusal: Refusal) -> Fault {
    match refusal {
        Refusal::Leader(class) => {
            Fault::new(class_told(class), "the arguments of the group's leader are wrong")
        }
        Refusal::OtherLeader(class) => {
            Fault::new(class_told(class), "the arguments of the other group's leader are wrong")
        }
        Refusal::CommonMember => Fault::new(Class::Comm, "groups with a member in common"),
        Refusal::NoContext => CommError::NoContext.into(),
    }
}

fn class_told(class: u16) -> Class {
    Class::of(c_int::from(class)).unwrap_or(Class::Other)
}

/// Merges both groups. The group that claims to be the high one comes last. If both claim the same,
/// the group whose first member has the lower rank in the job comes first.
#[unsafe(no_mangle)]
extern "C" fn MPI_Intercomm_merge(
    intercomm: Handle,
    high: c_int,
    newintracomm: Out<Handle>,
) -> c_int {
    on(intercomm, "MPI_Intercomm_merge", |session, comm| {
        newintracomm.set(COMM.null())?;
        let remote = comm.must_be_inter()?;
        let groups = comm.between(&session.process).ok_or_else(|| refused(Refusal::NoContext))?;
        let [ours, theirs] = now(groups.gathered(&[u8::from(high != 0)]))?;
        let (both, me) = groups.both();
        let context = agreed(session, groups.party(&both, me))?;
        if [&ours, &theirs].iter().any(|told| told.windows(2).any(|two| two[0] != two[1])) {
            session.contexts.borrow_mut().give_back(context);
            return Err(Fault::new(Class::Arg, "members of one group that differ in what is high"));
        }
        let is_first = match (ours[comm.me], theirs.first()) {
            (high, Some(&other)) if high != other => other != 0,
            _ => me == comm.me,
        };
        let members = match is_first {
            true => (comm.group.union(remote), comm.me),
            false => (remote.union(&comm.group), remote.size() + comm.me),
        };
        newintracomm.set(session.add_comm(of(session, comm, context, members, None))?)
    })
}
