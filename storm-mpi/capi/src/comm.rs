//! Communicators: a context, a group, and the program's attributes and arrangements.

use crate::abi::{ANY_SOURCE, ANY_TAG, PROC_NULL};
use crate::fault::{Class, Fault, Outcome};
use crate::table::{COMM, Handle};
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::rc::Rc;
use storm_mpi::collective::{Between, Party, Turn};
use storm_mpi::comm::{Cartesian, ContextId, ContextPool, Graph, Group};
use storm_mpi::{Address, Pattern, Process, Rank, Source, Tag, TagPattern};

/// The program's arrangement of the members.
#[derive(Clone)]
pub(crate) enum Topology {
    Grid(Cartesian),
    Graph(Rc<Graph>),
    Fixed(Rc<FixedGraph>),
}

/// A graph in which every member knows all edges, in the program's form.
pub(crate) struct FixedGraph {
    /// The end of each member's edges in `edges`.
    pub(crate) index: Vec<c_int>,
    /// The members that the edges lead to.
    pub(crate) edges: Vec<c_int>,
}

impl FixedGraph {
    /// The members that a member's edges lead to.
    pub(crate) fn neighbours(&self, member: usize) -> &[c_int] {
        let end = |member: usize| self.index.get(member).map_or(0, |&end| end as usize);
        let start = member.checked_sub(1).map_or(0, end);
        self.edges.get(start..end(member)).unwrap_or_default()
    }
}

/// A communicator. The handle and the requests on it share ownership. The context is used again
/// only when nothing communicates under it any more.
pub(crate) struct Comm {
    context: Cell<ContextId>,
    /// Its own handle, for error handlers and attributes.
    pub(crate) handle: Cell<Handle>,
    /// The members; of an inter-communicator, the members of this process's group.
    pub(crate) group: Group,
    /// This process's place in the group.
    pub(crate) me: usize,
    /// The senders and receivers of messages: the members, or the members of the other group.
    pub(crate) peers: Group,
    /// Whether the peers are another group.
    is_inter: bool,
    pub(crate) topology: Option<Topology>,
    pub(crate) errhandler: Cell<Handle>,
    pub(crate) name: RefCell<String>,
    /// Attributes of the program: key, and the address it stored.
    pub(crate) attributes: RefCell<Vec<(Handle, usize)>>,
    /// The latest turn of its collectives in the background.
    turn: Cell<Turn>,
    pool: Rc<RefCell<ContextPool>>,
}

impl Comm {
    pub(crate) fn new(
        context: ContextId,
        group: Group,
        me: usize,
        topology: Option<Topology>,
        errhandler: Handle,
        pool: &Rc<RefCell<ContextPool>>,
    ) -> Self {
        Comm {
            context: Cell::new(context),
            handle: Cell::new(COMM.null()),
            peers: group.clone(),
            is_inter: false,
            group,
            me,
            topology,
            errhandler: Cell::new(errhandler),
            name: RefCell::default(),
            attributes: RefCell::default(),
            turn: Cell::default(),
            pool: Rc::clone(pool),
        }
    }

    /// The communicator as an inter-communicator, for messages to the members of another group.
    pub(crate) fn with(mut self, others: Group) -> Self {
        (self.peers, self.is_inter) = (others, true);
        self
    }

    #[inline]
    pub(crate) fn context(&self) -> ContextId {
        self.context.get()
    }

    /// Sets the context that the members have agreed on, for a communicator that was made without.
    pub(crate) fn set_context(&self, context: ContextId) {
        self.context.set(context);
    }

    pub(crate) fn size(&self) -> usize {
        self.group.size()
    }

    /// The other group of an inter-communicator.
    pub(crate) fn remote(&self) -> Option<&Group> {
        self.is_inter.then_some(&self.peers)
    }

    /// The other group; a fault if there is none.
    pub(crate) fn must_be_inter(&self) -> Outcome<&Group> {
        self.remote().ok_or_else(|| Fault::new(Class::Comm, "no inter-communicator"))
    }

    /// Refuses an inter-communicator.
    pub(crate) fn must_be_intra(&self) -> Outcome {
        match self.is_inter {
            true => Err(Fault::new(Class::Comm, "inter-communicator where it means nothing")),
            false => Ok(()),
        }
    }

    /// The two groups of an inter-communicator, for a collective.
    pub(crate) fn between<'a>(&'a self, process: &'a Process) -> Option<Between<'a>> {
        let (local, remote) = (self.group.members(), self.remote()?.members());
        Some(Between::new(process, local, remote, self.me, self.context().collective()))
    }

