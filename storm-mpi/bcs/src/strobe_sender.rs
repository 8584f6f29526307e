//! The Strobe Sender, on the management node: leads every node through the microphases of each slice.
//!
//! A microphase begins with a strobe and is over when all nodes say so, which they are asked. Where nodes
//! need not wait for what they send ([`Primitives::precedes_own_stores`]), they are asked in the same breath
//! as strobed, all that may be asked: a microphase is one journey to all nodes and back then
//! ([decision 0096](../../../docs/decisions/0096-a-microphase-is-one-journey.md)).

use crate::pace::Pace;
use crate::{BcsError, Phase, Plan, Strobe};
use futures_util::future::{Either, join, join_all, select};
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
    /// Nobody had anything for it.
    pub empty: bool,
    /// Nobody has anything for the next one: there need not be another before somebody has news, which
    /// [`StrobeSender::rest`] waits for. What was done in this one ranks hear when it would begin.
    pub rests: bool,
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
    /// Nodes need not wait for what they send: they are asked as soon as they are strobed.
    at_once: bool,
    /// A node has told of news for the slice under way.
    wanted: bool,
    /// Nobody has anything for a slice after the one under way.
    rests: bool,
}

impl<P: Primitives> StrobeSender<P> {
    /// For these nodes, the first slice now.
    pub fn new(network: P, plan: Plan, nodes: NodeSet) -> StrobeSender<P> {
        let due = network.runtime().now();
        let length = plan.config.slice;
        StrobeSender {
            network,
            plan,
            nodes,
            slice: 0,
            length,
            had_collectives: false,
            due,
            pace: Pace::default(),
            at_once: false,
            wanted: true,
            rests: false,
        }
    }

    /// From the next slice on: these nodes, slices of this length. Numbers go on.
    pub fn lead(&mut self, nodes: NodeSet, length: Duration) {
        (self.nodes, self.length) = (nodes, length);
    }

    /// There was a pause: the next slice begins at the next edge of those that there would have been.
    pub fn resume(&mut self) {
        self.due = next_edge(self.due, self.length, self.network.runtime().now());
    }

