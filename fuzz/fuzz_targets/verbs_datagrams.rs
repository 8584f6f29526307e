//! Datagrams of anybody at a member of the group. Nothing is written outside a block, no more
//! blocks are taken than allowed, and a complete chunk equals the sent one.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use storm_backend_verbs::multicast::assembly::{Assembler, Layout, Store, Verdict};
use storm_backend_verbs::multicast::datagram::Head;

const LAYOUT: Layout = Layout { tag: 77, piece_bytes: 64, max_bytes: 512, window: 4 };

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// The datagram as it is.
    Datagram(&'a [u8]),
    /// A datagram with the tag of the group.
    Piece {
        number: u64,
        offset: u32,
        total: u32,
        piece: &'a [u8],
    },
    /// A datagram that the root could have sent.
    Right {
        number: u8,
        piece: u8,
        total: u16,
    },
    Claim {
        number: u8,
        total: u16,
    },
    Pass {
        ms: u16,
    },
}

/// Memory with a count of its instances.
struct Memory(Vec<u8>, Rc<Cell<usize>>);

impl Store for Memory {
    fn write(&mut self, at: usize, piece: &[u8]) {
        self.0[at..at + piece.len()].copy_from_slice(piece);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.1.set(self.1.get() - 1);
    }
}

fn take(assembler: &mut Assembler<Memory>, used: &Rc<Cell<usize>>, now: Instant, bytes: &[u8]) {
    let room = || {
        used.set(used.get() + 1);
        Some(Memory(vec![0; LAYOUT.max_bytes as usize], used.clone()))
    };
    let verdict = assembler.take(now, bytes, room);
    let is_ours = bytes.get(..8).is_some_and(|tag| tag == LAYOUT.tag.to_le_bytes());
    assert!(is_ours || matches!(verdict, Verdict::Refused(_)), "a stranger was heard");
    assert!(used.get() <= LAYOUT.window, "too many blocks");
}

fuzz_target!(|steps: Vec<Step<'_>>| {
    let (mut assembler, used) = (Assembler::new(LAYOUT), Rc::new(Cell::new(0)));
    let mut now = Instant::now();
    for step in steps {
        match step {
            Step::Datagram(bytes) => take(&mut assembler, &used, now, bytes),
            Step::Piece { number, offset, total, piece } => {
                let head = Head { tag: LAYOUT.tag, number, offset, total };
                take(&mut assembler, &used, now, &[&head.encode()[..], piece].concat());
            }
            Step::Right { number, piece, total } => {
                let total = u32::from(total) % LAYOUT.max_bytes + 1;
                let offset = u32::from(piece) * LAYOUT.piece_bytes % total / 64 * 64;
                let len = (total - offset).min(LAYOUT.piece_bytes) as usize;
                let head = Head { tag: LAYOUT.tag, number: number.into(), offset, total };
                let piece = vec![number; len];
                take(&mut assembler, &used, now, &[&head.encode()[..], &piece].concat());
            }
            Step::Claim { number, total } => {
                let total = u32::from(total) % LAYOUT.max_bytes + 1;
                if let Some(claimed) = assembler.claim(number.into(), total) {
                    let holes = claimed.holes(3);
                    assert!(holes.len() <= 3);
                    assert!(holes.iter().all(|hole| hole.start < hole.end && hole.end <= total));
                }
            }
            Step::Pass { ms } => now += Duration::from_millis(ms.into()),
        }
    }
});
