//! Engines on a network without time. A seed draws every interleaving of strobes, transfers and
//! answers within a microphase. After each slice, the test asserts that nothing is on the way. With
//! half of the seeds, nodes do not wait for the outcomes of their transfers, and get them at any
//! later time.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::rc::Rc;
use storm_bcs::{
    Action, ActionId, BcsConfig, BcsError, Collective, Completion, Engine, Group, JobKey, Member,
    Outcome, Phase, Plan, Post, Reply, RequestId, Strobe,
};
use storm_mpi::testing::SplitMix64;
use storm_mpi::{Address, Context, Pattern, Rank, Source, Tag, TagPattern};
use storm_primitives::{GlobalMemory, Layout, NodeId};

enum Pending {
    Strobe(usize),
    Act(usize, Action),
}

pub(crate) struct Lockstep {
    pub(crate) engines: Vec<Engine>,
    plan: Plan,
    layout: Layout,
    memories: Vec<GlobalMemory>,
    pub(crate) slice: u64,
    dice: SplitMix64,
    seed: u64,
    link_bytes: u64,
    /// Transfers take effect before the next strobe without waiting.
    in_order: bool,
    /// Outcomes that no engine has received.
    late: Vec<(usize, ActionId)>,
    /// Outcomes that ranks have received, by rank and request.
    pub(crate) heard: BTreeMap<(Member, RequestId), Result<Outcome, BcsError>>,
    pub(crate) payload_bytes: u64,
}

impl Lockstep {
    pub(crate) fn new(seed: u64, nodes: u32, config: BcsConfig) -> Lockstep {
        let mut layout = Layout::builder();
        let config = config.checked().expect("sensible settings");
        let plan = Plan::new(&mut layout, nodes, config);
        let layout = layout.build();
        Lockstep {
            engines: (1..=nodes).map(|node| Engine::new(NodeId(node), plan)).collect(),
            memories: (1..=nodes).map(|_| GlobalMemory::new(&layout)).collect(),
            plan,
            layout,
            slice: 0,
            dice: SplitMix64(seed),
            seed,
            link_bytes: config.link_bytes,
            in_order: SplitMix64(seed ^ 0x96).chance(50),
            late: Vec::new(),
            heard: BTreeMap::new(),
            payload_bytes: 0,
        }
    }

    /// Gives a node a new engine and zeroed memory, as a new life of the node has. Returns the
    /// former engine.
    pub(crate) fn replace(&mut self, at: usize) -> Engine {
        self.late.retain(|(node, _)| *node != at);
        self.memories[at] = GlobalMemory::new(&self.layout);
        let here = NodeId(at as u32 + 1);
        std::mem::replace(&mut self.engines[at], Engine::new(here, self.plan))
    }

    /// An engine, with the node's memory.
    pub(crate) fn engine(&mut self, at: usize) -> (&mut Engine, &GlobalMemory) {
        (&mut self.engines[at], &self.memories[at])
    }

    pub(crate) fn open(&mut self, job: u64, placement: &[u32]) {
        let nodes: Rc<[NodeId]> = placement.iter().map(|node| NodeId(*node)).collect();
        for engine in &mut self.engines {
            engine.open_job(JobKey(job), nodes.clone());
        }
    }

