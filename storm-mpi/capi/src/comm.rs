//! Communicators: a context, a group, and the program's attributes and arrangements.

use crate::abi::constants::PROC_NULL;
use crate::handle::{COMM, Handle};
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::rc::Rc;
use storm_mpi::collective::{Between, Party, Turn};
use storm_mpi::comm::{Cartesian, ContextId, ContextPool, Graph, Group};
use storm_mpi::{Process, Rank};

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

/// A communicator. The handle and the requests on it share ownership. The context is reused only
/// when no communication under it is left.
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

    /// The two groups of an inter-communicator, for a collective.
    pub(crate) fn between<'a>(&'a self, process: &'a Process) -> Option<Between<'a>> {
        let (local, remote) = (self.group.members(), self.remote()?.members());
        Some(Between::new(process, local, remote, self.me, self.context().collective()))
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

    /// Returns the turn that was taken last, for a collective that no other member knows of.
    pub(crate) fn give_turn_back(&self, before: Turn) {
        self.turn.set(before);
    }

    /// The turn of the latest collective in the background.
    pub(crate) fn last_turn(&self) -> Turn {
        self.turn.get()
    }

    /// The number in C of a sender.
    pub(crate) fn rank_here(&self, rank: Rank) -> c_int {
        self.peers.position(rank).map_or(PROC_NULL, |place| place as c_int)
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        self.pool.borrow_mut().give_back(self.context());
    }
}
