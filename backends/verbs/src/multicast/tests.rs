//! Chunks that arrive in datagrams, with every kind of loss on the way.

use super::assembly::{Assembler, Layout, Refusal, Store, Verdict};
use super::awaited::{Awaited, Step};
use super::datagram::{HEAD_BYTES, Head};
use proptest::prelude::*;
use std::rc::Rc;
use std::time::{Duration, Instant};

const LAYOUT: Layout = Layout { tag: 77, piece_bytes: 100, max_bytes: 1000, window: 4 };

/// Memory that fails the test if a piece is written outside it.
#[derive(Debug)]
struct Memory(Vec<u8>, #[allow(dead_code, reason = "it is counted")] Rc<()>);

impl Memory {
    fn new() -> Memory {
        Memory::counted(&Rc::default())
    }

    /// Memory that the count of `rooms` includes while it is alive.
    fn counted(rooms: &Rc<()>) -> Memory {
        Memory(vec![0; LAYOUT.max_bytes as usize], rooms.clone())
    }
}

impl Store for Memory {
    fn write(&mut self, at: usize, piece: &[u8]) {
        self.0[at..at + piece.len()].copy_from_slice(piece);
    }
}

fn payload(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 31 + number * 7) as u8).collect()
}

fn datagram(number: u64, offset: u32, total: u32, piece: &[u8]) -> Vec<u8> {
    let head = Head { tag: LAYOUT.tag, number, offset, total };
    [&head.encode()[..], piece].concat()
}

fn datagrams(number: u64, payload: &[u8]) -> Vec<Vec<u8>> {
    let pieces = payload.chunks(LAYOUT.piece_bytes as usize).enumerate();
    let total = payload.len() as u32;
    pieces.map(|(at, piece)| datagram(number, at as u32 * 100, total, piece)).collect()
}

fn take(assembler: &mut Assembler<Memory>, now: Instant, datagram: &[u8]) -> Verdict {
    assembler.take(now, datagram, || Some(Memory::new()))
}

/// The fate of a datagram on its way.
#[derive(Clone, Debug)]
enum Fate {
    Lost,
    /// The datagram arrives late, and possibly more than once.
    Late {
        by: usize,
        times: usize,
    },
    /// This byte of the datagram was changed.
    Changed {
        at: usize,
        by: u8,
    },
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        2 => Just(Fate::Lost),
        6 => (0_usize..60, 1_usize..3).prop_map(|(by, times)| Fate::Late { by, times }),
        // The packet's checksum detects changes in the piece, so the test changes only headers.
        1 => (0..HEAD_BYTES, 1_u8..).prop_map(|(at, by)| Fate::Changed { at, by }),
    ]
}

/// The datagrams that arrive, in order of arrival.
fn arrivals(chunks: &[Vec<u8>], fates: &[Fate]) -> Vec<Vec<u8>> {
    let all = chunks.iter().enumerate().flat_map(|(at, data)| datagrams(at as u64, data));
    let mut arrivals = Vec::new();
    for (at, (datagram, fate)) in all.zip(fates.iter().cycle()).enumerate() {
        match fate {
            Fate::Lost => {}
            Fate::Late { by, times } => {
                arrivals.extend((0..*times).map(|time| (at + by * (time + 1), datagram.clone())));
            }
            // The changed byte is in the tag: the datagram now belongs to another group.
            Fate::Changed { at: place, by } if *place < 8 => {
                let mut datagram = datagram.clone();
                datagram[*place] ^= by;
                arrivals.push((at, datagram));
            }
            Fate::Changed { .. } => arrivals.push((at, vec![0; at % 40])),
        }
    }
    arrivals.sort_by_key(|(when, _)| *when);
    arrivals.into_iter().map(|(_, datagram)| datagram).collect()
}

/// A member that awaits all chunks in order. Its parent fills the holes.
struct Member {
    assembler: Assembler<Memory>,
    now: Instant,
    next: u64,
    since: Instant,
    got: Vec<Vec<u8>>,
}

