//! Reports that a node had issued requests, true or false. An answer waits for such a request no
//! longer than the node takes to send all its requests.

use bytes::Bytes;
use std::net::SocketAddr;
use storm_backend_tcp::NameTable;
use storm_backend_tcp::sequencer::{Limits, Output, RequestError, Sequencer};
use storm_backend_tcp::wire::{
    Down, Join, Member, PROTOCOL_VERSION, Primitive, Request, RequestId, Seq,
};
use storm_primitives::{
    CompareAndWrite, GlobalAddr, Incarnation, Instant, Layout, NodeId, NodeSet, PrimitiveError,
    Relation, Var,
};

const WINDOW: u32 = 4;
const LIMITS: Limits = Limits {
    inline_limit_bytes: 16,
    chunk_bytes: 8,
    stage_window_bytes: 200,
    operation_window: 8,
    request_window: WINDOW,
};
const ASKER: NodeId = NodeId(1);
const ASKED: NodeId = NodeId(2);

type Outcomes = Vec<(RequestId, Result<bool, PrimitiveError>)>;

/// A root of two nodes.
struct Root {
    sequencer: Sequencer,
    flag: Var<u64>,
    asked: u64,
}

impl Root {
    fn new() -> Root {
        let mut builder = Layout::builder();
        let flag = builder.var::<u64>("flag");
        let layout = builder.build();
        let listen = SocketAddr::from(([127, 0, 0, 1], 1));
        let own = Member { node: NodeId::MM, incarnation: Incarnation(1), listen };
        let mut sequencer = Sequencer::new(LIMITS, layout.clone(), NameTable::open(4), 2, own);
        for name in ["a", "b"] {
            let join = Join {
                version: PROTOCOL_VERSION,
                cluster: "test".to_owned(),
                name: name.to_owned(),
                layout: layout.hash(),
                listen,
                fabric: String::new(),
                host: None,
            };
            sequencer.join(&join, "test").expect("it is let in");
        }
        let mut root = Root { sequencer, flag, asked: 0 };
        root.outputs();
        root
    }

    /// The operations that go down, and the outcomes.
    fn outputs(&mut self) -> (Vec<Seq>, Outcomes) {
        let (mut down, mut done) = (Vec::new(), Vec::new());
        while let Some(output) = self.sequencer.take_output() {
            match output {
                Output::Down(Down { seq, .. }, _) => down.push(seq),
                Output::Done { request, outcome, .. } => done.push((request, outcome)),
                Output::View(_) | Output::Chunk(..) | Output::Grant { .. } => {}
            }
        }
        (down, done)
    }

    fn outcomes(&mut self) -> Outcomes {
        self.outputs().1
    }

    /// A comparison that is TRUE. The replies report that `ASKED` had issued requests up to
    /// `issued`.
    fn ask(&mut self, issued: u64) -> Result<RequestId, RequestError> {
        self.asked += 1;
        let (id, relation) = (RequestId(self.asked), Relation::GreaterOrEqual);
        let question = CompareAndWrite::new(NodeSet::single(ASKED), self.flag, relation, 0);
        let request = Request { id, primitive: Primitive::Compare(question) };
        self.sequencer.request(ASKER, request, Bytes::new())?;
        let (down, _) = self.outputs();
        self.sequencer.issued(vec![(ASKED, RequestId(issued))]);
        down.into_iter().for_each(|seq| self.sequencer.complete(seq, true));
        Ok(id)
    }

    /// An operation of `ASKED` arrives.
    fn issue(&mut self, id: u64) {
        let dest = NodeSet::single(ASKER);
        let primitive = Primitive::Xfer { dest, addr: GlobalAddr(0), len: 8, event: None };
        let request = Request { id: RequestId(id), primitive };
        self.sequencer.request(ASKED, request, Bytes::from_static(&[0; 8])).expect("it is sound");
    }

    fn set_now(&mut self, ns: u64) {
        self.sequencer.set_now(Instant::from_nanos(ns));
    }
}

#[test]
fn an_answer_waits_for_what_was_issued_and_no_longer() {
    let mut root = Root::new();
    let asked = root.ask(2).expect("there is room");
    root.issue(1);
    assert_eq!(root.outcomes(), []);
    root.issue(2);
    assert_eq!(root.outcomes(), [(asked, Ok(true))]);
}

#[test]
fn an_excessive_acknowledgement_holds_answers_until_the_node_is_asked() {
    let mut root = Root::new();
    root.set_now(10);
    let asked = root.ask(u64::MAX).expect("there is room");
    root.issue(1);
    // The ping was sent before the report, and `ASKED` may have issued more since.
    assert!(!root.sequencer.answered(ASKED, Instant::from_nanos(10)));
    assert_eq!(root.outcomes(), []);
    assert!(root.sequencer.answered(ASKED, Instant::from_nanos(11)));
    assert_eq!(root.outcomes(), [(asked, Ok(true))]);
    // The false report stays disbelieved.
    let next = root.ask(1).expect("there is room");
    assert_eq!(root.outcomes(), [(next, Ok(true))]);
}

#[test]
fn data_that_arrived_out_of_order_is_still_awaited() {
    let mut root = Root::new();
    let asked = root.ask(1).expect("there is room");
    assert!(!root.sequencer.answered(ASKED, Instant::ORIGIN));
    root.issue(1);
    assert_eq!(root.outcomes(), [(asked, Ok(true))]);
    assert!(!root.sequencer.answered(ASKED, Instant::from_nanos(1)), "all of it was true");
}

#[test]
fn answers_that_are_held_count_in_the_window_of_requests() {
    let mut root = Root::new();
    for _ in 0..WINDOW {
        root.ask(u64::MAX).expect("there is room");
    }
    assert_eq!(root.ask(u64::MAX), Err(RequestError::WindowExceeded));
}
