//! A node dies at each step of an operation in turn: before, in the middle and
//! after, all or nothing (paper, section 2.4.1, point 2).

use super::Trial;
use crate::conformance::bench::Death;
use crate::conformance::doom::Doomed;
use crate::conformance::trial::{nodes, put};
use crate::conformance::{Failure, Op, Pattern, Payload, Read, Seen};
use crate::{CompareAndWrite, NodeId, NodeSet, Relation};

/// The large transfer: beyond any single packet or buffer.
const LARGE_BYTES: u64 = 600_000;

/// The operation under which the victim dies.
#[derive(Clone, Copy)]
enum Under {
    SmallXfer,
    LargeXfer,
    Question,
    WritingQuestion,
}

impl Under {
    fn operation(self, t: &Trial, initiator: NodeId, set: NodeSet) -> Doomed {
        let (var, target) = (t.plan().word(0), t.plan().word(1));
        let caw = CompareAndWrite::new(set.clone(), var, Relation::Equal, 0);
        let word = |value| Seen::Word(value);
        let (op, look, old, new) = match self {
            Under::SmallXfer => {
                let op = put(&set, target.addr(), Payload::word(7));
                (op, Read::Word(target.addr()), word(0), Some(word(7)))
            }
            Under::LargeXfer => {
                let (pattern, addr) = (Pattern::new(3, LARGE_BYTES), t.plan().bulk(9));
                let zeros = crate::conformance::pattern::hash(&vec![0; LARGE_BYTES as usize]);
                let op = put(&set, addr, Payload::Pattern(pattern));
                let look = Read::Hash(addr, LARGE_BYTES);
                (op, look, Seen::Hash(zeros), Some(Seen::Hash(pattern.hash())))
            }
            Under::Question => (Op::Caw(caw), Read::Word(target.addr()), word(0), None),
            Under::WritingQuestion => {
                let op = Op::Caw(caw.then_write(target, 7));
                (op, Read::Word(target.addr()), word(0), Some(word(7)))
            }
        };
        Doomed { initiator, set, op, look, old, new }
    }
}

/// One case: the initiator, the operation, its set, and the node that dies during it.
macro_rules! dies {
    ($($(#[$doc:meta])* $name:ident: $under:ident, from $initiator:literal to $set:expr, victim $victim:literal;)*) => {
        $(
            $(#[$doc])*
            pub(crate) async fn $name(t: Trial, step: u64) -> Result<Death, Failure> {
                let set = nodes(&$set);
                let doomed = Under::$under.operation(&t, NodeId($initiator), set);
                t.check_death(&doomed, NodeId($victim), step).await
            }
        )*
    };
}

dies! {
    /// A small transfer: a node of the set through which others may be reached.
    small_xfer_inner: SmallXfer, from 4 to [0, 1, 2, 3, 5, 6, 8], victim 1;
    /// A small transfer: the last node of the set.
    small_xfer_last: SmallXfer, from 0 to [1, 2, 3, 5, 6, 8], victim 8;
    /// A small transfer: a node that is not in the set, but maybe on the way.
    small_xfer_outsider: SmallXfer, from 4 to [2, 3, 5, 6, 8], victim 1;
    /// A small transfer: its initiator.
    small_xfer_initiator: SmallXfer, from 4 to [0, 1, 2, 3, 5, 6, 8], victim 4;
    /// A small transfer whose initiator is in the set and dies.
    small_xfer_initiator_inside: SmallXfer, from 2 to [0, 1, 2, 3, 8], victim 2;
    /// A large transfer: a node of the set through which others may be reached.
    large_xfer_inner: LargeXfer, from 0 to [1, 2, 3, 4, 5, 6, 7, 8], victim 1;
    /// A large transfer: the last node of the set.
    large_xfer_last: LargeXfer, from 4 to [0, 1, 2, 3, 5, 6, 8], victim 8;
    /// A large transfer: a node that is not in the set, but maybe on the way.
    large_xfer_outsider: LargeXfer, from 0 to [2, 3, 5, 6, 8], victim 1;
    /// A large transfer: its initiator.
    large_xfer_initiator: LargeXfer, from 4 to [0, 1, 2, 3, 5, 6, 8], victim 4;
    /// A question: a node of the set through which others may be reached.
    question_inner: Question, from 4 to [0, 1, 2, 3, 5, 6, 8], victim 1;
    /// A question: a node that is not in the set, but maybe on the way.
    question_outsider: Question, from 0 to [2, 3, 5, 6, 8], victim 1;
    /// A question that writes: a node of the set through which others may be
    /// reached.
    writing_question_inner: WritingQuestion, from 0 to [1, 2, 3, 5, 6, 8], victim 1;
    /// A question that writes: the last node of the set.
    writing_question_last: WritingQuestion, from 4 to [0, 1, 2, 3, 5, 6, 8], victim 8;
    /// A question that writes: a node that is not in the set, but maybe on the
    /// way.
    writing_question_outsider: WritingQuestion, from 4 to [2, 3, 5, 6, 8], victim 1;
    /// A question that writes: its initiator.
    writing_question_initiator: WritingQuestion, from 4 to [0, 1, 2, 3, 5, 6, 8], victim 4;
    /// A COMPARE-AND-WRITE that writes, whose initiator is in the set and dies.
    writing_question_initiator_inside: WritingQuestion, from 2 to [0, 1, 2, 3, 8], victim 2;
}