    /// After a slice after which nobody has anything for another: waits until a node has news since then, for
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
        // A network that it is true of may have to wait for something else now and then.
        self.at_once |= self.network.precedes_own_stores();
        let began = runtime.now();
        let mut phase = self.microphase(Phase::DescriptorExchange).await?;
        let empty = phase.is_none();
        self.rests = empty;
        while let Some(now) = phase {
            phase = self.microphase(now).await?;
        }
        self.wanted = !self.rests;
        // Slices that a late one ran into do not happen: nodes skip them, they do not catch up. Ranks
        // compute between slices, after one that was late for as long as it was: so one that was late by
        // little delays little, and when each takes much longer than it may, half of the time is theirs.
        let end = self.due + self.length;
        let now = runtime.now();
        let (late, took) = (now.saturating_since(end), now - began);
        // One that began late has left them that time before.
        self.due = if late.is_zero() { end } else { now + late.min(took) };
        let (slice, nodes) = (self.slice, self.nodes.clone());
        Ok(Checkpoint { slice, nodes, took, late, empty, rests: self.rests })
    }

    /// Strobes one microphase and returns when it is over everywhere, with the one that comes next. A
    /// microphase that no node has anything to do in does not; `None` when there is nothing to do in the
    /// rest of the slice, and nothing on the way: nodes hear so with the next slice.
    async fn microphase(&mut self, phase: Phase) -> Result<Option<Phase>, BcsError> {
        let strobe = Strobe { slice: self.slice, phase };
        let word = strobe.to_word();
        let mut along = self.strobe(strobe).await?;
        let (strobed, mut first) = (self.network.runtime().now(), true);
        loop {
            let came_along = along.is_some();
            let answer = match along.take() {
                Some(answer) => answer,
                None => self.ask_later(strobe, strobed, std::mem::take(&mut first)).await,
            };
            match answer {
                Ok(Some((Question::Empty, _))) => return Ok(None),
                Ok(Some((Question::Skip, None))) => {
                    self.rests = true;
                    return Ok(None);
                }
                Ok(Some((question, Some(next)))) => {
                    if strobe.phase == Phase::PointToPoint {
                        self.had_collectives = question == Question::Done;
                    }
                    return Ok(Some(next));
                }
                // All are done with the last one, and bytes are on the way; or they have become done since
                // they were asked for both.
                Ok(Some((Question::Done, None))) => match self.ask(Question::Empty, word).await {
                    Ok(true) => return Ok(None),
                    Ok(false) => {
                        let nodes = self.nodes.clone();
                        return Err(BcsError::NotEmpty { slice: self.slice, nodes });
                    }
                    Err(error) => self.leave_out(error)?,
                },
                Ok(None) if came_along => {}
                Ok(None) => self.network.runtime().sleep(self.plan.config.poll).await,
                Err(error) => {
                    self.leave_out(error)?;
                    // Of a set with a dead node nobody was strobed.
                    along = self.strobe(strobe).await?;
                }
            }
        }
    }

    /// Asks what may be asked of a microphase; the first time not before it is likely to be over.
    async fn ask_later(&mut self, strobe: Strobe, strobed: Instant, first: bool) -> Answer {
        let runtime = self.network.runtime().clone();
        // Where nobody is known to have anything, there is nothing to wait for.
        if first && (strobe.phase != Phase::DescriptorExchange || self.wanted) {
            runtime.sleep_until(strobed + self.pace.of(strobe.phase)).await;
        }
        let asked = runtime.now();
        let answer = self.first_true(strobe).await;
        if let Ok(Some(_)) = answer {
            self.pace.learn(strobe.phase, asked - strobed, first, self.length / 4);
        }
        answer
    }

    /// The first question to which all nodes say yes, and the microphase that follows then.
    async fn first_true(&self, strobe: Strobe) -> Answer {
        if self.at_once {
            return self.all_at_once(strobe).await;
        }
        let mut rests = false;
        for (question, next) in questions(strobe.phase, self.had_collectives) {
            if self.ask(*question, strobe.to_word()).await?
                && let Some(yes) = taken(*question, *next, &mut rests)
            {
                return Ok(Some(yes));
            }
        }
        Ok(None)
    }

    /// The same for the journey of one.
    async fn all_at_once(&self, strobe: Strobe) -> Answer {
        let questions = questions(strobe.phase, self.had_collectives);
        let ask = |(question, _): &(Question, _)| self.ask(*question, strobe.to_word());
        let answers = join_all(questions.iter().map(ask)).await;
        let mut rests = false;
        for ((question, next), answer) in questions.iter().zip(answers) {
            if answer? && let Some(yes) = taken(*question, *next, &mut rests) {
                return Ok(Some(yes));
            }
        }
        Ok(None)
    }

    /// Strobes all nodes, and waits until all are: a question that overtook their work would be asked in
    /// vain. Where their work is done when they are strobed, what was asked behind the strobe is answered.
    async fn strobe(&mut self, strobe: Strobe) -> Result<Option<Answer>, BcsError> {
        loop {
            let (nodes, addr) = (self.nodes.clone(), self.plan.strobe().addr());
            let length_ns = u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX);
            let words = [strobe.to_word(), length_ns].map(u64::to_ne_bytes).concat();
            let xfer = Xfer::new(nodes, addr, words).signal_remote(self.plan.strobed);
            let strobed = self.network.xfer_and_wait(xfer);
            let (strobed, answer) = if self.at_once {
                // Both are issued when they are first polled, in this order.
                let (strobed, answer) = join(strobed, self.all_at_once(strobe)).await;
                (strobed, Some(answer))
            } else {
                (strobed.await, None)
            };
            match strobed {
                Ok(()) => return Ok(answer),
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

/// The first question that was answered yes, if any was, and the microphase that follows then.
type Answer = Result<Option<(Question, Option<Phase>)>, PrimitiveError>;

/// What is asked of all nodes in a microphase, and so what they publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// Are you done with it?
    Done,
    /// And have you nothing to do in what follows? Where nothing does: in the next slice?
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
        Phase::BroadcastAndBarrier => &[
            (Question::Skip, None),
            (Question::Empty, None),
            (Question::Done, Some(Phase::Reduce)),
        ],
        Phase::Reduce => &[(Question::Done, Some(Phase::SliceEnd))],
        Phase::SliceEnd => {
            &[(Question::Skip, None), (Question::Empty, None), (Question::Done, None)]
        }
    }
}

