//! Memory that the members of a window on one node share: a gate for each of them, then their
//! parts.

use super::Part;
use super::exposed::{Exposed, Gate};
use crate::comm::Comm;
use crate::fault::{Class, Fault, Outcome};
use crate::gathered::gathered;
use crate::session::Session;
use storm_mpi::SharedMemory;
use storm_mpi::collective::{Party, now};

/// Gates, and parts that need not be one piece, begin at a cache line of this size.
const LINE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
/// Bytes that name a process and one of its descriptors. No process has number 0.
const NAME_BYTES: usize = 8;

/// The memory, and the places of the parts.
pub(super) struct Neighbourhood {
    memory: SharedMemory,
    /// Members on this node, in order, and the beginnings of their parts.
    members: Vec<(usize, usize)>,
}

impl Neighbourhood {
    /// Makes the memory with the members on this node; all members call it. `None` if no other
    /// member is here, or if the system refuses the memory to any of them.
    pub(super) fn open(
        session: &Session,
        comm: &Comm,
        parts: &[Part],
        one_piece: bool,
    ) -> Outcome<Option<Self>> {
        let node = session.process.node_ranks();
        let ranks = comm.group.members();
        let here: Vec<usize> =
            (0..ranks.len()).filter(|&at| node.binary_search(&ranks[at]).is_ok()).collect();
        if here.len() < 2 {
            return Ok(None);
        }
        let Some((members, bytes)) = places(&here, parts, one_piece) else {
            return Err(Fault::new(Class::NoMemory, "a window larger than memory can be"));
        };
        let neighbours: Vec<_> = here.iter().map(|&at| ranks[at]).collect();
        let me = here.iter().position(|&at| at == comm.me).unwrap_or_default();
        let party = Party::new(&session.process, &neighbours, me, comm.context().collective());
        let mut name = [0; NAME_BYTES];
        let made = if me == 0 { SharedMemory::create(bytes).ok() } else { None };
        if let Some((_, file)) = &made {
            let (pid, fd) = SharedMemory::name(file);
            name[..4].copy_from_slice(&pid.to_ne_bytes());
            name[4..].copy_from_slice(&fd.to_ne_bytes());
        }
        now(party.bcast(&mut name, 0))?;
        let (pid, fd) = name.split_at(NAME_BYTES / 2);
        let number = |bytes: &[u8]| u32::from_ne_bytes(std::array::from_fn(|i| bytes[i]));
        let (memory, file) = match made {
            Some((memory, file)) => (Some(memory), Some(file)),
            None if number(pid) == 0 => (None, None),
            None => (SharedMemory::open(number(pid), number(fd) as i32, bytes).ok(), None),
        };
        // The file stays open until all members have mapped it.
        let all = gathered(party, &[u8::from(memory.is_some())])?;
        drop(file);
        let memory = memory.filter(|_| !all.contains(&0));
        Ok(memory.map(|memory| Neighbourhood { memory, members }))
    }

    /// Beginning of a member's part; null for a member on another node.
    pub(super) fn start(&self, member: usize) -> *mut u8 {
        let place = self.place(member);
        place
            .map_or(std::ptr::null_mut(), |at| self.memory.start().wrapping_add(self.members[at].1))
    }

    /// Whether that member is on this node.
    pub(super) fn has(&self, member: usize) -> bool {
        self.place(member).is_some()
    }

    /// A member's part of `bytes` bytes; none for a member on another node.
    pub(super) fn exposed(&self, member: usize, bytes: usize) -> Exposed {
        let Some(at) = self.place(member) else {
            return Exposed::Whole { start: std::ptr::null_mut(), bytes: 0, gate: None };
        };
        // SAFETY: `places` left a line for each member at the beginning. Its first word is only
        // used as a gate, and is zero at first, as all of the memory. The window outlasts the
        // exposed part.
        let gate = unsafe { Gate::at(self.memory.start().wrapping_add(at * LINE_BYTES)) };
        Exposed::Whole { start: self.start(member), bytes, gate: Some(gate) }
    }

    fn place(&self, member: usize) -> Option<usize> {
        self.members.binary_search_by_key(&member, |&(own, _)| own).ok()
    }
}

/// The beginnings of the members' parts, behind the gates, and the length of all. `None` if it is
/// more than memory can be.
fn places(here: &[usize], parts: &[Part], one_piece: bool) -> Option<(Vec<(usize, usize)>, usize)> {
    let mut end = (here.len() * LINE_BYTES).next_multiple_of(PAGE_BYTES);
    let mut members = Vec::with_capacity(here.len());
    for &member in here {
        if !one_piece {
            end = end.checked_next_multiple_of(LINE_BYTES)?;
        }
        members.push((member, end));
        end = end.checked_add(parts[member].bytes)?;
    }
    isize::try_from(end).ok().map(|_| (members, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_after_the_other_behind_the_gates() {
        let parts = [5, 0, 100, 7].map(|bytes| Part { bytes, unit: 1 });
        let (members, end) = places(&[0, 2, 3], &parts, true).expect("small");
        assert_eq!((members, end), (vec![(0, 4096), (2, 4101), (3, 4201)], 4208));
        let (members, _) = places(&[0, 1, 2, 3], &parts, false).expect("small");
        assert!(members.iter().all(|(_, at)| at % LINE_BYTES == 0));
        let huge = [Part { bytes: usize::MAX / 2, unit: 1 }; 2];
        assert!(places(&[0, 1], &huge, true).is_none());
    }
}
