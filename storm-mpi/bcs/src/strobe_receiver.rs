//! The Strobe Receiver: drives the engine of one node over the primitives. While slices rest, it
//! reports news to the manager ([decision 0095](../../../docs/decisions/0095-slices-rest.md)).

use crate::{Action, ActionId, Completion, Engine, Phase, Plan, Reply, Strobe};
use async_channel::{Receiver, Sender, unbounded};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{
    Epoch, Instant, NodeId, NodeSet, PrimitiveError, Primitives, Runtime, Task, Xfer,
};

/// Inputs for the engine.
enum Input {
    Strobed,
    Arrived,
    Nudged,
    Outcome(ActionId, Reply),
    Membership,
    /// The time when the slice after this one would begin.
    Edge(u64),
}

/// The owner of ranks. It posts before each slice, and learns at the beginning of the slice which
/// posts are done. It is also called without completions, because ranks take turns at this edge.
pub trait Edge {
    /// A slice is about to begin. Posts made now take part in it. The default does nothing, for
    /// owners that post at other times.
    fn gather(&mut self, _engine: &mut Engine) {}

    /// A slice begins, or would begin if any node needed one. These posts are done.
    fn edge(&mut self, completions: Vec<Completion>);

    /// Slices may rest now. Until the next begins, the owner must nudge when it has news for a
    /// slice. Returns whether there is news already. Called again with every nudge. Posts to the
    /// engine need not be reported.
    fn rest(&mut self) -> bool {
        false
    }

    /// Slices follow one another, or the manager knows of news: no nudge is needed.
    fn goes_on(&mut self) {}
}

impl<F: FnMut(Vec<Completion>)> Edge for F {
    fn edge(&mut self, completions: Vec<Completion>) {
        self(completions);
    }
}

/// Drives an engine.
pub struct StrobeReceiver<P: Primitives, E: Edge> {
    network: P,
    plan: Plan,
    engine: Rc<RefCell<Engine>>,
    edge: E,
    inputs: Receiver<Input>,
    input: Sender<Input>,
    /// The last slice after which this node needed no other, if it has reported no news since.
    rests: Option<u64>,
    /// The last microphase after which this node was checked for news for another slice.
    looked_at: u64,
    /// Beginning of the next slice, by this node's clock.
    next: Instant,
    /// Nodes may have died since this node was done with the last microphase. The next strobe shows
    /// which of them are gone for the slices: a Node Manager that was replaced is back by then.
    may_lack: bool,
    /// Waits for `next`, if ranks must learn of outcomes then although no slice may follow.
    clock: Option<Task>,
    /// Tasks that wait for strobes, arrivals and changes of the membership.
    _watchers: [Task; 3],
}

