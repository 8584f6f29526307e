//! The owner's side of a window. It carries out other members' requests whenever this process is
//! inside a function of the library that moves bytes (weak progress: no thread does it meanwhile).
//!
//! Messages of one member are handled in the order in which it sent them. A message that is still
//! on its way does not delay those of other members.

use super::exposed::Exposed;
use super::locks::Locks;
use super::wire::{Request, Verb};
use crate::comm::Comm;
use crate::fault::{Class, Fault};
use crate::number::Number;
use crate::operation::Change;
use crate::session::Session;
use crate::types::number_of_kind;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use storm_mpi::{Address, CommError, Pattern, RequestId, SendMode, Source, Tag, TagPattern};

/// Tag of requests. Answers have tags above [`super::origin::FIRST_ANSWER`].
pub(super) const REQUEST: Tag = Tag(0);

/// Limit of requests that are processed at a time; others stay where they have arrived.
const COMING_MAX: usize = 256;
/// Bytes of unreceived answers of a member beyond which its next request waits.
const OWED_MAX_BYTES: usize = 4 << 20;

/// The owner's knowledge of its window.
pub(super) struct Owner {
    pub(super) exposed: Exposed,
    locks: RefCell<Locks>,
    /// For each member: epochs that it has completed and this process has not yet waited for.
    completed: RefCell<Vec<u32>>,
    /// No member asks anything any more.
    pub(super) is_over: Cell<bool>,
}

/// A request that is arriving.
struct Coming {
    from: usize,
    id: RequestId,
    bytes: Vec<u8>,
}

/// The service that carries out requests.
struct Service {
    session: &'static Session,
    comm: Rc<Comm>,
    owner: Rc<Owner>,
    coming: VecDeque<Coming>,
    /// Pending answers, which read this memory.
    answers: Vec<Answer>,
    /// Bytes of pending answers to each member.
    owed: Vec<usize>,
}

/// A pending answer.
struct Answer {
    to: usize,
    id: RequestId,
    bytes: Vec<u8>,
}

impl Owner {
    pub(super) fn new(exposed: Exposed, members: usize) -> Rc<Self> {
        Rc::new(Owner {
            exposed,
            locks: RefCell::default(),
            completed: RefCell::new(vec![0; members]),
            is_over: Cell::new(false),
        })
    }

    /// Serves the members' requests in the background, until the window is over.
    pub(super) fn serve(self: &Rc<Self>, session: &'static Session, comm: &Rc<Comm>) {
        let (comm, owner) = (Rc::clone(comm), Rc::clone(self));
        let (coming, answers) = (VecDeque::new(), Vec::new());
        let owed = vec![0; comm.size()];
        let mut service = Service { session, comm, owner, coming, answers, owed };
        session.process.in_background(poll_fn(move |_| match service.bring_on() {
            Ok(()) if service.is_idle() && service.owner.is_over.get() => Poll::Ready(()),
            Ok(()) => Poll::Pending,
            // An error that ends all communication reaches the program by its own calls.
            Err(_) => Poll::Ready(()),
        }));
    }

    /// Whether all of these members have completed an epoch. If so, the epoch is taken.
    pub(super) fn take_completed(&self, members: &[usize]) -> bool {
        let mut completed = self.completed.borrow_mut();
        let all = members.iter().all(|&member| completed[member] > 0);
        if all {
            members.iter().for_each(|&member| completed[member] -= 1);
        }
        all
    }
}

impl Service {
    fn is_idle(&self) -> bool {
        self.coming.is_empty() && self.answers.is_empty()
    }

    /// Carries out the requests that have come.
    fn bring_on(&mut self) -> Result<(), CommError> {
        let process = &self.session.process;
        let context = self.comm.context().point_to_point();
        let requests = Pattern { context, source: Source::Any, tag: TagPattern::Tag(REQUEST) };
        self.let_go()?;
        while self.coming.len() < COMING_MAX {
            let Some((message, status)) = process.hold_arrived(&requests)? else { break };
            let mut bytes = vec![0; status.bytes];
            // SAFETY: the bytes stay in place, untouched, in `coming`, until the request is done.
            // If this process ends before, nothing writes to them.
            let id = unsafe { process.start_recv_of(message, bytes.as_mut_ptr(), bytes.len())? };
            let from = self.comm.group.position(status.source).unwrap_or(usize::MAX);
            self.coming.push_back(Coming { from, id, bytes });
        }
        let (mut at, mut waits) = (0, Vec::new());
        while at < self.coming.len() {
            let Coming { from, id, .. } = self.coming[at];
            // Answers continue without this process's help, because the receiver has named their
            // destination.
            let owes = self.owed.get(from).is_some_and(|&bytes| bytes > OWED_MAX_BYTES);
            if !owes && !waits.contains(&from) && process.step(id)?.is_some() {
                if let Some(came) = self.coming.remove(at) {
                    self.answer(from, &came.bytes)?;
                }
            } else {
                waits.push(from);
                at += 1;
            }
        }
        self.let_go()
    }