/// What an answer that is yes decides. That nobody has anything for the next slice decides nothing by itself,
/// but says of a slice that has ended empty that there need not be another: then it stands for both.
fn taken(
    question: Question,
    next: Option<Phase>,
    rests: &mut bool,
) -> Option<(Question, Option<Phase>)> {
    match (question, next) {
        (Question::Skip, None) => {
            *rests = true;
            None
        }
        (Question::Empty, None) if *rests => Some((Question::Skip, None)),
        other => Some(other),
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

    /// So many nodes, simulated.
    fn machine(nodes: u32) -> (Plan, Simulation, SimNetwork) {
        let mut layout = Layout::builder();
        let plan = Plan::new(&mut layout, nodes, BcsConfig::default());
        let simulation = Simulation::new(1);
        let network = SimNetwork::new(&simulation, nodes, &layout.build(), Default::default());
        (plan, simulation, network)
    }

    /// A node that is always done, and says at the end of slice 3 that so many bytes are on the way.
    async fn answer<P: Primitives>(network: P, plan: Plan, on_the_way: u64) {
        while network.await_event(plan.strobed).await.is_ok() {
            let word = network.memory().load(plan.strobe());
            let last = Strobe::from_word(word).is_some_and(|strobe| strobe.slice == 3);
            if !last || on_the_way == 0 {
                network.memory().store(plan.empty, word);
            }
            network.memory().store(plan.phase_done, word);
        }
    }

    #[test]
    fn a_slice_that_ends_with_bytes_on_the_way_is_the_last() {
        let (plan, simulation, network) = machine(2);
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

    /// One that took 510 us of 500 had the next begin 1500 us after it.
    #[test]
    fn a_slice_that_is_late_delays_the_next_by_as_much_and_no_more() {
        let (plan, simulation, network) = machine(1);
        let (manager, here) = (network.node(NodeId::MM), network.node(NodeId(1)));
        let slow = async move {
            while here.await_event(plan.strobed).await.is_ok() {
                let word = here.memory().load(plan.strobe());
                if Strobe::from_word(word).is_some_and(|strobe| strobe.slice == 2) {
                    here.runtime().sleep(plan.config.slice * 51 / 50).await;
                }
                here.memory().store(plan.empty, word);
            }
        };
        manager.runtime().spawn(slow).detach();
        let mut sender = StrobeSender::new(manager.clone(), plan, NodeSet::compute(1));
        let ended = simulation.run(async move {
            let mut slices = Vec::new();
            for _ in 1..=4 {
                let slice = sender.slice().await.expect("ends empty");
                let began = manager.runtime().now().since_origin() - slice.took;
                slices.push((began, slice.took, slice.late));
            }
            slices
        });
        let slices = ended.expect("no deadlock");
        let length = BcsConfig::default().slice;
        let (began, took, late) = slices[1];
        assert!(late > Duration::ZERO && late < length / 2, "{slices:?}");
        assert_eq!(slices[2].0, began + took + late, "{slices:?}");
        // The edges count from there.
        assert_eq!(slices[3].0, slices[2].0 + length, "{slices:?}");
    }

    /// It had the ranks stand for as long again as the manager had stood.
    #[test]
    fn a_slice_that_begins_late_delays_the_next_by_no_more_than_it_takes() {
        let (plan, simulation, network) = machine(1);
        let (manager, here) = (network.node(NodeId::MM), network.node(NodeId(1)));
        here.runtime().spawn(answer(here.clone(), plan, 0)).detach();
        let mut sender = StrobeSender::new(manager.clone(), plan, NodeSet::compute(1));
        let ended = simulation.run(async move {
            sender.slice().await.expect("ends empty");
            manager.runtime().sleep(plan.config.slice * 100).await;
            let late = sender.slice().await.expect("ends empty");
            let over = manager.runtime().now();
            let next = sender.slice().await.expect("ends empty");
            (late, manager.runtime().now() - over - next.took)
        });
        let (late, rest) = ended.expect("no deadlock");
        assert!(late.late > BcsConfig::default().slice * 90, "{late:?}");
        assert_eq!(rest, late.took, "{late:?}");
    }

    #[test]
    fn after_a_pause_slices_begin_at_edges() {
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
