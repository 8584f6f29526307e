//! The Strobe Sender, on the management node: leads every node through the microphases of each slice.

use crate::{BcsError, Phase, Plan, Strobe};
use futures_util::future::{Either, select};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use storm_primitives::{
    CompareAndWrite, Instant, NodeId, NodeSet, PrimitiveError, Primitives, Relation, Runtime, Xfer,
};

/// The end of a slice: no byte of any job is on the way, so what the nodes have in memory is the whole
/// state of every job until the next slice begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The slice that is over.
    pub slice: u64,
    /// The nodes that took part.
    pub nodes: NodeSet,
    /// From its first strobe until the network was known to be empty.
    pub took: Duration,
    /// By how much it ended after the next one had to begin.
    pub late: Duration,
    /// Nobody had anything for it: there need not be another before somebody has news, which
    /// [`StrobeSender::rest`] waits for.
    pub empty: bool,
}

/// Strobes the nodes.
#[derive(Debug)]
pub struct StrobeSender<P: Primitives> {
    network: P,
    plan: Plan,
    nodes: NodeSet,
    slice: u64,
    length: Duration,
    /// The last slice with messages had collectives, too.
    had_collectives: bool,
    /// When the next slice begins.
    due: Instant,
    pace: Pace,
    /// A node has told of news for the slice under way.
    wanted: bool,
}

/// How long a microphase in which something moves takes, by microphase: it is not asked earlier whether
/// it is over, as a question that is answered no costs as much as another and holds up what moves.
#[derive(Clone, Copy, Debug, Default)]
struct Pace([Duration; Phase::ALL.len()]);

impl Pace {
    /// One of so many questions is to be answered no: then the time is as short as may be.
    const ASKED_IN_VAIN: u32 = 8;

    fn of(&self, phase: Phase) -> Duration {
        self.0[phase as usize]
    }

    /// It was over at this time after the strobe, when it was asked for the first time or for a later.
    fn learn(&mut self, phase: Phase, over: Duration, first: bool, most: Duration) {
        let pace = &mut self.0[phase as usize];
        *pace = if first { *pace - *pace / Self::ASKED_IN_VAIN } else { (*pace + over) / 2 };
        *pace = (*pace).min(most);
    }
}

impl<P: Primitives> StrobeSender<P> {
    /// For these nodes, the first slice now.
    pub fn new(network: P, plan: Plan, nodes: NodeSet) -> StrobeSender<P> {
        let due = network.runtime().now();
        let length = plan.config.slice;
        let (had_collectives, wanted, pace) = (false, true, Pace::default());
        StrobeSender { network, plan, nodes, slice: 0, length, had_collectives, due, pace, wanted }
    }

    /// From the next slice on: these nodes, slices of this length. Numbers go on.
    pub fn lead(&mut self, nodes: NodeSet, length: Duration) {
        (self.nodes, self.length) = (nodes, length);
    }

    /// There was a pause: the next slice begins at the next edge of those that there would have been.
    pub fn resume(&mut self) {
        self.due = next_edge(self.due, self.length, self.network.runtime().now());
    }

    /// After a slice that nobody had anything for: waits until a node has news since then, for
    /// [`BcsConfig::rest`](crate::BcsConfig::rest) at most. The next slice begins at the next edge. Who stops
    /// to wait says [`resume`](Self::resume).
    ///
    /// # Errors
    /// [`BcsError::Network`] when this node is cut off.
    pub async fn rest(&mut self) -> Result<(), BcsError> {
        let limit = self.due + self.plan.config.rest;
        let limit = pin!(self.network.runtime().sleep_until(limit));
        let heard = match select(pin!(self.news()), limit).await {
            Either::Left((heard, _)) => heard,
            Either::Right(_) => Ok(()),
        };
        self.wanted = self.has_news();
        self.resume();
        heard
    }

