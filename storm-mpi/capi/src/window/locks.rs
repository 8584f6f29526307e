//! Holders of the lock of a member's part, and members that wait for it: first come, first served.

use std::collections::VecDeque;

/// One member's lock.
#[derive(Default)]
pub(super) struct Locks {
    /// The holders: one alone, or several that share the lock.
    holders: Vec<usize>,
    is_exclusive: bool,
    waiting: VecDeque<Wish>,
}

struct Wish {
    member: usize,
    is_exclusive: bool,
    answer: i32,
}

impl Locks {
    /// A member asks for the lock. It gets an answer with that tag when it has the lock.
    pub(super) fn ask(&mut self, member: usize, is_exclusive: bool, answer: i32) {
        self.waiting.push_back(Wish { member, is_exclusive, answer });
    }

    /// A member gives the lock back.
    pub(super) fn release(&mut self, member: usize) {
        if let Some(at) = self.holders.iter().position(|&holder| holder == member) {
            self.holders.swap_remove(at);
        }
    }

    /// Gives the lock to the next member, if it is free for it. Returns the member and the tag.
    pub(super) fn grant(&mut self) -> Option<(usize, i32)> {
        let next = self.waiting.front()?;
        let free = self.holders.is_empty() || !(self.is_exclusive || next.is_exclusive);
        if !free {
            return None;
        }
        let Wish { member, is_exclusive, answer } = self.waiting.pop_front()?;
        self.holders.push(member);
        self.is_exclusive = is_exclusive;
        Some((member, answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sharing_job_does_not_pass_an_exclusive_one() {
        let mut locks = Locks::default();
        for (member, is_exclusive) in [(0, false), (1, false), (2, true), (3, false), (4, true)] {
            locks.ask(member, is_exclusive, member as i32);
        }
        let granted = |locks: &mut Locks| {
            std::iter::from_fn(|| locks.grant()).map(|(member, _)| member).collect::<Vec<_>>()
        };
        assert_eq!(granted(&mut locks), [0, 1]);
        locks.release(0);
        assert_eq!(granted(&mut locks), []);
        locks.release(1);
        assert_eq!(granted(&mut locks), [2]);
        locks.release(77);
        assert_eq!(granted(&mut locks), []);
        locks.release(2);
        assert_eq!(granted(&mut locks), [3]);
        locks.release(3);
        assert_eq!(granted(&mut locks), [4]);
    }
}
