//! The engines and drivers in real time, over TCP on this host: nothing depends on virtual time.

use crate::lockstep::{collective, member, recv, send};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use storm_backend_tcp::{NameTable, Node, NodeConfig, Root, RootConfig, TcpPrimitives};
use storm_bcs::{
    BcsConfig, BcsError, Collective, Completion, Engine, JobKey, Member, Number, Outcome, Plan,
    Post, Reduction, RequestId, StrobeReceiver, StrobeSender,
};
use storm_mpi::ReduceOp;
use storm_primitives::middleware::Layer;
use storm_primitives::{
    CompareAndWrite, Layout, NodeId, NodeSet, PrimitiveError, Primitives, Runtime, Xfer,
};

const NODES: u32 = 3;
const MESSAGE_BYTES: usize = 100_000;
/// More slices than the longest message and everything else here need.
const SLICES: u64 = 60;

type Heard = Rc<RefCell<BTreeMap<(Member, RequestId), Result<Outcome, BcsError>>>>;

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Nodes over TCP, all in this process, with the outcomes that their ranks have received.
struct Machine {
    plan: Plan,
    root: Root,
    engines: Vec<Rc<RefCell<Engine>>>,
    nodes: Vec<TcpPrimitives>,
    heard: Heard,
}

impl Machine {
    async fn start(count: u32) -> Machine {
        let mut layout = Layout::builder();
        let plan = Plan::new(&mut layout, count, BcsConfig::default());
        let layout = layout.build();
        let name = |node| format!("host{node}");
        let names = NameTable::fixed((1..=count).map(name));
        let root = Root::bind(RootConfig::new(loopback(), layout.clone(), names)).expect("binds");
        let (heard, mut engines, mut nodes) = (Heard::default(), Vec::new(), Vec::new());
        for node in 1..=count {
            let config = NodeConfig::new(root.local_addr(), name(node), loopback(), layout.clone());
            let network = Node::join(config).await.expect("joins");
            let engine = Rc::new(RefCell::new(Engine::new(NodeId(node), plan)));
            let told = heard.clone();
            let edge = move |completions: Vec<Completion>| {
                let key = |done: &Completion| (done.member, done.request);
                told.borrow_mut()
                    .extend(completions.into_iter().map(|done| (key(&done), done.outcome)));
            };
            let receiver = StrobeReceiver::new(network.clone(), plan, engine.clone(), edge);
            network.runtime().spawn(receiver.run()).detach();
            engines.push(engine);
            nodes.push(network);
        }
        // The others know that a node that has not joined is dead.
        for node in &nodes {
            let membership = node.membership();
            while !NodeSet::compute(count).is_subset(&membership.alive()) {
                membership.changed(membership.epoch()).await;
            }
        }
        let placement: Rc<[NodeId]> = (1..=count).map(NodeId).collect();
        for engine in &engines {
            engine.borrow_mut().open_job(JobKey(0), placement.clone());
        }
        Machine { plan, root, engines, nodes, heard }
    }

    fn post(&self, rank: u32, post: Post) -> (Member, RequestId) {
        let who = member(0, rank);
        (who, self.engines[rank as usize].borrow_mut().post(who, post).expect("posted"))
    }

    fn bytes(&self) -> (u64, u64) {
        let sums = self.engines.iter().map(|engine| engine.borrow().traffic());
        sums.fold((0, 0), |(s, r), t| (s + t.sent_bytes, r + t.received_bytes))
    }
}

fn on_a_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), test);
}

fn sum(rank: u32) -> Collective {
    Collective::Reduce {
        data: (u64::from(rank) + 1).to_ne_bytes().to_vec().into(),
        reduction: Reduction { op: ReduceOp::Sum, number: Number::U64 },
        root: None,
    }
}

#[test]
fn over_sockets_a_ring_and_a_sum_are_right_and_every_slice_ends_empty() {
    on_a_thread(ring_and_sum());
}

