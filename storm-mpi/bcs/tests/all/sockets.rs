//! The same engines and drivers in real time, over TCP on this host: nothing depends on virtual time.

use crate::lockstep::{collective, member, recv, send};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use storm_backend_tcp::{NameTable, Node, NodeConfig, Root, RootConfig};
use storm_bcs::{
    BcsConfig, BcsError, Collective, Completion, Engine, JobKey, Member, Number, Outcome, Plan,
    Reduction, RequestId, StrobeReceiver, StrobeSender,
};
use storm_mpi::ReduceOp;
use storm_primitives::{Layout, NodeId, NodeSet, Primitives, Runtime};

const NODES: u32 = 3;
const MESSAGE_BYTES: usize = 100_000;
/// More than the longest message and everything else here need.
const SLICES: u64 = 60;

type Heard = Rc<RefCell<BTreeMap<(Member, RequestId), Result<Outcome, BcsError>>>>;

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

#[test]
fn over_sockets_a_ring_and_a_sum_are_right_and_every_slice_ends_empty() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), run());
}

async fn run() {
    let mut layout = Layout::builder();
    let plan = Plan::new(&mut layout, NODES, BcsConfig::default());
    let layout = layout.build();
    let name = |node| format!("host{node}");
    let names = NameTable::fixed((1..=NODES).map(name));
    let root = Root::bind(RootConfig::new(loopback(), layout.clone(), names)).expect("binds");
    let (heard, mut engines, mut nodes) = (Heard::default(), Vec::new(), Vec::new());
    for node in 1..=NODES {
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
    let placement: Rc<[NodeId]> = (1..=NODES).map(NodeId).collect();
    let mut requests = Vec::new();
    for (rank, engine) in engines.iter().enumerate() {
        let mut engine = engine.borrow_mut();
        engine.open_job(JobKey(0), placement.clone());
        let who = member(0, rank as u32);
        let (next, before) = ((rank as u32 + 1) % NODES, (rank as u32 + NODES - 1) % NODES);
        let sum = Collective::Reduce {
            data: (rank as u64 + 1).to_ne_bytes().to_vec().into(),
            reduction: Reduction { op: ReduceOp::Sum, number: Number::U64 },
            root: None,
        };
        for post in [
            send(next, 0, vec![rank as u8; MESSAGE_BYTES]),
            recv(Some(before), None, MESSAGE_BYTES),
            collective(NODES as usize, sum),
        ] {
            requests.push((who, before as u8, engine.post(who, post).expect("posted")));
        }
    }
    let mut sender = StrobeSender::new(root.handle(), plan, NodeSet::compute(NODES));
    let mut took = Duration::ZERO;
    for slice in 1..=SLICES {
        let checkpoint = sender.slice().await.expect("ends empty");
        assert_eq!(checkpoint.slice, slice);
        took += checkpoint.took;
        let sums = engines.iter().map(|engine| engine.borrow().traffic());
        let (sent, received) =
            sums.fold((0, 0), |(s, r), t| (s + t.sent_bytes, r + t.received_bytes));
        assert_eq!(sent, received, "slice {slice}");
        assert!(nodes.iter().all(|node| plan.checkpoint(node.memory()) == slice - 1));
    }
    println!("a slice took {:?} on average", took / SLICES as u32);
    let heard = heard.borrow();
    for posts in requests.chunks(3) {
        let outcome = |at: usize| heard[&(posts[at].0, posts[at].2)].clone();
        assert_eq!(outcome(0), Ok(Outcome::Done));
        let Ok(Outcome::Received { data, .. }) = outcome(1) else { panic!("nothing received") };
        assert_eq!(data, vec![posts[1].1; MESSAGE_BYTES]);
        assert_eq!(outcome(2), Ok(Outcome::Data(6u64.to_ne_bytes().to_vec())));
    }
}