    pub(crate) fn post(&mut self, node: u32, member: Member, post: Post) -> RequestId {
        let posted = self.engines[node as usize - 1].post(member, post);
        posted.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed))
    }

    /// One slice.
    pub(crate) fn step(&mut self) {
        self.slice += 1;
        let before = self.totals();
        let each: Vec<u64> = self.engines.iter().map(|e| e.traffic().payload_bytes).collect();
        let mut next = Some(Phase::DescriptorExchange);
        while let Some(phase) = next {
            self.microphase(Strobe { slice: self.slice, phase });
            if phase == Phase::DescriptorExchange {
                self.hear();
            }
            next = self.after(phase);
        }
        let after = self.totals();
        assert_eq!(
            (after.0 - before.0, 0),
            (after.1 - before.1, self.engines.iter().map(Engine::in_flight_bytes).sum()),
            "seed {}, slice {}: bytes sent and bytes received, and what is on the way",
            self.seed,
            self.slice
        );
        self.payload_bytes = after.2 - before.2;
        for (engine, before) in self.engines.iter().zip(each) {
            let sent = engine.traffic().payload_bytes - before;
            assert!(sent <= self.link_bytes, "seed {}: {sent} bytes over one link", self.seed);
        }
    }

    pub(crate) fn outcome(&self, member: Member, request: RequestId) -> Option<Outcome> {
        let outcome = self.heard.get(&(member, request))?;
        match outcome {
            Ok(outcome) => Some(outcome.clone()),
            Err(error) => panic!("seed {}: {member:?}: {error}", self.seed),
        }
    }

    /// The microphase that follows. A microphase in which no node has anything to do takes place or
    /// not, at random.
    fn after(&mut self, phase: Phase) -> Option<Phase> {
        let empty = self.engines.iter().all(Engine::is_empty);
        let skip = self.engines.iter().all(Engine::may_skip);
        let leave_out = self.dice.chance(50);
        match phase {
            Phase::SliceEnd => {
                assert!(empty, "seed {}: slice {} ended", self.seed, self.slice);
                None
            }
            _ if empty && leave_out => None,
            Phase::MessageScheduling if skip && leave_out => Some(Phase::BroadcastAndBarrier),
            Phase::PointToPoint if skip && leave_out => Some(Phase::SliceEnd),
            other => Phase::ALL.into_iter().find(|phase| *phase > other),
        }
    }

    fn hear(&mut self) {
        for engine in &mut self.engines {
            for Completion { member, request, outcome } in engine.completions() {
                let twice = self.heard.insert((member, request), outcome);
                assert_eq!(twice, None, "seed {}: {member:?} heard twice", self.seed);
            }
        }
    }

    fn totals(&self) -> (u64, u64, u64) {
        self.engines.iter().map(Engine::traffic).fold((0, 0, 0), |(sent, received, payload), t| {
            (sent + t.sent_bytes, received + t.received_bytes, payload + t.payload_bytes)
        })
    }

    /// One slice without a node. The others close a job once one of them waits in vain. Returns
    /// whether a node did.
    pub(crate) fn step_without(&mut self, node: u32, job: u64) -> bool {
        self.slice += 1;
        let left = node as usize - 1;
        let others: Vec<usize> = (0..self.engines.len()).filter(|at| *at != left).collect();
        let mut waited = false;
        for phase in Phase::ALL {
            let strobe = Strobe { slice: self.slice, phase };
            self.run(strobe, others.iter().copied().map(Pending::Strobe).collect());
            if others.iter().any(|at| self.engines[*at].phase_done().is_none()) {
                waited = true;
                for at in &others {
                    self.engines[*at].close_job(JobKey(job));
                    let actions = self.engines[*at].arrived(&self.memories[*at]);
                    self.run(strobe, actions.into_iter().map(|it| Pending::Act(*at, it)).collect());
                }
            }
            for at in &others {
                let done = self.engines[*at].phase_done();
                assert_eq!(done, Some(strobe.to_word()), "seed {}: node {}", self.seed, at + 1);
            }
            if phase == Phase::DescriptorExchange {
                self.hear();
            }
        }
        waited
    }

    fn run(&mut self, strobe: Strobe, mut pending: Vec<Pending>) {
        while !pending.is_empty() {
            let next = self.dice.below(pending.len());
            let more = match pending.swap_remove(next) {
                Pending::Strobe(at) => {
                    let actions = self.engines[at].strobe(strobe, &self.memories[at]);
                    self.precede(at);
                    let asks = actions.iter().any(|action| matches!(action, Action::Ask(..)));
                    if self.in_order && !asks && strobe.phase != Phase::Reduce {
                        let done = self.engines[at].phase_done();
                        assert_eq!(done, Some(strobe.to_word()), "seed {}: at once", self.seed);
                    }
                    actions.into_iter().map(|action| Pending::Act(at, action)).collect()
                }
                Pending::Act(at, action) => self.act(at, action),
            };
            pending.extend(more);
        }
    }

    /// Makes this engine not wait for its operations.
    fn precede(&mut self, at: usize) {
        if self.in_order {
            self.engines[at].precede();
        }
    }

    /// Engines receive some of the late outcomes.
    fn hear_late(&mut self) {
        while !self.late.is_empty() && self.dice.chance(60) {
            let next = self.dice.below(self.late.len());
            let (at, id) = self.late.swap_remove(next);
            let actions = self.engines[at].outcome(id, Reply::Put(Ok(())));
            assert!(actions.is_empty(), "seed {}: a transfer is over", self.seed);
        }
    }

    fn microphase(&mut self, strobe: Strobe) {
        self.hear_late();
        self.run(strobe, (0..self.engines.len()).map(Pending::Strobe).collect());
        for (at, engine) in self.engines.iter().enumerate() {
            let done = engine.phase_done();
            assert_eq!(done, Some(strobe.to_word()), "seed {}: node {}", self.seed, at + 1);
        }
    }

    fn act(&mut self, at: usize, action: Action) -> Vec<Pending> {
        match action {
            Action::Put(id, xfer) => {
                let mut more = Vec::new();
                for node in xfer.dest.iter() {
                    let to = node.index() - 1;
                    assert_ne!(to, at, "what stays on a node needs no network");
                    self.memories[to].write(xfer.addr, &xfer.data).expect("planned");
                    if xfer.remote_event.is_some() {
                        let actions = self.engines[to].arrived(&self.memories[to]);
                        self.precede(to);
                        more.extend(actions.into_iter().map(|action| Pending::Act(to, action)));
                    }
                }
                if self.in_order {
                    self.late.push((at, id));
                    return more;
                }
                let actions = self.engines[at].outcome(id, Reply::Put(Ok(())));
                more.extend(actions.into_iter().map(|action| Pending::Act(at, action)));
                more
            }
            Action::Ask(id, question) => {
                let memories = &self.memories;
                let of = |node: NodeId| &memories[node.index() - 1];
                let holds = question.set.iter().all(|node| {
                    let word = of(node).load_word(question.var).expect("planned");
                    question.relation.holds(word, question.value)
                });
                if let (true, Some((addr, value))) = (holds, question.write) {
                    for node in question.set.iter() {
                        of(node).store_word(addr, value).expect("planned");
                    }
                }
                let actions = self.engines[at].outcome(id, Reply::Ask(Ok(holds)));
                actions.into_iter().map(|action| Pending::Act(at, action)).collect()
            }
        }
    }
}

pub(crate) fn member(job: u64, rank: u32) -> Member {
    Member { job: JobKey(job), rank: Rank(rank) }
}

pub(crate) fn send(to: u32, tag: i32, data: impl Into<Bytes>) -> Post {
    let address = Address { to: Rank(to), context: Context(0), tag: Tag(tag) };
    Post::Send { address, data: data.into() }
}

pub(crate) fn recv(from: Option<u32>, tag: Option<i32>, bytes: usize) -> Post {
    let pattern = Pattern {
        context: Context(0),
        source: from.map_or(Source::Any, |rank| Source::Rank(Rank(rank))),
        tag: tag.map_or(TagPattern::Any, |tag| TagPattern::Tag(Tag(tag))),
    };
    Post::Recv { pattern, bytes }
}

/// A collective of all ranks of a job of `ranks` ranks.
pub(crate) fn collective(ranks: usize, call: Collective) -> Post {
    Post::Collective { group: Group::all(ranks), call }
}