impl Member {
    /// Continues as far as it can. Returns whether it has all chunks.
    fn go_on(&mut self, chunks: &[Vec<u8>], announced: usize) -> bool {
        while let Some(chunk) = chunks[..announced].get(self.next as usize) {
            let total = chunk.len() as u32;
            let awaited = Awaited { number: self.next, total, since: self.since };
            self.assembler.announce(self.next);
            if matches!(awaited.step(&self.assembler, self.now), Step::Wait(_)) {
                return false;
            }
            let (mut memory, holes) = match self.assembler.claim(self.next, total) {
                Some(claimed) => {
                    let holes = claimed.holes(3);
                    assert!(holes.len() <= 3);
                    (claimed.into_store(), holes)
                }
                None => (Memory::new(), std::iter::once(0..total).collect()),
            };
            for hole in holes {
                let (start, end) = (hole.start as usize, hole.end as usize);
                memory.write(start, &chunk[start..end]);
            }
            memory.0.truncate(chunk.len());
            self.got.push(memory.0);
            self.next += 1;
            self.since = self.now;
        }
        self.next as usize == chunks.len()
    }
}

proptest! {
    /// Datagrams are lost, late, duplicated, reordered, or sent by strangers. Headers come early or
    /// late. Memory is available or not. The member must still get the bytes that were sent.
    #[test]
    fn lost_late_and_duplicate_datagrams_change_no_byte(
        lens in prop::collection::vec(1_usize..=1000, 1..20),
        fates in prop::collection::vec(fate(), 1..80),
        lead in 0_usize..60,
        room_every in 1_usize..4,
    ) {
        let chunks: Vec<_> =
            lens.iter().enumerate().map(|(at, len)| payload(at as u64, *len)).collect();
        let start = Instant::now();
        let assembler = Assembler::new(LAYOUT);
        let mut member = Member { assembler, now: start, next: 0, since: start, got: Vec::new() };
        for (at, datagram) in arrivals(&chunks, &fates).iter().enumerate() {
            let room = || at.is_multiple_of(room_every).then(Memory::new);
            member.assembler.take(member.now, datagram, room);
            member.now += Duration::from_micros(100);
            member.go_on(&chunks, ((at + lead) / 10).min(chunks.len()));
        }
        // The member now asks for the missing parts.
        for _ in 0..2 * chunks.len() {
            member.now += Duration::from_millis(10);
            member.go_on(&chunks, chunks.len());
        }
        prop_assert_eq!(member.got, chunks);
    }

    /// For any datagrams, nothing is written outside the memory, and the number of kept chunks
    /// stays within the bound.
    #[test]
    fn no_datagram_does_harm(
        heads in prop::collection::vec(
            (any::<bool>(), prop_oneof![0_u64..20, any::<u64>()], 0_u32..1300, 0_u32..1300, 0_usize..120),
            0..200,
        ),
    ) {
        let (mut assembler, now) = (Assembler::new(LAYOUT), Instant::now());
        let rooms = Rc::default();
        for (ours, number, offset, total, len) in heads {
            let tag = if ours { LAYOUT.tag } else { 3 };
            let head = Head { tag, number, offset: offset / 100 * 100, total };
            let bytes = [&head.encode()[..], &vec![1; len]].concat();
            let verdict = assembler.take(now, &bytes, || Some(Memory::counted(&rooms)));
            if !ours {
                prop_assert_eq!(verdict, Verdict::Refused(Refusal::Stranger));
            }
            let used = Rc::strong_count(&rooms) - 1;
            prop_assert!(used <= LAYOUT.window, "{used} rooms are in use at a time");
        }
    }
}

