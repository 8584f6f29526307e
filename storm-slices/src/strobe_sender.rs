//! The Strobe Sender, on the management node: leads every node through the microphases of each
//! slice.
//!
//! A microphase begins with a strobe. It is over when all nodes answer a question with yes. If
//! nodes need not wait for their transfers ([`Primitives::precedes_own_stores`]), the sender issues
//! all possible questions right behind the strobe. A microphase is then one journey to all nodes
//! and back ([decision 0096](../../docs/decisions/0096-a-microphase-is-one-journey.md)).

use crate::pace::Pace;
use crate::{Phase, Plan, SliceError, Strobe};
use futures_util::future::{Either, join, join_all, select};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use storm_primitives::{
    CompareAndWrite, Instant, NodeId, NodeSet, PrimitiveError, Primitives, Relation, Runtime, Xfer,
};

/// The end of a slice: no byte of any job is on the way. The nodes' memories are the whole state of
/// every job until the next slice begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The slice that is over.
    pub slice: u64,
    /// The nodes that took part.
    pub nodes: NodeSet,
    /// Time from the slice's first strobe until the network was known to be empty.
    pub took: Duration,
    /// Time by which the slice ended after the next slice should have begun.
    pub late: Duration,
    /// No node had anything for the slice.
    pub empty: bool,
    /// No node needs the next slice. No further slice is needed until a node has news, which
    /// [`StrobeSender::rest`] waits for. Ranks learn of this slice's completions when the next
    /// slice would have begun.
    pub rests: bool,
}

/// The sender of strobes.
#[derive(Debug)]
pub struct StrobeSender<P: Primitives> {
    network: P,
    plan: Plan,
    nodes: NodeSet,
    slice: u64,
    length: Duration,
    /// The last slice with messages also had collectives.
    had_collectives: bool,
    /// Beginning of the next slice.
    due: Instant,
    pace: Pace,
    /// Nodes need not wait for their transfers: questions follow the strobe at once.
    at_once: bool,
    /// A node has reported news for the slice under way.
    wanted: bool,
    /// No node needs a slice after the one under way.
    rests: bool,
}

impl<P: Primitives> StrobeSender<P> {
    /// A sender for these nodes. The first slice begins now.
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

    /// Sets the nodes and the length of slices from the next slice on. Slice numbers continue.
    pub fn lead(&mut self, nodes: NodeSet, length: Duration) {
        (self.nodes, self.length) = (nodes, length);
    }

    /// Ends a pause: the next slice begins at the next edge of the uninterrupted sequence.
    pub fn resume(&mut self) {
        self.due = next_edge(self.due, self.length, self.network.runtime().now());
    }

