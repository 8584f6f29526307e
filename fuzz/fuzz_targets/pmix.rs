//! The inputs of the PMIx client and server of a node: programs, answers, files of users,
//! placements, and the data that servers of other nodes have for this node.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use storm_pmix::fuzzing::{self, PeerValue};

/// Ranks of a job that a placement is asked for.
const RANKS_MAX: u32 = 1000;

#[derive(Arbitrary, Debug)]
enum Play<'a> {
    Program(&'a [u8]),
    Answer(&'a [u8]),
    UsersFile(&'a [u8]),
    Placement { mapping: &'a str, blocks: Vec<(u32, u32, u32)>, size: u32, rank: u32 },
    Exchange { nodes: u8, own: u8, heartbeat_bytes: u16, blob: &'a [u8], said: Vec<Peers<'a>> },
}

#[derive(Arbitrary, Debug)]
enum Peers<'a> {
    Nothing,
    Raw(&'a str),
    Headed(&'a str),
    /// The first words of a node, with text that may be base64.
    First {
        length: u32,
        text: &'a str,
    },
}

fuzz_target!(|play: Play<'_>| match play {
    Play::Program(bytes) => {
        fuzzing::program(bytes);
    }
    Play::Answer(bytes) => {
        fuzzing::answer(bytes);
    }
    Play::UsersFile(bytes) => fuzzing::users_file(bytes),
    Play::Placement { mapping, blocks, size, rank } => {
        let size = size % RANKS_MAX;
        fuzzing::placement(mapping, size, rank % size.max(1));
        let blocks: Vec<String> = blocks
            .iter()
            .map(|(first, nodes, ranks)| format!(",({first},{nodes},{ranks})"))
            .collect();
        fuzzing::placement(&format!("(vector{})", blocks.concat()), size, rank % size.max(1));
    }
    Play::Exchange { nodes, own, heartbeat_bytes, blob, said } => {
        let said: Vec<PeerValue> = said
            .into_iter()
            .map(|said| match said {
                Peers::Nothing => PeerValue::Nothing,
                Peers::Raw(text) => PeerValue::Raw(text.to_owned()),
                Peers::Headed(text) => PeerValue::Headed(text.to_owned()),
                Peers::First { length, text } => PeerValue::Headed(format!("{length} {text}")),
            })
            .collect();
        fuzzing::exchange(nodes, own, heartbeat_bytes, blob, &said);
    }
});