    /// Waits until a node has news since the last slice.
    async fn news(&self) -> Result<(), BcsError> {
        let mut told = self.network.await_event(self.plan.told);
        poll_fn(|cx| {
            // Whoever else leads nodes of his own is woken by the same signals, and looks himself.
            while let Poll::Ready(signal) = Pin::new(&mut told).poll(cx) {
                if let Err(error) = signal {
                    return Poll::Ready(Err(BcsError::Network(error)));
                }
            }
            if self.has_news() { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await
    }

    /// Whether a node has told of news since the last slice.
    fn has_news(&self) -> bool {
        let since = |node: NodeId| self.network.memory().load(self.plan.news(node));
        self.nodes.iter().any(|node| since(node) >= self.slice)
    }

    /// Waits for the next slice's time and carries it out. Until it is called again, nothing
    /// moves: who wants to keep the state of the jobs does it between.
    ///
    /// # Errors
    /// [`BcsError::NobodyLeft`], [`BcsError::NotEmpty`], [`BcsError::Network`] where it is this node
    /// that is cut off. Nodes that die are left out from then on.
    pub async fn slice(&mut self) -> Result<Checkpoint, BcsError> {
        let runtime = self.network.runtime().clone();
        runtime.sleep_until(self.due).await;
        self.slice += 1;
        let began = runtime.now();
        let mut phase = self.microphase(Phase::DescriptorExchange).await?;
        let empty = phase.is_none();
        self.wanted = !empty;
        while let Some(now) = phase {
            phase = self.microphase(now).await?;
        }
        // Slices that a late one ran into do not happen: nodes skip them, they do not catch up. Ranks
        // compute between slices, and have as much time as one that was late took.
        let length = self.length;
        let end = self.due + length;
        let now = runtime.now();
        let late = now.saturating_since(end);
        self.due =
            if late.is_zero() { end } else { next_edge(self.due, length, now + (now - began)) };
        let (slice, nodes, took) = (self.slice, self.nodes.clone(), now - began);
        Ok(Checkpoint { slice, nodes, took, late, empty })
    }

    /// Strobes one microphase and returns when it is over everywhere, with the one that comes next. A
    /// microphase that no node has anything to do in does not; `None` when there is nothing to do in the
    /// rest of the slice, and nothing on the way: nodes hear so with the next slice.
    async fn microphase(&mut self, phase: Phase) -> Result<Option<Phase>, BcsError> {
        let strobe = Strobe { slice: self.slice, phase };
        let word = strobe.to_word();
        self.strobe(word).await?;
        let runtime = self.network.runtime().clone();
        let (strobed, mut first) = (runtime.now(), true);
        // Where nobody is known to have anything, there is nothing to wait for.
        if phase != Phase::DescriptorExchange || self.wanted {
            runtime.sleep_until(strobed + self.pace.of(phase)).await;
        }
        loop {
            let asked = runtime.now();
            let answer = self.first_true(strobe).await;
            if let Ok(Some(_)) = answer {
                self.pace.learn(phase, asked - strobed, first, self.length / 4);
            }
            first = false;
            match answer {
                Ok(Some((Question::Empty, _))) => return Ok(None),
                Ok(Some((question, Some(next)))) => {
                    if strobe.phase == Phase::PointToPoint {
                        self.had_collectives = question == Question::Done;
                    }
                    return Ok(Some(next));
                }
                // All are done with the last one, and bytes are on the way; or they have become done since
                // they were asked for both.
                Ok(Some((_, None))) => match self.ask(Question::Empty, word).await {
                    Ok(true) => return Ok(None),
                    Ok(false) => {
                        let nodes = self.nodes.clone();
                        return Err(BcsError::NotEmpty { slice: self.slice, nodes });
                    }
                    Err(error) => self.leave_out(error)?,
                },
                Ok(None) => runtime.sleep(self.plan.config.poll).await,
                Err(error) => {
                    self.leave_out(error)?;
                    // Of a set with a dead node nobody was strobed.
                    self.strobe(word).await?;
                }
            }
        }
    }

    /// The first question to which all nodes say yes, and the microphase that follows then.
    async fn first_true(
        &self,
        strobe: Strobe,
    ) -> Result<Option<(Question, Option<Phase>)>, PrimitiveError> {
        for (question, next) in questions(strobe.phase, self.had_collectives) {
            if self.ask(*question, strobe.to_word()).await? {
                return Ok(Some((*question, *next)));
            }
        }
        Ok(None)
    }

    /// Strobes all nodes, and waits until all are: a question that overtook their work would be asked
    /// in vain.
    async fn strobe(&mut self, word: u64) -> Result<(), BcsError> {
        loop {
            let (nodes, addr) = (self.nodes.clone(), self.plan.strobe.addr());
            let strobe = Xfer::new(nodes, addr, word.to_ne_bytes().to_vec());
            let strobe = strobe.signal_remote(self.plan.strobed);
            match self.network.xfer_and_wait(strobe).await {
                Ok(()) => return Ok(()),
                Err(error) => self.leave_out(error)?,
            }
        }
    }

    /// Asks all nodes whether it is so of the microphase with this word.
    async fn ask(&self, question: Question, word: u64) -> Result<bool, PrimitiveError> {
        let (plan, nodes) = (&self.plan, self.nodes.clone());
        let var = match question {
            Question::Done => plan.phase_done,
            Question::Skip => plan.skip,
            Question::Empty => plan.empty,
        };
        let ask = CompareAndWrite::new(nodes, var, Relation::GreaterOrEqual, word);
        self.network.compare_and_write(ask).await
    }

    fn leave_out(&mut self, error: PrimitiveError) -> Result<(), BcsError> {
        match error {
            PrimitiveError::NodesDead { nodes } => {
                tracing::warn!(%nodes, slice = self.slice, "left out of the slices: dead");
                self.nodes = self.nodes.difference(&nodes);
                if self.nodes.is_empty() { Err(BcsError::NobodyLeft) } else { Ok(()) }
            }
            PrimitiveError::TimedOut { .. } => Ok(()),
            PrimitiveError::Disconnected
            | PrimitiveError::OutOfBounds(_)
            | PrimitiveError::Misaligned { .. }
            | PrimitiveError::UnknownEvent { .. } => Err(BcsError::Network(error)),
        }
    }
}

/// What is asked of all nodes in a microphase, and so what they publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// Are you done with it?
    Done,
    /// And have you nothing to do in what follows?
    Skip,
    /// And nothing in the rest of the slice, and nothing on the way?
    Empty,
}

/// What is asked in a microphase, in order, and what follows when it is so. Whether there are only
/// collectives is asked for where there were some.
fn questions(phase: Phase, collectives: bool) -> &'static [(Question, Option<Phase>)] {
    match phase {
        Phase::DescriptorExchange => {
            &[(Question::Empty, None), (Question::Done, Some(Phase::MessageScheduling))]
        }
        Phase::MessageScheduling if collectives => &[
            (Question::Skip, Some(Phase::BroadcastAndBarrier)),
            (Question::Done, Some(Phase::PointToPoint)),
        ],
        Phase::MessageScheduling => &[(Question::Done, Some(Phase::PointToPoint))],
        Phase::PointToPoint => &[
            (Question::Skip, Some(Phase::SliceEnd)),
            (Question::Done, Some(Phase::BroadcastAndBarrier)),
        ],
        Phase::BroadcastAndBarrier => {
            &[(Question::Empty, None), (Question::Done, Some(Phase::Reduce))]
        }
        Phase::Reduce => &[(Question::Done, Some(Phase::SliceEnd))],
        Phase::SliceEnd => &[(Question::Empty, None), (Question::Done, None)],
    }
}

/// The first edge from `now` on, of slices of which one began at `due`.
fn next_edge(due: Instant, length: Duration, now: Instant) -> Instant {
    let length_ns = length.as_nanos().max(1);
    let gone_ns = now.saturating_since(due).as_nanos().div_ceil(length_ns) * length_ns;
    due + Duration::from_nanos(u64::try_from(gone_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BcsConfig;
    use storm_primitives::sim::{SimNetwork, Simulation};
    use storm_primitives::{Layout, NodeId};

    /// A node that is always done, and says at the end of slice 3 that so many bytes are on the way.
    async fn answer<P: Primitives>(network: P, plan: Plan, on_the_way: u64) {
        while network.await_event(plan.strobed).await.is_ok() {
            let word = network.memory().load(plan.strobe);
            let last = Strobe::from_word(word).is_some_and(|strobe| strobe.slice == 3);
            if !last || on_the_way == 0 {
                network.memory().store(plan.empty, word);
            }
            network.memory().store(plan.phase_done, word);
        }
    }

    #[test]
    fn a_slice_that_ends_with_bytes_on_the_way_is_the_last() {
        let mut layout = Layout::builder();
        let plan = Plan::new(&mut layout, 2, BcsConfig::default());
        let simulation = Simulation::new(1);
        let network = SimNetwork::new(&simulation, 2, &layout.build(), Default::default());
        for (node, on_the_way) in [(NodeId(1), 0), (NodeId(2), 8)] {
            let here = network.node(node);
            here.runtime().spawn(answer(here.clone(), plan, on_the_way)).detach();
        }
        let nodes = NodeSet::compute(2);
        let mut sender = StrobeSender::new(network.node(NodeId::MM), plan, nodes.clone());
        let ended = simulation.run(async move {
            assert_eq!(sender.slice().await.map(|checkpoint| checkpoint.slice), Ok(1));
            assert_eq!(sender.slice().await.map(|checkpoint| checkpoint.slice), Ok(2));
            sender.slice().await
        });
        assert_eq!(ended, Ok(Err(BcsError::NotEmpty { slice: 3, nodes })));
    }

    #[test]
    fn questions_wait_for_what_a_microphase_takes_and_not_for_ever() {
        let (mut pace, phase) = (Pace::default(), Phase::PointToPoint);
        let us = Duration::from_micros;
        for _ in 0..200 {
            // It takes 40 us, and an answer 10.
            let (mut asked, mut first) = (pace.of(phase), true);
            while asked < us(40) {
                (asked, first) = (asked + us(10), false);
            }
            pace.learn(phase, asked, first, us(125));
            assert!(pace.of(phase) <= us(50), "{pace:?}");
        }
        assert!(pace.of(phase) > us(25), "{pace:?}");
        pace.learn(phase, us(10_000), false, us(125));
        assert_eq!(pace.of(phase), us(125));
        assert_eq!(pace.of(Phase::Reduce), Duration::ZERO);
        (0..400).for_each(|_| pace.learn(phase, us(0), true, us(125)));
        assert!(pace.of(phase) < us(1), "{pace:?}");
    }

    #[test]
    fn slices_that_a_late_one_ran_into_are_skipped() {
        let (length, at) = (Duration::from_micros(500), |us: u64| Instant::from_nanos(us * 1000));
        assert_eq!(next_edge(at(1000), length, at(1501)), at(2000));
        assert_eq!(next_edge(at(1000), length, at(2000)), at(2000));
        assert_eq!(next_edge(at(1000), length, at(3999)), at(4000));
        // Days of 500 us, and an edge that is to come.
        assert_eq!(
            next_edge(at(1000), length, at(86_400_000_000 * 40 + 1)),
            at(86_400_000_000 * 40 + 500)
        );
        assert_eq!(next_edge(at(1000), length, at(10)), at(1000));
    }
}
