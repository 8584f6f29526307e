//! A modelled rank: it posts descriptors to its node's engine, and computes when it is its turn.

use super::node::NodeModel;
use super::peer::Peer;
use crate::{BcsError, Collective, Group, Member, Outcome, Post, RequestId};
use bytes::Bytes;
use futures_util::future::{Either, select};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use storm_mpi::{Address, Context, Pattern, Rank, Source, Tag};
use storm_primitives::sim::SimRuntime;
use storm_primitives::{Instant, Runtime};

/// All messages are sent in one context with one tag.
const CONTEXT: Context = Context(0);
const TAG: Tag = Tag(0);

/// A rank of a modelled job.
pub struct ModelledRank {
    pub(super) member: Member,
    pub(super) world: Group,
    pub(super) pe: usize,
    pub(super) node: Rc<NodeModel>,
    pub(super) runtime: SimRuntime,
}

impl ModelledRank {
    /// Runs `program` on the rank's node until it ends or the node dies.
    pub fn run<F: Future<Output = ()> + 'static>(self, program: impl FnOnce(ModelledRank) -> F) {
        let (node, pe, member) = (self.node.clone(), self.pe, self.member);
        let runtime = self.runtime.clone();
        let program = program(self);
        let ended = async move {
            program.await;
            node.remove(pe, member);
        };
        runtime.spawn(ended).detach();
    }

    /// Takes part in a collective of all ranks, and waits for its end.
    ///
    /// # Errors
    /// [`BcsError`].
    pub async fn collective(&self, call: Collective) -> Result<Outcome, BcsError> {
        let request = self.post(Post::Collective { group: self.world.clone(), call })?;
        self.outcome(request).await
    }

    /// Receives a message and returns its bytes.
    ///
    /// # Errors
    /// [`BcsError`].
    pub async fn recv(&self, from: Rank, bytes: usize) -> Result<Vec<u8>, BcsError> {
        match self.outcome(self.irecv(from, bytes)?).await? {
            Outcome::Received { data, .. } | Outcome::Data(data) => Ok(data),
            Outcome::Done => Ok(Vec::new()),
        }
    }

    /// Gives up its processing element for good.
    pub fn leave(&self) {
        self.node.remove(self.pe, self.member);
    }

    /// Ends without notice, like a rank that a signal killed.
    pub fn die(&self) {
        self.node.engine.borrow_mut().rank_gone(self.member);
        self.node.nudge();
    }

    fn post(&self, post: Post) -> Result<RequestId, BcsError> {
        let posted = self.node.engine.borrow_mut().post(self.member, post);
        self.node.nudge();
        posted
    }

    async fn outcome(&self, request: RequestId) -> Result<Outcome, BcsError> {
        if let Some(outcome) = self.node.take_done(request) {
            return outcome;
        }
        self.node.waits(self.pe, self.member, request);
        loop {
            self.node.edge_after(self.node.edges()).await;
            if self.node.runs(self.pe, self.member)
                && let Some(outcome) = self.node.take_done(request)
            {
                return outcome;
            }
        }
    }

    async fn my_turn(&self) {
        while !self.node.runs(self.pe, self.member) {
            self.node.edge_after(self.node.edges()).await;
        }
    }
}

impl Peer for ModelledRank {
    type Request = RequestId;

    fn rank(&self) -> Rank {
        self.member.rank
    }

    fn now(&self) -> Instant {
        self.runtime.now()
    }

    fn isend(&self, to: Rank, data: Bytes) -> Result<RequestId, BcsError> {
        self.post(Post::Send { address: Address { to, context: CONTEXT, tag: TAG }, data })
    }

    fn irecv(&self, from: Rank, bytes: usize) -> Result<RequestId, BcsError> {
        let pattern = Pattern { context: CONTEXT, source: Source::Rank(from), tag: TAG.into() };
        self.post(Post::Recv { pattern, bytes })
    }

    async fn wait(&self, request: RequestId) -> Result<(), BcsError> {
        self.outcome(request).await.map(|_| ())
    }

    async fn compute(&self, work: Duration) {
        let mut left = work;
        while !left.is_zero() {
            self.my_turn().await;
            let began = self.now();
            let edge = pin!(self.node.edge_after(self.node.edges()));
            let end = pin!(self.runtime.sleep(left));
            match select(end, edge).await {
                Either::Left(_) => return,
                Either::Right(_) => left = left.saturating_sub(self.now() - began),
            }
        }
    }
}
