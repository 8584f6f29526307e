//! The Strobe Sender, on the management node: leads every node through the microphases of each slice.

use crate::{BcsError, Phase, Plan, Strobe};
use std::time::Duration;
use storm_primitives::{
    CompareAndWrite, Instant, NodeSet, PrimitiveError, Primitives, Relation, Runtime, Xfer,
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
}

impl<P: Primitives> StrobeSender<P> {
    /// For these nodes, the first slice now.
    pub fn new(network: P, plan: Plan, nodes: NodeSet) -> StrobeSender<P> {
        let due = network.runtime().now();
        let length = plan.config.slice;
        StrobeSender { network, plan, nodes, slice: 0, length, had_collectives: false, due }
    }

    /// From the next slice on: these nodes, slices of this length. Numbers go on.
    pub fn lead(&mut self, nodes: NodeSet, length: Duration) {
        (self.nodes, self.length) = (nodes, length);
    }

    /// There was a pause: the next slice begins now.
    pub fn resume(&mut self) {
        self.due = self.network.runtime().now();
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
        let mut phase = Some(Phase::DescriptorExchange);
        while let Some(now) = phase {
            phase = self.microphase(Strobe { slice: self.slice, phase: now }).await?;
        }
        // Slices that a late one ran into do not happen: nodes skip them, they do not catch up. Ranks
        // compute between slices, and have as much time as one that was late took.
        let length = self.length;
        let end = self.due + length;
        let now = runtime.now();
        let late = now.saturating_since(end);
        self.due =
            if late.is_zero() { end } else { next_edge(self.due, length, now + (now - began)) };
        Ok(Checkpoint { slice: self.slice, nodes: self.nodes.clone(), took: now - began, late })
    }

    /// Strobes one microphase and returns when it is over everywhere, with the one that comes next. A
    /// microphase that no node has anything to do in does not; `None` when there is nothing to do in the
    /// rest of the slice, and nothing on the way: nodes hear so with the next slice.
    async fn microphase(&mut self, strobe: Strobe) -> Result<Option<Phase>, BcsError> {
        let word = strobe.to_word();
        self.strobe(word).await?;
        loop {
            match self.first_true(strobe).await {
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
                Ok(None) => self.network.runtime().sleep(self.plan.config.poll).await,
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
    let slices = (now - due).as_nanos().div_ceil(length.as_nanos().max(1));
    due + length.saturating_mul(u32::try_from(slices).unwrap_or(u32::MAX))
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
    fn slices_that_a_late_one_ran_into_are_skipped() {
        let (length, at) = (Duration::from_micros(500), |us: u64| Instant::from_nanos(us * 1000));
        assert_eq!(next_edge(at(1000), length, at(1501)), at(2000));
        assert_eq!(next_edge(at(1000), length, at(2000)), at(2000));
        assert_eq!(next_edge(at(1000), length, at(3999)), at(4000));
    }
}
