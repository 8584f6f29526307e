//! Explores all sequences of events between two ends. Every message is found in the end, although
//! each end begins to sleep when it has nothing to do.

use super::Attention;
use std::collections::{BTreeSet, VecDeque};

/// Messages that each end sends.
const MESSAGES: u8 = 2;
/// The number of rounds. In a round, both ends process their items, and each finds the messages of
/// the previous round.
const ROUNDS: usize = 8;

/// An item on its way from one end to the other, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    /// A message in a slot.
    Silent,
    /// A message with a completion.
    Told {
        looks: bool,
    },
    Sleeps {
        found: u8,
        wakes: bool,
    },
    Heard {
        wakes: bool,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    attention: Attention,
    looks: bool,
    sent: u8,
    found: u8,
    /// The items sent to it: on their way, and arrived.
    on_the_way: VecDeque<Item>,
    here: VecDeque<Item>,
}

/// The rule that is left out, to check that the test fails without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Omitted {
    Nothing,
    /// Answers wake no end.
    WakingAnswers,
    /// `Sleeps` wakes no end.
    WakingFarewells,
    /// An end that begins to sleep does not announce it.
    Farewells,
}

type Ends = [End; 2];

fn wakes(item: &Item) -> bool {
    match item {
        Item::Silent => false,
        Item::Told { .. } => true,
        Item::Sleeps { wakes, .. } | Item::Heard { wakes } => *wakes,
    }
}

/// Finds the next message in its slot, if it is there. Notes, which have no number, may come before
/// it.
fn find(end: &mut End) -> bool {
    let next = end.here.iter().position(|item| matches!(item, Item::Silent | Item::Told { .. }));
    let Some(at) = next.filter(|at| end.here[*at] == Item::Silent) else { return false };
    end.here.remove(at);
    end.found += 1;
    end.attention.they_look();
    true
}

/// Takes the next completion, as a pipe does.
fn complete(ends: &mut Ends, own: usize, omitted: Omitted) -> bool {
    let end = &mut ends[own];
    let Some(at) = end.here.iter().position(|item| *item != Item::Silent) else { return false };
    let item = end.here[at];
    // Every message sent before the completion has arrived.
    match item {
        Item::Silent => {}
        Item::Told { looks } => {
            while find(end) {}
            end.found += 1;
            if looks {
                end.attention.they_look();
            }
        }
        Item::Sleeps { found, .. } => {
            while find(end) {}
            end.attention.they_sleep(found == end.sent);
        }
        Item::Heard { .. } => {
            while find(end) {}
            end.attention.they_heard();
        }
    }
    let at = end.here.iter().position(|other| *other != Item::Silent).expect("the same one");
    end.here.remove(at);
    if let Some(wakes) = end.attention.answer() {
        end.attention.answered();
        let wakes = wakes && omitted != Omitted::WakingAnswers;
        ends[1 - own].on_the_way.push_back(Item::Heard { wakes });
    }
    true
}

fn send(ends: &mut Ends, own: usize) {
    let end = &mut ends[own];
    let item = match end.attention.is_mutual(end.looks) {
        true => {
            end.attention.wrote_silently();
            Item::Silent
        }
        false => Item::Told { looks: end.attention.announce(end.looks) },
    };
    end.sent += 1;
    ends[1 - own].on_the_way.push_back(item);
}

fn sleep(ends: &mut Ends, own: usize, omitted: Omitted) {
    let end = &mut ends[own];
    end.looks = false;
    let farewell = end.attention.farewell().filter(|_| omitted != Omitted::Farewells);
    if let Some(wakes) = farewell {
        end.attention.said_farewell();
        let wakes = wakes && omitted != Omitted::WakingFarewells;
        let item = Item::Sleeps { found: end.found, wakes };
        ends[1 - own].on_the_way.push_back(item);
    }
}

fn arrive(end: &mut End) -> bool {
    let item = end.on_the_way.pop_front();
    end.here.extend(item);
    item.is_some()
}

/// All states that can follow.
fn next(ends: &Ends, omitted: Omitted) -> Vec<Ends> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Ends)| {
        let mut ends = ends.clone();
        change(&mut ends);
        all.push(ends);
    };
    for own in [0, 1] {
        if ends[own].sent < MESSAGES {
            add(&|ends| send(ends, own));
        }
        add(&|ends| {
            arrive(&mut ends[own]);
        });
        match ends[own].looks {
            true => {
                add(&|ends| {
                    find(&mut ends[own]);
                });
                add(&|ends| {
                    complete(ends, own, omitted);
                });
                add(&|ends| sleep(ends, own, omitted));
            }
            // Another event may wake it as well.
            false => add(&|ends| ends[own].looks = true),
        }
    }
    all
}

/// Whether every message is found if no end sends any more. Each end sleeps as soon as it has
/// nothing to do, and wakes only when woken.
fn ends_well(mut ends: Ends, omitted: Omitted) -> bool {
    for _ in 0..ROUNDS {
        for own in [0, 1] {
            while arrive(&mut ends[own]) {}
            ends[own].looks |= ends[own].here.iter().any(wakes);
            if ends[own].looks {
                while find(&mut ends[own]) || complete(&mut ends, own, omitted) {}
                sleep(&mut ends, own, omitted);
            }
        }
    }
    (0..2).all(|own| ends[own].found == ends[1 - own].sent && ends[own].on_the_way.is_empty())
}

/// At most one note of each kind may be on its way to an end or unread there.
fn check_notes(end: &End) {
    let all = || end.on_the_way.iter().chain(&end.here);
    assert!(all().filter(|item| matches!(item, Item::Sleeps { .. })).count() <= 1, "{end:?}");
    assert!(all().filter(|item| matches!(item, Item::Heard { .. })).count() <= 1, "{end:?}");
}

/// The number of reachable states, and a state that does not end well, if there is one.
fn explore(omitted: Omitted) -> (usize, Option<Ends>) {
    let (mut seen, mut todo) = (BTreeSet::new(), VecDeque::from([Ends::default()]));
    while let Some(ends) = todo.pop_front() {
        if !seen.insert(ends.clone()) {
            continue;
        }
        ends.iter().for_each(check_notes);
        if !ends_well(ends.clone(), omitted) {
            return (seen.len(), Some(ends));
        }
        todo.extend(next(&ends, omitted).into_iter().filter(|ends| !seen.contains(ends)));
    }
    (seen.len(), None)
}

#[test]
fn every_sent_message_is_found() {
    let (states, lost) = explore(Omitted::Nothing);
    assert_eq!(lost, None);
    assert!(states > 10_000, "messages without a word are among them: {states}");
}

#[test]
fn each_rule_is_needed() {
    for omitted in [Omitted::WakingAnswers, Omitted::WakingFarewells, Omitted::Farewells] {
        assert!(explore(omitted).1.is_some(), "{omitted:?}");
    }
}
