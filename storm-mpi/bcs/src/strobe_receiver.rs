//! The Strobe Receiver: drives the engine of one node over the primitives, and tells the manager of
//! news while slices rest ([decision 0095](../../../docs/decisions/0095-slices-rest.md)).

use crate::{Action, ActionId, Completion, Engine, Phase, Plan, Reply, Strobe};
use async_channel::{Receiver, Sender, unbounded};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use storm_primitives::{Epoch, Instant, NodeId, NodeSet, Primitives, Runtime, Task, Xfer};

/// What the engine is to hear.
enum Input {
    Strobed,
    Arrived,
    Nudged,
    Outcome(ActionId, Reply),
    Membership,
    /// The slice after this one would begin.
    Edge(u64),
}

/// Who posts before each slice and is told, at its beginning, which posts are done. Called with no
/// completions too: it is the edge at which ranks take turns.
pub trait Edge {
    /// A slice is about to begin: what is posted now takes part in it. Nothing, for those who post at
    /// other times.
    fn gather(&mut self, _engine: &mut Engine) {}

    /// A slice begins, or would begin if anybody had anything for one; these are done.
    fn edge(&mut self, completions: Vec<Completion>);

    /// Perhaps slices rest now: until the next begins, who has news for one nudges. Whether there is some
    /// already. Asked again with every nudge. What was posted to the engine need not be said here.
    fn rest(&mut self) -> bool {
        false
    }

    /// Slices follow one another, or the manager has been told of news: nobody has to nudge.
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
    /// The slice after which this node had nothing for another, since which it has told of no news.
    rests: Option<u64>,
    /// The last microphase after which it was looked whether this node has anything for another slice.
    looked_at: u64,
    /// When the slice after the one under way is to begin, by this node's clock.
    next: Instant,
    /// Waits for that, where ranks are to hear of something then though no slice may follow.
    clock: Option<Task>,
    /// Wait for strobes, arrivals and changes of the membership.
    _watchers: [Task; 3],
}

impl<P: Primitives, E: Edge + 'static> StrobeReceiver<P, E> {
    /// For the node of `network`. A strobe that has come already is obeyed too.
    pub fn new(network: P, plan: Plan, engine: Rc<RefCell<Engine>>, edge: E) -> Self {
        let (input, inputs) = unbounded();
        // The receiver is here, and the channel has no bound.
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
            clock: None,
            _watchers,
        }
    }

    /// What has the node look again at what it waits for.
    pub fn nudge(&self) -> Nudge {
        Nudge(self.input.clone())
    }

    /// Serves for ever.
    pub async fn run(mut self) {
        // The sender is this object's own: there is always one.
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
                if strobe.phase == Phase::DescriptorExchange {
                    // There is no other before the one before has ended on all nodes.
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
                    // A strobe that has come again changes nothing.
                    self.edge.goes_on();
                }
                actions
            }
            Input::Arrived | Input::Nudged => self.engine.borrow_mut().arrived(memory),
            Input::Outcome(action, reply) => self.engine.borrow_mut().outcome(action, reply),
            Input::Membership => {
                // Nodes that never joined look dead too, and no job has ranks there.
                let alive = self.network.membership().alive();
                let dead = self.plan.nodes().filter(|node| !alive.contains(*node)).collect();
                self.engine.borrow_mut().nodes_lost(&dead);
                Vec::new()
            }
            Input::Edge(slice) => {
                self.clock = None;
                // Who has told of news since hears with the slice that follows.
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

    /// Says that this node is done with the microphase, when it is.
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

    /// Where nothing follows the microphase with this word but another slice: whether this node has nothing
    /// for that, neither. Its ranks hear of what was done when it would begin.
    fn may_rest(&mut self, word: u64) -> bool {
        let Some(Strobe { slice, phase }) = Strobe::from_word(word) else { return false };
        match phase {
            Phase::BroadcastAndBarrier | Phase::SliceEnd => {}
            Phase::DescriptorExchange
            | Phase::MessageScheduling
            | Phase::PointToPoint
            | Phase::Reduce => return true,
        }
        // It is looked at once: news that come later are told.
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
                // Nobody hears it when the node ends.
                let _ = input.try_send(Input::Edge(slice));
            });
            self.clock = Some(clock);
        }
        true
    }

    /// Tells the manager of news when no slice may follow by itself: once since the last one. When that
    /// is lost, the manager begins another by itself after a while.
    fn tell_news(&mut self) {
        let Some(slice) = self.rests else { return };
        // Both are asked: the ranks may have to be told to ring.
        let news = self.edge.rest();
        let engine = self.engine.borrow();
        let outcomes = engine.has_outcomes() && self.clock.is_none();
        let wants = news || outcomes || engine.wants_slice();
        drop(engine);
        if wants {
            self.rests = None;
            let addr = self.plan.news(self.network.node()).addr();
            let manager = NodeSet::single(NodeId::MM);
            let told = Xfer::new(manager, addr, slice.to_ne_bytes().to_vec());
            self.network.xfer_and_signal(told.signal_remote(self.plan.told));
            // Of one slice the manager is told once.
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
                    // Nobody hears it when the node ends.
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

/// To be used when a job was closed, as nobody waits for it any more, and when there is news for a slice.
#[derive(Clone, Debug)]
pub struct Nudge(Sender<Input>);

impl Nudge {
    /// Has the node look again at what it waits for.
    pub fn nudge(&self) {
        // Nobody hears it when the node ends.
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