impl<P: Primitives, E: Edge + 'static> StrobeReceiver<P, E> {
    /// The receiver for the node of `network`. A strobe that has already arrived is obeyed too.
    pub fn new(network: P, plan: Plan, engine: Rc<RefCell<Engine>>, edge: E) -> Self {
        let (input, inputs) = unbounded();
        // The receiving end is here, and the channel has no bound.
        let _ = input.try_send(Input::Strobed);
        let _watchers = [
            watch_event(&network, plan.strobed, &input, || Input::Strobed),
            watch_event(&network, plan.arrival, &input, || Input::Arrived),
            watch_membership(&network, &input),
        ];
        let next = network.runtime().now();
        StrobeReceiver {
            network,
            plan,
            engine,
            edge,
            inputs,
            input,
            rests: None,
            looked_at: 0,
            next,
            may_lack: false,
            clock: None,
            _watchers,
        }
    }

    /// A nudge that makes the node check again what it waits for.
    pub fn nudge(&self) -> Nudge {
        Nudge(self.input.clone())
    }

    /// Serves for ever.
    pub async fn run(mut self) {
        // This object has a sender of its own, so the channel never closes.
        while let Ok(input) = self.inputs.recv().await {
            let may_be_news = !matches!(input, Input::Arrived | Input::Outcome(..));
            self.handle(input);
            self.publish();
            if may_be_news {
                self.tell_news();
            }
        }
    }

    fn handle(&mut self, input: Input) {
        let memory = self.network.memory();
        let actions = match input {
            Input::Strobed => {
                let Some(strobe) = Strobe::from_word(memory.load(self.plan.strobe())) else {
                    return;
                };
                if std::mem::take(&mut self.may_lack) {
                    self.lose_dead();
                }
                if strobe.phase == Phase::DescriptorExchange {
                    // This strobe only comes after the previous slice has ended on all nodes.
                    memory.store(self.plan.checkpoint, strobe.slice - 1);
                    let length = Duration::from_nanos(memory.load(self.plan.length_ns()));
                    self.next = self.network.runtime().now() + length;
                    self.clock = None;
                    self.edge.gather(&mut self.engine.borrow_mut());
                }
                let actions = self.engine.borrow_mut().strobe(strobe, memory);
                if strobe.phase == Phase::DescriptorExchange {
                    let completions = self.engine.borrow_mut().completions();
                    self.edge.edge(completions);
                    self.rests = self.engine.borrow().is_empty().then_some(strobe.slice);
                } else if strobe.to_word() != self.looked_at && self.rests.take().is_some() {
                    // A repeated strobe changes nothing.
                    self.edge.goes_on();
                }
                actions
            }
            Input::Arrived | Input::Nudged => self.engine.borrow_mut().arrived(memory),
            Input::Outcome(action, reply) => {
                let reply = self.without_late_death(action, reply);
                self.engine.borrow_mut().outcome(action, reply)
            }
            Input::Membership => {
                let waits = self.engine.borrow().is_in_microphase();
                self.may_lack |= !waits;
                if waits {
                    self.lose_dead();
                }
                Vec::new()
            }
            Input::Edge(slice) => {
                self.clock = None;
                // A node that has reported news since then learns it with the following slice.
                if self.rests == Some(slice) {
                    let mut engine = self.engine.borrow_mut();
                    engine.edge();
                    let completions = engine.completions();
                    drop(engine);
                    self.edge.edge(completions);
                }
                Vec::new()
            }
        };
        let any = !actions.is_empty();
        for action in actions {
            self.issue(action);
        }
        if any && self.network.precedes_own_stores() {
            self.engine.borrow_mut().precede();
        }
    }

    /// Ends the jobs with ranks on dead nodes. Nodes that never joined count as dead too, and no
    /// job has ranks there.
    fn lose_dead(&self) {
        let alive = self.network.membership().alive();
        let dead = self.plan.nodes().filter(|node| !alive.contains(*node)).collect();
        self.engine.borrow_mut().nodes_lost(&dead);
    }

    /// A transfer that took effect may report later that its destination has died since. The next
    /// strobe shows whether the destination is back.
    fn without_late_death(&mut self, action: ActionId, reply: Reply) -> Reply {
        match reply {
            Reply::Put(Err(PrimitiveError::NodesDead { .. }))
                if self.engine.borrow().is_not_awaited(action) =>
            {
                self.may_lack = true;
                Reply::Put(Ok(()))
            }
            reply => reply,
        }
    }

    /// Publishes that this node is done with the microphase, if it is.
    fn publish(&mut self) {
        let (done, skip) = {
            let engine = self.engine.borrow();
            (engine.phase_done(), engine.may_skip())
        };
        let Some(word) = done else { return };
        let skip = skip && self.may_rest(word);
        let (engine, memory) = (self.engine.borrow(), self.network.memory());
        if engine.is_empty() {
            memory.store(self.plan.empty, word);
        }
        if skip {
            memory.store(self.plan.skip, word);
        }
        memory.store(self.plan.phase_done, word);
    }

    /// Whether this node needs no other slice, if nothing but another slice follows the microphase
    /// of this word. Its ranks then get outcomes when that slice would begin.
    fn may_rest(&mut self, word: u64) -> bool {
        let Some(Strobe { slice, phase }) = Strobe::from_word(word) else { return false };
        match phase {
            Phase::BroadcastAndBarrier | Phase::SliceEnd => {}
            Phase::DescriptorExchange
            | Phase::MessageScheduling
            | Phase::PointToPoint
            | Phase::Reduce => return true,
        }
        // The check is made once: later news is reported.
        if std::mem::replace(&mut self.looked_at, word) == word {
            return false;
        }
        if self.edge.rest() {
            self.edge.goes_on();
            return false;
        }
        self.rests = Some(slice);
        if self.engine.borrow().has_outcomes() {
            let (runtime, next, input) =
                (self.network.runtime().clone(), self.next, self.input.clone());
            let clock = self.network.runtime().spawn(async move {
                runtime.sleep_until(next).await;
                // When the node ends, no receiver is left.
                let _ = input.try_send(Input::Edge(slice));
            });
            self.clock = Some(clock);
        }
        true
    }

    /// Reports news to the manager if no slice may follow by itself, once since the last slice. If
    /// the notice is lost, the manager begins another slice by itself after a while.
    fn tell_news(&mut self) {
        let Some(slice) = self.rests else { return };
        // `rest` is called in any case, because it may also make the ranks ring.
        let news = self.edge.rest();
        let engine = self.engine.borrow();
        let outcomes = engine.has_outcomes() && self.clock.is_none();
        let wants = news || outcomes || engine.wants_slice() || self.may_lack;
        drop(engine);
        if wants {
            self.rests = None;
            let addr = self.plan.news(self.network.node()).addr();
            let manager = NodeSet::single(NodeId::MM);
            let told = Xfer::new(manager, addr, slice.to_ne_bytes().to_vec());
            self.network.xfer_and_signal(told.signal_remote(self.plan.told));
            // The manager is notified only once per slice.
            self.edge.goes_on();
        }
    }

    fn issue(&self, action: Action) {
        let (network, input) = (self.network.clone(), self.input.clone());
        // A transfer takes its place in the order now, not when its task first runs.
        match action {
            Action::Put(id, xfer) => {
                let done = network.events().local();
                network.xfer_and_signal(xfer.signal_local(done.id()));
                let outcome = async move {
                    let signal = network.await_event(done.id()).await;
                    // When the node ends, no receiver is left.
                    let _ = input.try_send(Input::Outcome(id, Reply::Put(signal)));
                };
                self.network.runtime().spawn(outcome).detach();
            }
            Action::Ask(id, question) => {
                let asked = network.compare_and_write(question);
                let outcome = async move {
                    let _ = input.try_send(Input::Outcome(id, Reply::Ask(asked.await)));
                };
                self.network.runtime().spawn(outcome).detach();
            }
        }
    }
}

/// A handle for nudging. Nudge when a job was closed, because no rank waits for it any more, and
/// when there is news for a slice.
#[derive(Clone, Debug)]
pub struct Nudge(Sender<Input>);

impl Nudge {
    /// Makes the node check again whether it can proceed.
    pub fn nudge(&self) {
        // When the node ends, no receiver is left.
        let _ = self.0.try_send(Input::Nudged);
    }
}

fn watch_event<P: Primitives>(
    network: &P,
    event: storm_primitives::EventId,
    input: &Sender<Input>,
    make: fn() -> Input,
) -> Task {
    let (this, input) = (network.clone(), input.clone());
    network.runtime().spawn(async move {
        while this.await_event(event).await.is_ok() {
            if input.try_send(make()).is_err() {
                return;
            }
        }
    })
}

fn watch_membership<P: Primitives>(network: &P, input: &Sender<Input>) -> Task {
    let (membership, input) = (network.membership().clone(), input.clone());
    let mut seen: Epoch = membership.epoch();
    network.runtime().spawn(async move {
        loop {
            seen = membership.changed(seen).await;
            if input.try_send(Input::Membership).is_err() {
                return;
            }
        }
    })
}