    /// The grid of the members; a fault if there is none.
    pub(crate) fn grid(&self) -> Outcome<&Cartesian> {
        match &self.topology {
            Some(Topology::Grid(grid)) => Ok(grid),
            Some(Topology::Graph(_) | Topology::Fixed(_)) | None => Err(Self::without("grid")),
        }
    }

    /// The graph of the members; a fault if there is none.
    pub(crate) fn graph(&self) -> Outcome<&Graph> {
        match &self.topology {
            Some(Topology::Graph(graph)) => Ok(graph),
            Some(Topology::Grid(_) | Topology::Fixed(_)) | None => Err(Self::without("graph")),
        }
    }

    /// The MPI-1 graph of the members; a fault if there is none.
    pub(crate) fn fixed_graph(&self) -> Outcome<&FixedGraph> {
        match &self.topology {
            Some(Topology::Fixed(graph)) => Ok(graph),
            Some(Topology::Grid(_) | Topology::Graph(_)) | None => {
                Err(Self::without("graph of MPI-1"))
            }
        }
    }

    pub(crate) fn without(what: &str) -> Fault {
        Fault::new(Class::Topology, format!("communicator without a {what}"))
    }

    /// All members, for a collective of one group.
    pub(crate) fn party<'a>(&'a self, process: &'a Process) -> Party<'a> {
        Party::new(process, self.group.members(), self.me, self.context().collective())
    }

    /// The turn of the next collective in the background. All members count alike.
    pub(crate) fn next_turn(&self) -> Turn {
        let turn = self.turn.get().next();
        self.turn.set(turn);
        turn
    }

    /// Gives back the turn that was taken last, for a collective that no other member has heard of.
    pub(crate) fn give_turn_back(&self, before: Turn) {
        self.turn.set(before);
    }

    /// The turn of the latest collective in the background.
    pub(crate) fn last_turn(&self) -> Turn {
        self.turn.get()
    }

    /// The address of a message to `dest`; `None` for `MPI_PROC_NULL`.
    #[inline]
    pub(crate) fn address(&self, dest: c_int, tag: c_int) -> Outcome<Option<Address>> {
        if tag < 0 {
            return Err(Fault::new(Class::Tag, format!("tag {tag}")));
        }
        if dest == PROC_NULL {
            return Ok(None);
        }
        let (to, context) = (self.rank_in_job(dest)?, self.context().point_to_point());
        Ok(Some(Address { to, context, tag: Tag(tag) }))
    }

    /// The pattern of a receive from `source`; `None` for `MPI_PROC_NULL`.
    #[inline]
    pub(crate) fn pattern(&self, source: c_int, tag: c_int) -> Outcome<Option<Pattern>> {
        let tag = match tag {
            ANY_TAG => TagPattern::Any,
            tag if tag >= 0 => TagPattern::Tag(Tag(tag)),
            _ => return Err(Fault::new(Class::Tag, format!("tag {tag}"))),
        };
        let source = match source {
            PROC_NULL => return Ok(None),
            ANY_SOURCE => Source::Any,
            source => Source::Rank(self.rank_in_job(source)?),
        };
        Ok(Some(Pattern { context: self.context().point_to_point(), source, tag }))
    }

    /// A member's place by its number in C.
    pub(crate) fn member(&self, rank: c_int) -> Outcome<usize> {
        let place = usize::try_from(rank).ok().filter(|&place| place < self.size());
        let wrong = || format!("rank {rank} in a communicator of {}", self.size());
        place.ok_or_else(|| Fault::new(Class::Rank, wrong()))
    }

    /// Like [`Comm::member`], for the root of a collective.
    pub(crate) fn root(&self, root: c_int) -> Outcome<usize> {
        self.member(root).map_err(|fault| Fault { class: Class::Root, ..fault })
    }

    /// The number in C of a sender.
    pub(crate) fn rank_here(&self, rank: Rank) -> c_int {
        self.peers.position(rank).map_or(PROC_NULL, |place| place as c_int)
    }

    #[inline]
    pub(crate) fn rank_in_job(&self, rank: c_int) -> Outcome<Rank> {
        let place = usize::try_from(rank).ok();
        let peer = place.and_then(|place| self.peers.members().get(place)).copied();
        peer.ok_or_else(|| self.no_such(Class::Rank, rank))
    }

    /// The fault for a number that no peer has.
    pub(crate) fn no_such(&self, class: Class, rank: c_int) -> Fault {
        let whose = if self.is_inter { "the other group" } else { "a communicator" };
        Fault::new(class, format!("rank {rank} in {whose} of {}", self.peers.size()))
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        self.pool.borrow_mut().give_back(self.context());
    }
}