#[test]
fn each_impossible_datagram_is_refused_for_its_reason() {
    let (mut assembler, now) = (Assembler::new(LAYOUT), Instant::now());
    let mut refusal = |bytes: &[u8]| match take(&mut assembler, now, bytes) {
        Verdict::Refused(refusal) => Some(refusal),
        Verdict::Placed | Verdict::Probe => None,
    };
    assert_eq!(refusal(&[1; HEAD_BYTES - 1]), Some(Refusal::Stranger));
    assert_eq!(refusal(&datagram(40, 0, 1001, &[0; 100])), Some(Refusal::Shape), "too long");
    assert_eq!(refusal(&datagram(40, 300, 300, &[0; 100])), Some(Refusal::Shape), "behind the end");
    assert_eq!(refusal(&datagram(40, 50, 300, &[0; 100])), Some(Refusal::Shape), "between pieces");
    assert_eq!(refusal(&datagram(40, 200, 250, &[0; 100])), Some(Refusal::Shape), "a long end");
    assert_eq!(refusal(&datagram(40, 0, 250, &[0; 99])), Some(Refusal::Shape), "a short piece");
    assert_eq!(refusal(&datagram(u64::MAX, 0, 100, &[0; 100])), Some(Refusal::Shape));
    assert_eq!(refusal(&datagram(40, 0, 250, &[0; 100])), None);
    assert_eq!(refusal(&datagram(40, 0, 250, &[0; 100])), Some(Refusal::Twice));
    assert_eq!(refusal(&datagram(40, 100, 350, &[0; 100])), Some(Refusal::Shape), "longer now");
    assert_eq!(refusal(&datagram(3, 0, 250, &[0; 100])), Some(Refusal::Over), "long ago");
    for number in 41..44 {
        assert_eq!(refusal(&datagram(number, 0, 250, &[0; 100])), None);
    }
    assert_eq!(refusal(&datagram(39, 0, 250, &[0; 100])), Some(Refusal::Full), "the oldest of all");
    assert_eq!(refusal(&datagram(40 + 9999, 0, 250, &[0; 100])), Some(Refusal::Far));
    assert!(assembler.claim(41, 250).is_some());
    let late = take(&mut assembler, now, &datagram(41, 100, 250, &[0; 100]));
    assert_eq!(late, Verdict::Refused(Refusal::Over), "it was claimed");
    assert!(assembler.claim(42, 999).is_none(), "another length was announced");
}

#[test]
fn unannounced_chunks_make_room_for_later_ones() {
    let (mut assembler, now) = (Assembler::new(LAYOUT), Instant::now());
    for number in 0..5 {
        let first = datagram(number, 0, 250, &[0; 100]);
        assert_eq!(take(&mut assembler, now, &first), Verdict::Placed);
    }
    assert!(assembler.claim(0, 250).is_none(), "the oldest has made room");
    assert!(assembler.claim(1, 250).is_some());
}

#[test]
fn unannounced_chunks_are_dropped_after_a_second() {
    let (mut assembler, now) = (Assembler::new(LAYOUT), Instant::now());
    let rooms = Rc::default();
    for (number, ms) in [(0, 0), (1, 600)] {
        let (at, bytes) = (now + Duration::from_millis(ms), datagram(number, 0, 250, &[0; 100]));
        assembler.take(at, &bytes, || Some(Memory::counted(&rooms)));
    }
    assembler.sweep(now + Duration::from_millis(900));
    assert_eq!(Rc::strong_count(&rooms), 3, "both may still be announced");
    assembler.sweep(now + Duration::from_millis(1100));
    assert_eq!(Rc::strong_count(&rooms), 2);
    assert!(assembler.claim(0, 250).is_none());
    assembler.sweep(now + Duration::from_millis(1700));
    assert_eq!(Rc::strong_count(&rooms), 1, "nothing is kept for nobody");
}

/// A member that lies about the root's progress, once or often, does not keep other members from
/// receiving the root's chunks.
#[test]
fn a_number_far_ahead_is_not_believed() {
    let (mut assembler, now) = (Assembler::new(LAYOUT), Instant::now());
    assert_eq!(take(&mut assembler, now, &datagram(5, 0, 0, &[])), Verdict::Probe);
    let mut far = 1 << 60;
    for total in [0, 250] {
        far += 1;
        let lie = datagram(far, 0, total, &vec![0; total.min(100) as usize]);
        assert_eq!(take(&mut assembler, now, &lie), Verdict::Refused(Refusal::Far));
    }
    for number in 5..500 {
        // Small steps, each a little further than the last, do not help the liar either.
        for step in 0..100 {
            take(&mut assembler, now, &datagram(number + step, 0, 0, &[]));
        }
        assert!(assembler.next() <= number + 16, "{} of {number}", assembler.next());
        assembler.announce(number);
        for piece in datagrams(number, &payload(number, 250)) {
            assert_eq!(take(&mut assembler, now, &piece), Verdict::Placed);
        }
        assert!(assembler.is_complete(number), "{number}");
        assert!(assembler.claim(number, 250).is_some());
    }
}