async fn ring_and_sum() {
    let machine = Machine::start(NODES).await;
    let mut requests = Vec::new();
    for rank in 0..NODES {
        let (next, before) = ((rank + 1) % NODES, (rank + NODES - 1) % NODES);
        for post in [
            send(next, 0, vec![rank as u8; MESSAGE_BYTES]),
            recv(Some(before), None, MESSAGE_BYTES),
            collective(NODES as usize, sum(rank)),
        ] {
            requests.push((before as u8, machine.post(rank, post)));
        }
    }
    let mut sender =
        StrobeSender::new(machine.root.handle(), machine.plan, NodeSet::compute(NODES));
    let mut took = Duration::ZERO;
    for slice in 1..=SLICES {
        let checkpoint = sender.slice().await.expect("ends empty");
        assert_eq!(checkpoint.slice, slice);
        took += checkpoint.took;
        let (sent, received) = machine.bytes();
        assert_eq!(sent, received, "slice {slice}");
        let seen = |node: &TcpPrimitives| machine.plan.checkpoint(node.memory());
        assert!(machine.nodes.iter().all(|node| seen(node) == slice - 1));
    }
    println!("a slice took {:?} on average", took / SLICES as u32);
    let heard = machine.heard.borrow();
    for posts in requests.chunks(3) {
        let outcome = |at: usize| heard[&posts[at].1].clone();
        assert_eq!(outcome(0), Ok(Outcome::Done));
        let Ok(Outcome::Received { data, .. }) = outcome(1) else { panic!("nothing received") };
        assert_eq!(data, vec![posts[1].0; MESSAGE_BYTES]);
        assert_eq!(outcome(2), Ok(Outcome::Data(6u64.to_ne_bytes().to_vec())));
    }
}

/// Counts of the strobe sender's operations. A journey lasts as long as anything is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    strobes: u32,
    questions: u32,
    journeys: u32,
}

#[derive(Clone)]
struct Counted {
    inner: TcpPrimitives,
    counts: Rc<Cell<Counts>>,
    under_way: Rc<Cell<u32>>,
}

impl Counted {
    fn begin(&self, add: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        counts.journeys += u32::from(self.under_way.get() == 0);
        self.counts.set(counts);
        self.under_way.update(|count| count + 1);
    }

    fn end(&self) {
        self.under_way.update(|count| count - 1);
    }
}

impl Layer for Counted {
    type Inner = TcpPrimitives;

    fn inner(&self) -> &TcpPrimitives {
        &self.inner
    }

    fn on_xfer(&self, xfer: Xfer) {
        self.begin(|counts| counts.strobes += 1);
        let (this, done, named) = (self.clone(), self.events().local(), xfer.local_event);
        self.inner.xfer_and_signal(xfer.signal_local(done.id()));
        let watch = async move {
            let status = this.inner.await_event(done.id()).await;
            this.end();
            named.into_iter().for_each(|event| this.events().signal(event, status.clone()));
        };
        self.runtime().spawn(watch).detach();
    }

    fn on_compare(
        &self,
        caw: CompareAndWrite,
    ) -> impl Future<Output = Result<bool, PrimitiveError>> + 'static {
        let this = self.clone();
        async move {
            this.begin(|counts| counts.questions += 1);
            let answer = this.inner.compare_and_write(caw).await;
            this.end();
            answer
        }
    }

    fn on_precedes(&self) -> bool {
        self.inner.precedes_own_stores()
    }
}

#[test]
fn a_microphase_that_waits_for_nothing_is_one_journey() {
    on_a_thread(journeys());
}

/// An empty slice, a slice with messages, and slices in which a sum is computed up the tree of
/// nodes.
async fn journeys() {
    let machine = Machine::start(2).await;
    let network =
        Counted { inner: machine.root.handle(), counts: Rc::default(), under_way: Rc::default() };
    let counts = network.counts.clone();
    let mut sender = StrobeSender::new(network, machine.plan, NodeSet::compute(2));
    let mut slice = async || {
        counts.set(Counts::default());
        sender.slice().await.expect("ends empty");
        counts.get()
    };
    assert_eq!(slice().await, Counts { strobes: 1, questions: 2, journeys: 1 });
    for bytes in [1, 16 << 10] {
        let posts = [0, 1].map(|rank| {
            machine.post(rank, send(1 - rank, 0, vec![rank as u8; bytes]));
            machine.post(rank, recv(Some(1 - rank), None, bytes))
        });
        assert_eq!(slice().await, Counts { strobes: 4, questions: 8, journeys: 4 });
        assert_eq!(slice().await, Counts { strobes: 1, questions: 2, journeys: 1 });
        let heard = machine.heard.borrow();
        assert!(posts.iter().all(|post| matches!(heard[post], Ok(Outcome::Received { .. }))));
    }
    let sums = [0, 1].map(|rank| machine.post(rank, collective(2, sum(rank))));
    // No node has bytes to move. The slot and the parent's child are waited for, so some questions
    // are repeated.
    let reduced = slice().await;
    assert_eq!(reduced.strobes, 6);
    assert!(reduced.journeys >= 6, "{reduced:?}");
    assert_eq!(slice().await, Counts { strobes: 1, questions: 2, journeys: 1 });
    let three = Ok(Outcome::Data(3u64.to_ne_bytes().to_vec()));
    assert!(sums.iter().all(|sum| machine.heard.borrow()[sum] == three));
}