    /// Rests if the last slice left no node in need of another. Waits until a node has reported
    /// news since then, at most for [`BcsConfig::rest`](crate::BcsConfig::rest). The next slice
    /// begins at the next edge. A caller that stops waiting must call [`resume`](Self::resume).
    ///
    /// # Errors
    /// [`SliceError::Network`] when this node is cut off.
    pub async fn rest(&mut self) -> Result<(), SliceError> {
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
    async fn news(&self) -> Result<(), SliceError> {
        let mut told = self.network.await_event(self.plan.told);
        poll_fn(|cx| {
            // Another sender with its own nodes is woken by the same signals, and checks its own
            // nodes.
            while let Poll::Ready(signal) = Pin::new(&mut told).poll(cx) {
                if let Err(error) = signal {
                    return Poll::Ready(Err(SliceError::Network(error)));
                }
            }
            if self.has_news() { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await
    }

    /// Whether a node has reported news since the last slice.
    fn has_news(&self) -> bool {
        let since = |node: NodeId| self.network.memory().load(self.plan.news(node));
        self.nodes.iter().any(|node| since(node) >= self.slice)
    }

    /// Waits until the next slice is due, and carries it out. Nothing moves until the next call, so
    /// a caller that stores the state of the jobs stores it between calls.
    ///
    /// # Errors
    /// [`SliceError::NobodyLeft`], [`SliceError::NotEmpty`]; [`SliceError::Network`] if this node
    /// is cut off. Nodes that have died are left out from then on.
    pub async fn slice(&mut self) -> Result<Checkpoint, SliceError> {
        let runtime = self.network.runtime().clone();
        runtime.sleep_until(self.due).await;
        self.slice += 1;
        // A network with this order may still have to wait for other operations sometimes.
        self.at_once |= self.network.precedes_own_stores();
        let began = runtime.now();
        let mut phase = self.microphase(Phase::DescriptorExchange).await?;
        let empty = phase.is_none();
        self.rests = empty;
        while let Some(now) = phase {
            phase = self.microphase(now).await?;
        }
        self.wanted = !self.rests;
        // Slices that would overlap a late one are dropped: nodes skip them and do not catch up.
        // Ranks compute between slices. After a late slice, they get as much time as the slice was
        // late. So a slightly late slice delays little. If every slice takes much too long, the
        // ranks still get half of the time.
        let end = self.due + self.length;
        let now = runtime.now();
        let (late, took) = (now.saturating_since(end), now - began);
        // A slice that began late has already given its delay to the ranks.
        self.due = if late.is_zero() { end } else { now + late.min(took) };
        let (slice, nodes) = (self.slice, self.nodes.clone());
        Ok(Checkpoint { slice, nodes, took, late, empty, rests: self.rests })
    }

    /// Strobes one microphase, waits until it is over everywhere, and returns the next microphase.
    /// A microphase in which no node has anything to do is left out. `None` means that no node has
    /// anything to do in the rest of the slice, and no bytes are on the way. Nodes learn this with
    /// the next slice.
    async fn microphase(&mut self, phase: Phase) -> Result<Option<Phase>, SliceError> {
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
                // Either all nodes have finished the last microphase and bytes are on the way, or
                // they finished it after both questions.
                Ok(Some((Question::Done, None))) => match self.ask(Question::Empty, word).await {
                    Ok(true) => return Ok(None),
                    Ok(false) => {
                        let nodes = self.nodes.clone();
                        return Err(SliceError::NotEmpty { slice: self.slice, nodes });
                    }
                    Err(error) => self.leave_out(error)?,
                },
                Ok(None) if came_along => {}
                Ok(None) => self.network.runtime().sleep(self.plan.config.poll).await,
                Err(error) => {
                    self.leave_out(error)?;
                    // The set contained a dead node, so no node was strobed.
                    along = self.strobe(strobe).await?;
                }
            }
        }
    }

    /// Asks the questions of a microphase. Waits with the first one until the microphase is likely
    /// to be over.
    async fn ask_later(&mut self, strobe: Strobe, strobed: Instant, first: bool) -> Answer {
        let runtime = self.network.runtime().clone();
        // If no node is known to have work, there is nothing to wait for.
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

    /// The first question that all nodes answer with yes, and the microphase that then follows.
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

    /// Like [`first_true`](Self::first_true), with all questions in one journey.
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

    /// Strobes all nodes, and waits until all are strobed. A question that overtook their work
    /// would be asked in vain. If their work is done when they are strobed, the questions behind
    /// the strobe are answered.
    async fn strobe(&mut self, strobe: Strobe) -> Result<Option<Answer>, SliceError> {
        loop {
            let (nodes, addr) = (self.nodes.clone(), self.plan.strobe().addr());
            let length_ns = u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX);
            let words = [strobe.to_word(), length_ns].map(u64::to_ne_bytes).concat();
            let xfer = Xfer::new(nodes, addr, words).signal_remote(self.plan.strobed);
            let strobed = self.network.xfer_and_wait(xfer);
            let (strobed, answer) = if self.at_once {
                // The strobe and the questions are issued when they are first polled, in this
                // order.
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

    /// Asks all nodes a question about the microphase with this word.
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

    fn leave_out(&mut self, error: PrimitiveError) -> Result<(), SliceError> {
        match error {
            PrimitiveError::NodesDead { nodes } => {
                tracing::warn!(%nodes, slice = self.slice, "left out of the slices: dead");
                self.nodes = self.nodes.difference(&nodes);
                if self.nodes.is_empty() { Err(SliceError::NobodyLeft) } else { Ok(()) }
            }
            PrimitiveError::TimedOut { .. } => Ok(()),
            PrimitiveError::Disconnected
            | PrimitiveError::OutOfBounds(_)
            | PrimitiveError::Misaligned { .. }
            | PrimitiveError::UnknownEvent { .. } => Err(SliceError::Network(error)),
        }
    }
}

/// The first question that was answered with yes, if any, and the microphase that then follows.
type Answer = Result<Option<(Question, Option<Phase>)>, PrimitiveError>;

/// The questions to all nodes in a microphase. Nodes publish a word for each question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// Is the node done with the microphase?
    Done,
    /// And has it nothing to do in the following one, or, if none follows, in the next slice?
    Skip,
    /// And has it nothing to do in the rest of the slice, and nothing on the way?
    Empty,
}

/// The questions of a microphase in order, each with the microphase that follows a yes. The
/// question about collectives alone is asked if there were collectives.
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

/// The decision of a yes. "No node has anything for the next slice" decides nothing by itself.
/// Together with a slice that ended empty, it means that no other slice is needed, and stands for
/// both answers.
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

/// The first edge from `now` on, in a sequence of slices of which one began at `due`.
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

    /// A simulated machine of `nodes` nodes.
    fn machine(nodes: u32) -> (Plan, Simulation, SimNetwork) {
        let mut layout = Layout::builder();
        let plan = Plan::new(&mut layout, nodes, BcsConfig::default());
        let simulation = Simulation::new(1);
        let network = SimNetwork::new(&simulation, nodes, &layout.build(), Default::default());
        (plan, simulation, network)
    }

    /// A node that is always done, and reports `on_the_way` bytes on the way at the end of slice 3.
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
        assert_eq!(ended, Ok(Err(SliceError::NotEmpty { slice: 3, nodes })));
    }

    /// A slice that took 510 us instead of 500 us once delayed the next slice to 1500 us after it.
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

    /// Regression: ranks were stopped for as long again as the manager had been stopped.
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
        // Slices of 500 us over days, and an edge in the future.
        assert_eq!(
            next_edge(at(1000), length, at(86_400_000_000 * 40 + 1)),
            at(86_400_000_000 * 40 + 500)
        );
        assert_eq!(next_edge(at(1000), length, at(10)), at(1000));
    }
}
