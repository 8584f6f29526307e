//! Epochs: the times in which a process may access other members' parts, and the completion of its
//! operations.

use super::Window;
use super::wire::{Request, Verb};
use crate::fault::{Class, Fault, Outcome};
use std::collections::BTreeMap;
use storm_mpi::Tag;

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Exclusive,
    Shared,
}

/// The open epochs.
#[derive(Default)]
pub(crate) struct Epochs {
    /// An epoch since a fence.
    fenced: bool,
    /// An access epoch of this process, with these members.
    started: Option<Vec<usize>>,
    /// An exposure epoch for these members.
    posted: Option<Vec<usize>>,
    /// Locks of these members, and whether each was requested.
    locked: BTreeMap<usize, bool>,
    /// The lock of all members, and whether it was requested.
    locked_all: Option<bool>,
}

impl Epochs {
    /// Whether this process may reach the member's part now.
    pub(super) fn admit(&self, member: usize) -> bool {
        let started = self.started.as_ref().is_some_and(|started| started.contains(&member));
        self.fenced || started || self.is_passive(member)
    }

    /// Whether an epoch is open that its own function must end.
    pub(super) fn are_open(&self) -> bool {
        self.started.is_some() || self.posted.is_some() || self.has_locks()
    }

    fn has_locks(&self) -> bool {
        !self.locked.is_empty() || self.locked_all.is_some()
    }

    fn is_passive(&self, member: usize) -> bool {
        self.locked_all.is_some() || self.locked.contains_key(&member)
    }
}

fn wrong(text: &str) -> Fault {
    Fault::new(Class::RmaSync, text)
}

impl Window {
    /// Completes the operations of all members since the last fence, at all members. Begins an
    /// epoch if `follows`.
    pub(crate) fn fence(&self, follows: bool) -> Outcome {
        if self.epochs.borrow().are_open() {
            return Err(wrong("a fence inside another epoch"));
        }
        self.flush_all()?;
        self.barrier()?;
        self.epochs.borrow_mut().fenced = follows;
        Ok(())
    }

    /// Opens this process's part to members.
    pub(crate) fn post(&self, members: Vec<usize>) -> Outcome {
        if self.epochs.borrow().posted.is_some() {
            return Err(wrong("the part of this process is open already"));
        }
        members.iter().try_for_each(|&member| self.let_in(member))?;
        self.epochs.borrow_mut().posted = Some(members);
        Ok(())
    }

    /// Waits until these members open their parts to this process.
    pub(crate) fn start(&self, members: Vec<usize>) -> Outcome {
        if self.epochs.borrow().started.is_some() || self.epochs.borrow().has_locks() {
            return Err(wrong("another epoch of this process is open"));
        }
        members.iter().try_for_each(|&member| self.be_let_in(member))?;
        let mut epochs = self.epochs.borrow_mut();
        epochs.started = Some(members);
        epochs.fenced = false;
        Ok(())
    }

    /// Tells the members that no more operations follow.
    pub(crate) fn complete(&self) -> Outcome {
        let none = || wrong("no epoch was started");
        let members = self.epochs.borrow_mut().started.take().ok_or_else(none)?;
        for &member in &members {
            let number = self.ask(member, &Request::bare(Verb::Complete, 0), &[])?;
            // A member that has received the message has done everything before it.
            self.settle(member, number);
        }
        self.flush_local(|member| members.contains(&member))
    }

    /// Whether all admitted members have reported that they are done; waits for it with `block`.
    pub(crate) fn closed(&self, block: bool) -> Outcome<bool> {
        let none = || wrong("no part was opened");
        let members = self.epochs.borrow_mut().posted.take().ok_or_else(none)?;
        let mut looked = false;
        loop {
            if self.owner.take_completed(&members) {
                return Ok(true);
            }
            if looked && !block {
                self.epochs.borrow_mut().posted = Some(members);
                return Ok(false);
            }
            self.session.process.progress(block)?;
            looked = true;
        }
    }

    /// Waits for a member's lock. Without `asked`, the program guarantees that no other member
    /// wants the lock.
    pub(crate) fn lock(&self, member: usize, kind: LockKind, asked: bool) -> Outcome {
        let epochs = self.epochs.borrow();
        if epochs.is_passive(member) || epochs.started.is_some() {
            return Err(wrong("locked already, or inside another epoch"));
        }
        drop(epochs);
        if asked {
            self.get_locks(&[member], kind)?;
        }
        let mut epochs = self.epochs.borrow_mut();
        epochs.locked.insert(member, asked);
        // The lock begins another epoch, in the place of the one since the fence.
        epochs.fenced = false;
        Ok(())
    }

    /// Waits for a share of all members' locks.
    pub(crate) fn lock_all(&self, asked: bool) -> Outcome {
        let epochs = self.epochs.borrow();
        if epochs.has_locks() || epochs.started.is_some() {
            return Err(wrong("locked already, or inside another epoch"));
        }
        drop(epochs);
        if asked {
            self.get_locks(&self.all(), LockKind::Shared)?;
        }
        let mut epochs = self.epochs.borrow_mut();
        epochs.locked_all = Some(asked);
        epochs.fenced = false;
        Ok(())
    }

    /// Ends the epoch with a member, when all operations on its part are done.
    pub(crate) fn unlock(&self, member: usize) -> Outcome {
        let none = || wrong("unlocked without a lock");
        let asked = self.epochs.borrow().locked.get(&member).copied().ok_or_else(none)?;
        self.give_back(&[member], asked)?;
        self.epochs.borrow_mut().locked.remove(&member);
        Ok(())
    }

    /// Ends the epoch with all members, when all operations on their parts are done.
    pub(crate) fn unlock_all(&self) -> Outcome {
        let none = || wrong("unlocked without a lock");
        let asked = self.epochs.borrow().locked_all.ok_or_else(none)?;
        self.give_back(&self.all(), asked)?;
        self.epochs.borrow_mut().locked_all = None;
        Ok(())
    }

    /// Checks that a lock's epoch is open with that member, or with any.
    pub(crate) fn is_locked(&self, member: Option<usize>) -> Outcome {
        let epochs = self.epochs.borrow();
        match member {
            Some(member) if epochs.is_passive(member) => Ok(()),
            None if epochs.has_locks() => Ok(()),
            Some(_) | None => Err(wrong("outside of an epoch of locks")),
        }
    }

    fn all(&self) -> Vec<usize> {
        (0..self.comm.size()).collect()
    }

    fn get_locks(&self, members: &[usize], kind: LockKind) -> Outcome {
        let exclusive: &[u8] = if kind == LockKind::Exclusive { &[1] } else { &[] };
        self.answered(members, Verb::Lock, exclusive)
    }

    fn give_back(&self, members: &[usize], asked: bool) -> Outcome {
        if !asked {
            return self.flush(members);
        }
        self.answered(members, Verb::Unlock, &[])?;
        self.flush_local(|member| members.contains(&member))
    }

    /// Sends the same request to members, and waits for all answers. Every earlier request is then
    /// done too.
    fn answered(&self, members: &[usize], verb: Verb, data: &[u8]) -> Outcome {
        let mut answers = Vec::with_capacity(members.len());
        for &member in members {
            let answer = self.next_answer();
            let number = self.ask(member, &Request::bare(verb, answer), data)?;
            answers.push((answer, number));
        }
        for (&member, (answer, number)) in members.iter().zip(answers) {
            self.hear(member, Tag(answer))?;
            self.settle(member, number);
        }
        Ok(())
    }
}