/// The memory of claimed chunks is bounded, for any number of them and any numbers.
#[test]
fn ended_transfers_are_forgotten() {
    let mut assembler = Assembler::<Memory>::new(LAYOUT);
    for number in (0..2000).chain((0..2000).map(|step| step << 40)) {
        assembler.announce(number);
        assert!(assembler.claim(number, 250).is_none());
        assert!(assembler.remembered() <= 40, "{}", assembler.remembered());
    }
}

#[test]
fn lane_reports_count_more_than_hearsay() {
    let (mut assembler, now) = (Assembler::new(LAYOUT), Instant::now());
    // The first number received is a lie.
    take(&mut assembler, now, &datagram(1 << 60, 0, 250, &[0; 100]));
    assembler.announce(7);
    assert_eq!(assembler.next(), 7);
    assert_eq!(take(&mut assembler, now, &datagram(7, 0, 100, &[0; 100])), Verdict::Placed);
    assert!(assembler.is_complete(7));
    assert!(!assembler.is_past(7));
    // The member received its data in another way for a long time, and other members received the
    // chunks.
    assembler.announce(1 << 40);
    let now_there = datagram(1 << 40, 0, 100, &[0; 100]);
    assert_eq!(take(&mut assembler, now, &now_there), Verdict::Placed);
    assert!(assembler.is_complete(1 << 40));
}

#[test]
fn a_member_hears_from_the_chunk_after_what_it_first_heard() {
    let (mut assembler, now) = (Assembler::new(LAYOUT), Instant::now());
    assert_eq!(assembler.first(), None);
    assert_eq!(take(&mut assembler, now, &datagram(9, 0, 0, &[])), Verdict::Probe);
    assert_eq!((assembler.first(), assembler.next()), (Some(9), 9));
    // The chunk may have begun before this member was there.
    let mut late = Assembler::new(LAYOUT);
    take(&mut late, now, &datagram(9, 100, 250, &[0; 100]));
    assert_eq!((late.first(), late.next()), (Some(10), 10));
}

#[test]
fn holes_are_ranges_that_cover_what_is_missing() {
    let (mut assembler, now) = (Assembler::new(LAYOUT), Instant::now());
    let data = payload(0, 950);
    for at in [1, 3, 4, 7] {
        take(&mut assembler, now, &datagrams(0, &data)[at]);
    }
    let claimed = assembler.claim(0, 950).expect("some of it");
    assert_eq!(claimed.holes(9), [0..100, 200..300, 500..700, 800..950]);
    assert_eq!(claimed.holes(2), [0..100, 200..950]);
}

#[test]
fn missing_messages_are_requested_after_later_ones_or_a_timeout() {
    let (mut assembler, now) = (Assembler::<Memory>::new(LAYOUT), Instant::now());
    let awaited = Awaited { number: 5, total: 250, since: now };
    let Step::Wait(pause) = awaited.step(&assembler, now) else { panic!("nothing is lost yet") };
    assert_eq!(awaited.step(&assembler, now + pause), Step::Ask);
    take(&mut assembler, now, &datagram(5, 0, 250, &[0; 100]));
    assert!(matches!(awaited.step(&assembler, now), Step::Wait(_)));
    take(&mut assembler, now, &datagram(6, 0, 250, &[0; 100]));
    assert_eq!(awaited.step(&assembler, now), Step::Ask);
    take(&mut assembler, now, &datagram(5, 100, 250, &[0; 100]));
    take(&mut assembler, now, &datagram(5, 200, 250, &[0; 50]));
    assert_eq!(awaited.step(&assembler, now), Step::Take);
}