    /// Collects answers that have gone.
    fn let_go(&mut self) -> Result<(), CommError> {
        let process = &self.session.process;
        let mut at = 0;
        while at < self.answers.len() {
            if process.is_done(self.answers[at].id)? {
                let answer = self.answers.swap_remove(at);
                process.step(answer.id)?;
                self.owed[answer.to] -= answer.bytes.len();
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    fn answer(&mut self, from: usize, message: &[u8]) -> Result<(), CommError> {
        let Some((request, data)) = Request::decode(message).filter(|_| from < self.comm.size())
        else {
            self.refuse("a message that is no request");
        };
        let owner = Rc::clone(&self.owner);
        if !owner.exposed.has(&request.runs) {
            self.refuse(&format!(
                "rank {from} asks for memory that is not in the window of rank {}",
                self.comm.me
            ));
        }
        let (exposed, runs) = (&owner.exposed, &request.runs);
        let answer = match request.verb {
            Verb::Put => {
                exposed.write(runs, data);
                return Ok(());
            }
            Verb::Accumulate => {
                exposed.change(runs, self.operation(&request, data), data, false);
                return Ok(());
            }
            Verb::Get => exposed.read(runs),
            Verb::GetAccumulate => exposed.change(runs, self.operation(&request, data), data, true),
            Verb::CompareAndSwap => {
                if data.len() != 2 * request.bytes() {
                    self.refuse("a comparison of other numbers than it asks for");
                }
                let (expected, new) = data.split_at(data.len() / 2);
                exposed.compare_and_swap(runs, expected, new)
            }
            Verb::Flush => Vec::new(),
            Verb::Lock => {
                owner.locks.borrow_mut().ask(from, !data.is_empty(), request.answer);
                return self.grant();
            }
            Verb::Unlock => {
                owner.locks.borrow_mut().release(from);
                self.tell(from, request.answer, Vec::new())?;
                return self.grant();
            }
            Verb::Complete => {
                owner.completed.borrow_mut()[from] += 1;
                return Ok(());
            }
        };
        self.tell(from, request.answer, answer)
    }

    /// The operation and the kind of its numbers; the asking member has checked their number.
    fn operation(&self, request: &Request, data: &[u8]) -> (Change, Number) {
        let as_many = request.change == Change::Nothing || data.len() == request.bytes();
        let number = number_of_kind(request.kind).filter(|&n| request.change.is_defined_for(n));
        match number {
            Some(number) if as_many => (request.change, number),
            Some(_) | None => self.refuse("an operation on other numbers than it brings"),
        }
    }

    /// Tells members that they now have the lock.
    fn grant(&mut self) -> Result<(), CommError> {
        loop {
            let granted = self.owner.locks.borrow_mut().grant();
            let Some((member, answer)) = granted else { return Ok(()) };
            self.tell(member, answer, Vec::new())?;
        }
    }

    fn tell(&mut self, member: usize, tag: i32, bytes: Vec<u8>) -> Result<(), CommError> {
        let (to, context) =
            (self.comm.group.members()[member], self.comm.context().point_to_point());
        let address = Address { to, context, tag: Tag(tag) };
        let process = &self.session.process;
        // SAFETY: the bytes stay in place, unchanged, in `answers`, until the request is done.
        let id = unsafe {
            process.start_send(address, SendMode::Standard, bytes.as_ptr(), bytes.len())?
        };
        self.owed[member] += bytes.len();
        self.answers.push(Answer { to: member, id, bytes });
        Ok(())
    }

    /// Ends the job because of a request that cannot be carried out. The asking member does not
    /// wait for an answer.
    fn refuse(&self, text: &str) -> ! {
        self.session.die("one-sided communication", &Fault::new(Class::RmaRange, text), &self.comm)
    }
}
